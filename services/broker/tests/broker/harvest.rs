//! The work that is taken out of a run's clones: who records it, and who is found that still has some.

use std::time::Duration;

use mosaic_proto::broker::v1 as pb;
use pb::run::State;

use crate::bed::{Bed, ENDED, RUNNING, Runs, claim, get, prune, queued, reason, send, spec};

const DONE: &str = r#"{"state":"failed","projects":[{"project":"site","failure":"workspace-missing"}]}"#;

fn harvest(run_id: &str, epoch: i64, harvest: &str) -> pb::RecordHarvestRequest {
    pb::RecordHarvestRequest { run_id: run_id.to_owned(), epoch, harvest: harvest.to_owned() }
}

/// Id of a run of session `talk` that has a clone and has ended under epoch 1: six events.
async fn ended(bed: &Bed, request_id: &str) -> String {
    let in_session = spec("do it").replace("\"tools\":[]", "\"tools\":[],\"session\":\"talk\"");
    let create = pb::CreateRunRequest { request_id: request_id.to_owned(), spec: in_session };
    let mut launcher = bed.launcher();
    let run_id = launcher.create_run(create).await.expect("created").into_inner().run.expect("a run").run_id;
    claim(&mut launcher, &run_id, "a").await.expect("claimed");
    launcher.prepare_run(pb::PrepareRunRequest { run_id: run_id.clone(), epoch: 1 }).await.expect("prepared");
    let step = pb::RecordStepRequest {
        run_id: run_id.clone(),
        epoch: 1,
        step: "checkouts".to_owned(),
        state: pb::record_step_request::State::Done.into(),
        facts: r#"{"checkouts":[{"project":"site","verdict":"cloned"}]}"#.to_owned(),
    };
    launcher.record_step(step).await.expect("recorded");
    send(&mut bed.runner(), &run_id, 1, &[(1, RUNNING), (2, ENDED)]).await.expect("taken");
    run_id
}

async fn listed(runs: &mut Runs, request: pb::ListRunsRequest) -> Vec<String> {
    let page = runs.list_runs(request).await.expect("listed").into_inner();
    page.runs.into_iter().map(|run| run.run_id).collect()
}

fn pending() -> pb::ListRunsRequest {
    pb::ListRunsRequest { harvest_pending: true, ..Default::default() }
}

#[tokio::test]
async fn a_harvest_is_recorded_by_the_launcher_alone_and_shown() {
    let bed = Bed::start().await;
    let run_id = ended(&bed, "q").await;
    assert!(get(&bed, &run_id).await.harvest_pending);
    for mut other in [bed.operator(), bed.runner()] {
        assert_eq!(reason(other.record_harvest(harvest(&run_id, 1, DONE)).await), "not-permitted");
    }
    let mut launcher = bed.launcher();
    for malformed in [
        "",
        "[]",
        r#"{"state":"pending","projects":[]}"#,
        r#"{"state":"done","projects":[{"project":"site","failure":"workspace-missing"}]}"#,
        r#"{"state":"failed","projects":[{"project":"site","failure":"bored"}]}"#,
        r#"{"state":"done"}"#,
    ] {
        assert_eq!(reason(launcher.record_harvest(harvest(&run_id, 1, malformed)).await), "invalid-request");
    }
    let long =
        DONE.replace("workspace-missing\"", &format!("workspace-missing\",\"detail\":\"{}\"", "x".repeat(4 << 20)));
    assert_eq!(reason(launcher.record_harvest(harvest(&run_id, 1, &long)).await), "invalid-request");
    assert_eq!(reason(launcher.record_harvest(harvest("r-nobody", 1, DONE)).await), "not-found");

    let run = launcher.record_harvest(harvest(&run_id, 1, DONE)).await.expect("recorded").into_inner().run;
    assert!(!run.clone().expect("a run").harvest_pending);
    let again = launcher.record_harvest(harvest(&run_id, 1, DONE)).await.expect("again").into_inner().run;
    assert_eq!(run, again);
    let record: serde_json::Value = serde_json::from_str(&get(&bed, &run_id).await.record).expect("JSON");
    assert_eq!(record["harvest"], serde_json::from_str::<serde_json::Value>(DONE).expect("JSON"));
    assert_eq!(bed.assert_intact().await, 7);
}

#[tokio::test]
async fn a_run_that_awaits_its_harvest_is_found_claimed_and_harvested_by_the_next_host() {
    let mut bed = Bed::start().await;
    let run_id = ended(&bed, "q").await;
    assert_eq!(reason(prune(&bed, &run_id, pb::RunPart::Record).await), "invalid-request");
    bed.restart().await;
    assert_eq!(listed(&mut bed.launcher(), pending()).await, std::slice::from_ref(&run_id));
    assert_eq!(reason(claim(&mut bed.launcher(), &run_id, "b").await), "superseded");
    bed.clock.advance(Duration::from_secs(31));
    let mut launcher = bed.launcher();
    let lease = claim(&mut launcher, &run_id, "b").await.expect("expired").lease.expect("a lease");
    assert_eq!(lease.epoch, 2);
    assert_eq!(reason(launcher.record_harvest(harvest(&run_id, 1, DONE)).await), "stale-lease");
    launcher.record_harvest(harvest(&run_id, 2, DONE)).await.expect("recorded");
    launcher.release_lease(pb::ReleaseLeaseRequest { run_id: run_id.clone(), epoch: 2 }).await.expect("given back");
    assert_eq!(claim(&mut launcher, &run_id, "b").await.expect("answered").lease, None);
    assert_eq!(listed(&mut launcher, pending()).await, Vec::<String>::new());
    prune(&bed, &run_id, pb::RunPart::Record).await.expect("removed");
    assert_eq!(bed.assert_intact().await, 9);
}

#[tokio::test]
async fn who_watches_a_run_is_told_of_its_harvest() {
    let bed = Bed::start().await;
    let run_id = ended(&bed, "q").await;
    let request = pb::WatchRunRequest { run_id: run_id.clone(), from_sequence: 6 };
    let mut watch = bed.operator().watch_run(request).await.expect("watched").into_inner();
    let mut kinds = Vec::new();
    let mut harvested = false;
    while let Some(response) = watch.message().await.expect("no error") {
        kinds.push(response.event.expect("an event").kind);
        if !harvested {
            bed.launcher().record_harvest(harvest(&run_id, 1, DONE)).await.expect("recorded");
            harvested = true;
        }
    }
    assert_eq!(kinds, ["run.ended", "run.harvested"]);
}

#[tokio::test]
async fn runs_are_listed_by_session_and_by_what_is_to_be_harvested() {
    let bed = Bed::start().await;
    let mut launcher = bed.launcher();
    queued(&bed, "other").await;
    let mut talk = Vec::new();
    for number in 0..4 {
        talk.insert(0, ended(&bed, &format!("q-{number}")).await);
    }
    launcher.record_harvest(harvest(&talk[1], 1, DONE)).await.expect("recorded");
    let session = |session: &str| pb::ListRunsRequest { session: session.to_owned(), ..Default::default() };
    assert_eq!(listed(&mut launcher, session("talk")).await, talk);
    assert_eq!(listed(&mut launcher, session("silence")).await, Vec::<String>::new());
    let expected = [talk[0].clone(), talk[2].clone(), talk[3].clone()];
    assert_eq!(listed(&mut launcher, pending()).await, expected);
    assert_eq!(listed(&mut launcher, pb::ListRunsRequest { harvest_pending: true, ..session("talk") }).await, expected);
    let of_state = |state: State| pb::ListRunsRequest { states: vec![state.into()], ..session("talk") };
    assert_eq!(listed(&mut launcher, of_state(State::Succeeded)).await, talk);
    assert_eq!(listed(&mut launcher, of_state(State::Failed)).await, Vec::<String>::new());
    assert_eq!(reason(launcher.list_runs(session("../talk")).await), "invalid-request");

    let first = pb::ListRunsRequest { page_size: 3, ..session("talk") };
    let page = launcher.list_runs(first.clone()).await.expect("listed").into_inner();
    let next = pb::ListRunsRequest { page_token: page.next_page_token.clone(), ..first };
    assert_eq!(listed(&mut launcher, next).await, [talk[3].clone()]);
    for other in [pending(), session("silence"), pb::ListRunsRequest::default()] {
        let next = pb::ListRunsRequest { page_token: page.next_page_token.clone(), ..other };
        assert_eq!(reason(launcher.list_runs(next).await), "invalid-request");
    }
}

#[tokio::test]
async fn a_tampered_mark_of_a_pending_harvest_is_seen() {
    let bed = Bed::start().await;
    ended(&bed, "q").await;
    let hidden = "UPDATE runs SET harvest_pending = FALSE";
    sqlx::raw_sql(hidden).execute(&mut bed.raw().await).await.expect("tampered");
    let verdict = bed.ledger().verify_ledger(pb::VerifyLedgerRequest {}).await.expect("verified").into_inner();
    assert!(verdict.faults.iter().any(|fault| fault.message.contains("the columns of the run")), "{verdict:?}");
}

#[tokio::test]
async fn what_ran_in_clones_before_there_was_a_harvest_awaits_one() {
    let mut bed = Bed::start().await;
    let run_id = ended(&bed, "q").await;
    queued(&bed, "other").await;
    bed.stop_broker().await;
    let older = "
        DROP INDEX runs_to_harvest;
        DROP INDEX runs_by_session;
        ALTER TABLE runs DROP COLUMN harvest_pending;
        UPDATE runs SET record = json_remove(record, '$.harvest'), end_sequence = last_sequence WHERE session = 'talk';
        DELETE FROM _sqlx_migrations WHERE version = 2;
    ";
    sqlx::raw_sql(older).execute(&mut bed.raw().await).await.expect("as it was before");
    bed.start_broker().await;
    bed.assert_intact().await;
    assert_eq!(listed(&mut bed.launcher(), pending()).await, std::slice::from_ref(&run_id));
    bed.launcher().record_harvest(harvest(&run_id, 1, DONE)).await.expect("recorded");
    bed.assert_intact().await;
}
