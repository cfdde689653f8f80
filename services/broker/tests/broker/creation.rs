use mosaic_proto::broker::v1 as pb;

use crate::bed::{Bed, create, get, queued, reason, spec};

#[tokio::test]
async fn the_same_request_makes_one_run_also_after_a_restart() {
    let mut bed = Bed::start().await;
    let first = create(&mut bed.launcher(), "q").await.expect("created");
    assert!(first.created);
    let again = create(&mut bed.launcher(), "q").await.expect("found");
    assert!(!again.created);
    bed.restart().await;
    let later = create(&mut bed.launcher(), "q").await.expect("found");
    assert!(!later.created);
    assert_eq!(first.run, again.run);
    assert_eq!(first.run, later.run);
    assert_eq!(bed.assert_intact().await, 1);
}

#[tokio::test]
async fn the_same_request_with_another_spec_is_refused_and_one_written_differently_is_not() {
    let bed = Bed::start().await;
    queued(&bed, "q").await;
    let other = pb::CreateRunRequest { request_id: "q".to_owned(), spec: spec("do something else") };
    assert_eq!(reason(bed.launcher().create_run(other).await), "invalid-request");
    let spaced = pb::CreateRunRequest { request_id: "q".to_owned(), spec: spec("do it").replace("\":", "\" : ") };
    assert!(!bed.launcher().create_run(spaced).await.expect("the same spec").into_inner().created);
}

#[tokio::test]
async fn many_at_once_with_one_request_make_one_run() {
    let bed = Bed::start().await;
    let calls = (0..50).map(|_| {
        let mut launcher = bed.launcher();
        async move { create(&mut launcher, "q").await.expect("answered") }
    });
    let answers = futures::future::join_all(calls).await;
    assert_eq!(answers.iter().filter(|answer| answer.created).count(), 1);
    assert!(answers.iter().all(|answer| answer.run == answers[0].run));
    assert_eq!(bed.assert_intact().await, 1);
}

#[tokio::test]
async fn a_malformed_request_is_refused_naming_what_is_wrong() {
    let bed = Bed::start().await;
    let mut launcher = bed.launcher();
    let unknown_key = spec("do it").replace("\"noWait\"", "\"nowait\"");
    let unknown_tool = spec("do it").replace("\"tools\":[]", "\"tools\":[\"sudo\"]");
    for (request_id, spec, told) in [
        ("", spec("do it"), "request_id"),
        ("a b", spec("do it"), "request_id"),
        ("q", "{".to_owned(), "spec"),
        ("q", format!("{} {{}}", spec("do it")), "trailing"),
        ("q", unknown_key, "nowait"),
        ("q", unknown_tool, "tools[0]"),
    ] {
        let request = pb::CreateRunRequest { request_id: request_id.to_owned(), spec };
        let status = launcher.create_run(request).await.expect_err("refused");
        assert!(status.message().contains(told), "{}", status.message());
        assert_eq!(reason::<()>(Err(status)), "invalid-request");
    }
    assert_eq!(bed.assert_intact().await, 0);
}

#[tokio::test]
async fn a_run_is_read_back_with_its_record_and_spec() {
    let bed = Bed::start().await;
    let run_id = queued(&bed, "q").await;
    let run = get(&bed, &run_id).await;
    assert_eq!((run.state(), run.epoch, run.last_sequence), (pb::run::State::Queued, 0, 1));
    assert!(run_id.starts_with("r-20260102T030405678Z-"), "{run_id}");
    let given: serde_json::Value = serde_json::from_str(&spec("do it")).expect("JSON");
    let spec: serde_json::Value = serde_json::from_str(&run.spec).expect("JSON");
    assert_eq!(spec, given);
    let record: serde_json::Value = serde_json::from_str(&run.record).expect("JSON");
    assert_eq!(record["request"], "do it");
    assert_eq!(record["expectedExact"], "done");
    assert_eq!(record["requestedBy"], "service:launcher");
    assert_eq!(record["traceId"], "0af7651916cd43dd8448eb211c80319c");
}

#[tokio::test]
async fn a_run_with_a_prompt_of_many_megabytes_is_taken_and_read_back() {
    let bed = Bed::start().await;
    let prompt = "\u{4f60}\u{597d}\u{2028}\n".repeat(1024 * 1024);
    let request = pb::CreateRunRequest { request_id: "q".to_owned(), spec: spec(&prompt) };
    let run = bed.launcher().create_run(request).await.expect("created").into_inner().run.expect("a run");
    let record: serde_json::Value = serde_json::from_str(&get(&bed, &run.run_id).await.record).expect("JSON");
    assert!(record["request"] == prompt.as_str(), "the prompt is the same");
    bed.assert_intact().await;
}

#[tokio::test]
async fn an_unknown_run_is_not_found() {
    let bed = Bed::start().await;
    let request = |run_id: &str| pb::GetRunRequest { run_id: run_id.to_owned() };
    assert_eq!(reason(bed.operator().get_run(request("r-nobody")).await), "not-found");
    assert_eq!(reason(bed.operator().get_run(request("../x")).await), "invalid-request");
    assert_eq!(reason(crate::bed::claim(&mut bed.launcher(), "r-nobody", "a").await), "not-found");
}
