use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures::SinkExt as _;
use futures::channel::mpsc;
use mosaic_proto::broker::v1 as pb;
use pb::report_runs_response::Result as Told;
use tokio::sync::watch;
use tonic::{Status, Streaming};

use crate::bed::{Bed, RUNNING, Runs, TURN_DONE, claim, prepared, reason, report, send, soak, soon};
use crate::killing::{kill, start_process};

/// Requests of one stream that wait for their answers.
const WINDOW: i64 = 64;

fn request(tag: i64, run_id: &str, epoch: i64, number: i64, payload: &str) -> pb::ReportRunsRequest {
    let reports = vec![report(number, payload)];
    pb::ReportRunsRequest { tag, request: Some(pb::ReportRunRequest { run_id: run_id.to_owned(), epoch, reports }) }
}

async fn stream_of(
    runner: &mut Runs,
    requests: Vec<pb::ReportRunsRequest>,
) -> Result<Streaming<pb::ReportRunsResponse>, Status> {
    soon(runner.report_runs(futures::stream::iter(requests))).await.map(tonic::Response::into_inner)
}

/// Every answer by its tag, and how the stream ended.
async fn answers(mut stream: Streaming<pb::ReportRunsResponse>) -> (HashMap<i64, Told>, Result<(), Status>) {
    let mut answers = HashMap::new();
    loop {
        match soon(stream.message()).await {
            Ok(Some(answer)) => {
                let told = answer.result.expect("an answer says something");
                assert!(answers.insert(answer.tag, told).is_none(), "tag {} is answered twice", answer.tag);
            }
            Ok(None) => return (answers, Ok(())),
            Err(status) => return (answers, Err(status)),
        }
    }
}

/// Sends the reports with these numbers on one run over a stream of its own, with up to [`WINDOW`] unanswered, and tells
/// each acknowledgement and how long it took.
pub(crate) async fn report_through(
    bed: &Bed,
    run_id: &str,
    epoch: i64,
    numbers: RangeInclusive<i64>,
    mut acknowledged: impl FnMut(i64, Duration),
) -> Result<(), Status> {
    let (mut requests, queue) = mpsc::channel(WINDOW as usize);
    let mut answers = bed.runner().report_runs(queue).await?.into_inner();
    let mut asked = HashMap::new();
    let mut numbers = numbers.peekable();
    while numbers.peek().is_some() || !asked.is_empty() {
        while asked.len() < WINDOW as usize
            && let Some(number) = numbers.next()
        {
            let payload = if number == 1 { RUNNING } else { TURN_DONE };
            asked.insert(number, Instant::now());
            let gone = |_| Status::unavailable("the stream is gone");
            requests.send(request(number, run_id, epoch, number, payload)).await.map_err(gone)?;
        }
        let answer = answers.message().await?.ok_or_else(|| Status::unavailable("the stream has ended"))?;
        match answer.result {
            Some(Told::Accepted(accepted)) => {
                assert!(accepted >= answer.tag, "{accepted} is said, {} was sent", answer.tag);
                let asked = asked.remove(&answer.tag).expect("it was asked for");
                acknowledged(answer.tag, asked.elapsed());
            }
            other => panic!("report {} of `{run_id}`: {other:?}", answer.tag),
        }
    }
    Ok(())
}

#[tokio::test]
async fn each_request_is_answered_on_its_own_and_a_denial_stops_nobody() {
    let bed = Bed::start().await;
    let (first, second) = (prepared(&bed, "q-1").await, prepared(&bed, "q-2").await);
    let requests = vec![
        request(10, &first, 1, 1, RUNNING),
        request(11, &second, 1, 5, TURN_DONE),
        request(12, &first, 1, 2, TURN_DONE),
        request(13, "r-nobody", 1, 1, RUNNING),
        request(14, &first, 7, 3, TURN_DONE),
        request(15, &first, 1, 3, "{"),
        pb::ReportRunsRequest { tag: 16, request: None },
        request(-1, &second, 1, 1, RUNNING),
        request(18, &first, 1, 2, TURN_DONE),
    ];
    let stream = stream_of(&mut bed.runner(), requests).await.expect("a stream");
    let (answers, ended) = answers(stream).await;
    ended.expect("it ends with its requests");
    for (tag, accepted) in [(10, 1), (12, 2), (-1, 1), (18, 2)] {
        assert_eq!(answers[&tag], Told::Accepted(accepted), "{tag}");
    }
    for (tag, reason) in [
        (11, "INVALID_REQUEST"),
        (13, "NOT_FOUND"),
        (14, "STALE_LEASE"),
        (15, "INVALID_REQUEST"),
        (16, "INVALID_REQUEST"),
    ] {
        let Told::Denial(denial) = &answers[&tag] else { panic!("{tag}: {:?}", answers[&tag]) };
        assert_eq!(denial.reason, reason, "{tag}");
        assert!(!denial.message.is_empty());
    }
    assert_eq!(bed.assert_intact().await, 6 + 3);
}

#[tokio::test]
async fn many_requests_on_one_stream_keep_their_order_and_are_held_up_rather_than_refused() {
    let bed = Bed::start().await;
    let run_id = prepared(&bed, "q").await;
    let requests = (1..=3000).map(|number| {
        let payload = if number == 1 { RUNNING } else { TURN_DONE };
        request(number, &run_id, 1, number, payload)
    });
    let stream = stream_of(&mut bed.runner(), requests.collect()).await.expect("a stream");
    let (answers, ended) = answers(stream).await;
    ended.expect("it ends with its requests");
    for number in 1..=3000 {
        assert_eq!(answers[&number], Told::Accepted(number));
    }
    assert!(bed.handle().commits() < 1000, "{} commits for 3000 reports", bed.handle().commits());
    assert_eq!(bed.assert_intact().await, 3003);
}

#[tokio::test]
async fn a_tag_that_is_still_unanswered_ends_the_stream() {
    let bed = Bed::start().await;
    let run_id = prepared(&bed, "q").await;
    // They come faster than a commit.
    let requests = (0..200).map(|_| request(7, &run_id, 1, 1, RUNNING)).collect();
    let mut stream = stream_of(&mut bed.runner(), requests).await.expect("a stream");
    let ended = loop {
        match soon(stream.message()).await {
            Ok(answer) => assert_eq!(answer.expect("it does not end well").result, Some(Told::Accepted(1))),
            Err(status) => break status,
        }
    };
    assert_eq!(reason(Err::<(), _>(ended)), "invalid-request");
    assert_eq!(bed.assert_intact().await, 4);
}

#[tokio::test]
async fn reports_on_a_stream_go_out_again_under_the_epoch_of_the_next_lease() {
    let bed = Bed::start().await;
    let run_id = prepared(&bed, "q").await;
    report_through(&bed, &run_id, 1, 1..=3, |_, _| ()).await.expect("taken");
    claim(&mut bed.launcher(), &run_id, "a").await.expect("claimed again");
    let stale = stream_of(&mut bed.runner(), vec![request(4, &run_id, 1, 4, TURN_DONE)]).await.expect("a stream");
    let (answers, _) = answers(stale).await;
    assert!(matches!(&answers[&4], Told::Denial(denial) if denial.reason == "STALE_LEASE"), "{answers:?}");
    report_through(&bed, &run_id, 2, 2..=4, |_, _| ()).await.expect("known or taken");
    assert_eq!(bed.assert_intact().await, 3 + 4 + 1);
}

#[tokio::test]
async fn only_the_runner_reports_on_a_stream() {
    let bed = Bed::start().await;
    for mut client in [bed.launcher(), bed.operator()] {
        assert_eq!(reason(stream_of(&mut client, vec![]).await.map(drop)), "not-permitted");
    }
}

#[tokio::test]
async fn a_stream_ends_as_unavailable_when_the_broker_stops() {
    let mut bed = Bed::start().await;
    let run_id = prepared(&bed, "q").await;
    let (mut requests, queue) = mpsc::channel(1);
    let mut answers = bed.runner().report_runs(queue).await.expect("a stream").into_inner();
    requests.send(request(1, &run_id, 1, 1, RUNNING)).await.expect("sent");
    let answer = soon(answers.message()).await.expect("no error").expect("an answer");
    assert_eq!(answer.result, Some(Told::Accepted(1)));
    bed.stop_broker().await;
    assert_eq!(reason(soon(answers.message()).await), "unavailable");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_killed_in_mid_stream_has_every_report_that_it_acknowledged() {
    let mut bed = Bed::idle();
    let mut child = start_process(&bed).await;
    let mut runs = Vec::new();
    for number in 0..8 {
        runs.push((prepared(&bed, &format!("q-{number}")).await, Mutex::new(0)));
    }
    let all = watch::Sender::new(0);
    let kill_in_time = async {
        let enough = soak(20_000);
        all.subscribe().wait_for(|&all| all >= enough).await.expect("it lives as long");
        kill(&mut child).await;
    };
    let writers = runs.iter().map(|(run_id, last)| {
        report_through(&bed, run_id, 1, 1..=i64::MAX, |number, _| {
            *last.lock().expect("no panic") = number;
            all.send_modify(|all| *all += 1);
        })
    });
    let (ended, ()) = soon(async { tokio::join!(futures::future::join_all(writers), kill_in_time) }).await;
    assert!(ended.iter().all(Result::is_err), "every stream was cut");

    bed.start_broker().await;
    for (run_id, last) in runs {
        let last = last.into_inner().expect("no panic");
        let known = send(&mut bed.runner(), &run_id, 1, &[(last.max(1), TURN_DONE)]).await.expect("known");
        assert!(known.accepted >= last, "{last} was acknowledged, {} is there", known.accepted);
    }
    bed.assert_intact().await;
}
