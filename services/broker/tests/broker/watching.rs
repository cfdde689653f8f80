use mosaic_proto::broker::v1 as pb;
use mosaic_rpc::RpcError;
use tonic::{Status, Streaming};

use crate::bed::{Bed, ENDED, RUNNING, TURN_DONE, cut, over, prepared, prune, queued, reason, send, soak, soon, spec};

async fn watch_all(bed: &Bed, from_sequence: i64) -> Result<Streaming<pb::WatchEventsResponse>, Status> {
    bed.ledger().watch_events(pb::WatchEventsRequest { from_sequence }).await.map(tonic::Response::into_inner)
}

async fn watch_run(bed: &Bed, run_id: &str, from_sequence: i64) -> Result<Streaming<pb::WatchRunResponse>, Status> {
    let request = pb::WatchRunRequest { run_id: run_id.to_owned(), from_sequence };
    bed.operator().watch_run(request).await.map(tonic::Response::into_inner)
}

/// The sequences that a watch of a run sends until it ends.
async fn sequences(mut watch: Streaming<pb::WatchRunResponse>) -> Vec<i64> {
    let mut sequences = Vec::new();
    while let Some(response) = soon(watch.message()).await.expect("no error") {
        sequences.push(response.event.expect("an event").sequence);
    }
    sequences
}

#[tokio::test]
async fn a_watch_of_a_run_sends_its_events_from_any_cursor_and_ends_with_the_run() {
    let bed = Bed::start().await;
    let run_id = prepared(&bed, "q").await;
    queued(&bed, "another-run-between").await;
    let live = watch_run(&bed, &run_id, 0).await.expect("watched");
    send(&mut bed.runner(), &run_id, 1, &[(1, RUNNING), (2, TURN_DONE), (3, ENDED)]).await.expect("taken");

    let all = [1, 2, 3, 5, 6, 7];
    assert_eq!(sequences(live).await, all);
    for from in 0..10 {
        let watch = watch_run(&bed, &run_id, from).await.expect("watched");
        let expected: Vec<i64> = all.into_iter().filter(|&sequence| sequence >= from).collect();
        assert_eq!(sequences(watch).await, expected, "from {from}");
    }
}

#[tokio::test]
async fn a_watch_beyond_the_last_event_waits_for_it() {
    let bed = Bed::start().await;
    let mut watch = watch_all(&bed, 3).await.expect("watched");
    for number in 1..=3 {
        queued(&bed, &format!("q-{number}")).await;
    }
    let event = soon(watch.message()).await.expect("no error").expect("an event").event.expect("an event");
    assert_eq!((event.sequence, event.kind.as_str()), (3, "run.queued"));
    assert_eq!((event.hash.len(), event.trace_id.len(), event.event_id.len()), (32, 32, 36));
}

#[tokio::test]
async fn positions_that_do_not_exist_are_refused() {
    let bed = Bed::start().await;
    let run_id = queued(&bed, "q").await;
    assert_eq!(reason(watch_all(&bed, -1).await), "invalid-request");
    assert_eq!(reason(watch_run(&bed, &run_id, -1).await), "invalid-request");
    assert_eq!(reason(watch_run(&bed, "r-nobody", 0).await), "not-found");
}

#[tokio::test]
async fn a_cursor_older_than_the_ledger_is_out_of_range_and_the_run_is_untouched() {
    let bed = Bed::start().await;
    let run_id = prepared(&bed, "q").await;
    let gone = over(&bed, "gone").await;
    prune(&bed, &gone, pb::RunPart::Record).await.expect("removed");
    let cut = cut(&bed).await.expect("cut").checkpoint.expect("a checkpoint").sequence;
    assert_eq!(cut, 7, "three events of each run, and that one is removed");

    for from in [1, 2, 7] {
        let refused = RpcError::from_status(&watch_all(&bed, from).await.expect_err("refused"));
        assert_eq!(refused.reason.as_str(), "out-of-range", "from {from}");
        assert_eq!(refused.metadata.get("earliest").map(String::as_str), Some("8"));
    }
    for from in [0, 8] {
        let mut watch = watch_all(&bed, from).await.expect("watched");
        let event = soon(watch.message()).await.expect("no error").expect("an event").event.expect("an event");
        assert_eq!((event.sequence, event.kind.as_str()), (8, "ledger.checkpoint"));
    }
    assert_eq!(reason(watch_run(&bed, &gone, 0).await), "not-found");
    let whole = watch_run(&bed, &run_id, 0).await.expect("watched");
    send(&mut bed.runner(), &run_id, 1, &[(1, RUNNING), (2, ENDED)]).await.expect("the run goes on");
    assert_eq!(sequences(whole).await, [1, 2, 3, 9, 10]);
}

#[tokio::test]
async fn a_watcher_that_the_cut_overtakes_is_told_so_and_sees_no_gap() {
    let bed = Bed::start().await;
    let mut launcher = bed.launcher();
    let mut runs = Vec::new();
    // More than is under way to a client that does not read.
    for number in 0..120 {
        let spec = spec(&"x".repeat(100 * 1024));
        let request = pb::CreateRunRequest { request_id: format!("q-{number}"), spec };
        let run = launcher.create_run(request).await.expect("created").into_inner().run.expect("a run");
        launcher.cancel_run(pb::CancelRunRequest { run_id: run.run_id.clone() }).await.expect("cancelled");
        runs.push(run.run_id);
    }
    let mut watch = watch_all(&bed, 0).await.expect("watched");
    soon(watch.message()).await.expect("no error").expect("the first event");
    for run_id in &runs {
        prune(&bed, run_id, pb::RunPart::Record).await.expect("removed");
    }
    let cut = cut(&bed).await.expect("cut").checkpoint.expect("a checkpoint").sequence;

    let mut next = 2;
    let ended = loop {
        match soon(watch.message()).await {
            Ok(response) => assert_eq!(response.and_then(|response| response.event).expect("an event").sequence, next),
            Err(status) => break RpcError::from_status(&status),
        }
        next += 1;
    };
    assert_eq!(ended.reason.as_str(), "out-of-range");
    assert!(next <= cut, "{next} of {cut}");
    assert_eq!(ended.metadata.get("earliest"), Some(&(cut + 1).to_string()));
}

#[tokio::test]
async fn a_watch_of_a_run_ends_with_it_whatever_is_kept_and_removed_later() {
    let bed = Bed::start().await;
    let run_id = over(&bed, "q").await;
    let live = watch_run(&bed, &run_id, 0).await.expect("watched");
    for part in [pb::RunPart::Output, pb::RunPart::Record] {
        prune(&bed, &run_id, part).await.expect("removed");
    }
    assert_eq!(sequences(live).await, [1, 2, 3]);
    for (from, expected) in [(0, &[1, 2, 3][..]), (3, &[3]), (4, &[]), (5, &[]), (6, &[])] {
        assert_eq!(sequences(watch_run(&bed, &run_id, from).await.expect("watched")).await, expected, "from {from}");
    }
}

/// Reads the ledger up to `last`, cut off and resumed after each few events.
async fn read_with_disconnects(bed: &Bed, last: i64, disconnects: i64) -> Vec<i64> {
    let stride = (last / disconnects).max(1);
    let mut seen: Vec<i64> = Vec::new();
    while seen.last() != Some(&last) {
        let next = seen.last().map_or(0, |sequence| sequence + 1);
        let mut watch = watch_all(bed, next).await.expect("watched");
        for _ in 0..stride {
            let event = soon(watch.message()).await.expect("no error").expect("an event").event;
            seen.push(event.expect("an event").sequence);
            if seen.last() == Some(&last) {
                break;
            }
        }
    }
    seen
}

#[tokio::test]
async fn readers_that_are_cut_off_again_and_again_miss_nothing_and_see_nothing_twice() {
    let bed = Bed::start().await;
    let reports = i64::from(soak(10_000));
    let run_id = prepared(&bed, "q").await;
    let write = async {
        let mut runner = bed.runner();
        send(&mut runner, &run_id, 1, &[(1, RUNNING)]).await.expect("taken");
        let numbers: Vec<i64> = (2..=reports).collect();
        for numbers in numbers.chunks(7) {
            let reports: Vec<_> = numbers.iter().map(|&number| (number, TURN_DONE)).collect();
            send(&mut runner, &run_id, 1, &reports).await.expect("taken");
        }
        send(&mut runner, &run_id, 1, &[(reports + 1, ENDED)]).await.expect("taken");
    };
    let last = 3 + reports + 1;
    let of_the_run = async { sequences(watch_run(&bed, &run_id, 0).await.expect("watched")).await };
    let (first, second, third, ()) =
        tokio::join!(read_with_disconnects(&bed, last, 50), read_with_disconnects(&bed, last, 37), of_the_run, write);
    let all: Vec<i64> = (1..=last).collect();
    assert!(first == all, "the first reader");
    assert!(second == all, "the second reader");
    assert!(third == all, "the watcher of the run");
    assert_eq!(bed.assert_intact().await, last);
}

#[tokio::test]
async fn a_watcher_that_does_not_read_holds_up_nobody() {
    let bed = Bed::start().await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(watch_all(&bed, 0).await.expect("watched"));
    }
    for number in 0..50 {
        soon(queued(&bed, &format!("q-{number}"))).await;
    }
    let mut late = idle.pop().expect("a watcher");
    for sequence in 1..=50 {
        let event = soon(late.message()).await.expect("no error").expect("an event").event.expect("an event");
        assert_eq!(event.sequence, sequence);
    }
}

#[tokio::test]
async fn a_watch_ends_as_unavailable_when_the_broker_stops() {
    let mut bed = Bed::start().await;
    let run_id = queued(&bed, "q").await;
    let mut all = watch_all(&bed, 2).await.expect("watched");
    let mut run = watch_run(&bed, &run_id, 2).await.expect("watched");
    bed.stop_broker().await;
    assert_eq!(reason(soon(all.message()).await), "unavailable");
    assert_eq!(reason(soon(run.message()).await), "unavailable");
}
