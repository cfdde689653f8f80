//! Every way of changing the file by hand is seen.

use mosaic_proto::broker::v1 as pb;

use crate::bed::{Bed, ENDED, RUNNING, prepared, queued, send};
use crate::pipelining::report_through;

async fn verdict(bed: &Bed) -> pb::VerifyLedgerResponse {
    bed.ledger().verify_ledger(pb::VerifyLedgerRequest {}).await.expect("verified").into_inner()
}

/// Two runs, seven events.
async fn ledger() -> Bed {
    let bed = Bed::start().await;
    let run_id = prepared(&bed, "q-1").await;
    queued(&bed, "q-2").await;
    send(&mut bed.runner(), &run_id, 1, &[(1, RUNNING), (2, ENDED)]).await.expect("taken");
    bed
}

/// Does `tampering` to a ledger of its own and returns what is told of it.
async fn told_of(tampering: &'static str) -> Vec<String> {
    let bed = ledger().await;
    let mut raw = bed.raw().await;
    sqlx::raw_sql(tampering).execute(&mut raw).await.expect(tampering);
    let verdict = verdict(&bed).await;
    assert_eq!(verdict.intact, verdict.faults.is_empty());
    verdict.faults.into_iter().map(|fault| fault.message).collect()
}

#[tokio::test]
async fn an_untouched_ledger_is_intact_and_counted() {
    let bed = ledger().await;
    let verdict = verdict(&bed).await;
    assert_eq!((verdict.faults, verdict.intact, verdict.events, verdict.runs), (vec![], true, 6, 2));
    assert_eq!(verdict.head_hash.len(), 32);
}

#[tokio::test]
async fn an_empty_ledger_is_intact() {
    let bed = Bed::start().await;
    let verdict = verdict(&bed).await;
    assert_eq!((verdict.intact, verdict.events, verdict.runs, verdict.head_hash.len()), (true, 0, 0, 0));
}

#[tokio::test]
async fn a_changed_event_is_seen() {
    for change in [
        "UPDATE events SET payload = replace(payload, 'do it', 'do no') WHERE sequence = 1",
        "UPDATE events SET time_ns = time_ns + 1 WHERE sequence = 3",
        "UPDATE events SET actor = 'operator' WHERE sequence = 3",
        "UPDATE events SET trace_id = NULL WHERE sequence = 3",
        "UPDATE events SET event_id = '00000000-0000-7000-8000-000000000000' WHERE sequence = 3",
        "UPDATE events SET kind = 'run.output' WHERE sequence = 5",
        "UPDATE events SET hash = previous_hash WHERE sequence = 3",
    ] {
        let told = told_of(change).await;
        assert!(told.iter().any(|told| told.contains("is not what was hashed")), "{change}: {told:?}");
    }
}

#[tokio::test]
async fn a_damaged_event_is_told_and_the_rest_is_still_proven() {
    let told = told_of("UPDATE events SET hash = 'x' WHERE sequence = 2").await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("`hash` of `event 2` is damaged"), "{told:?}");
}

#[tokio::test]
async fn a_deleted_event_is_seen() {
    let told = told_of("DELETE FROM events WHERE sequence = 3").await;
    assert!(told.iter().any(|told| told.contains("events 3 to 3 are missing")), "{told:?}");
    let first = told_of("DELETE FROM events WHERE sequence = 1").await;
    assert!(first.iter().any(|told| told.contains("events 1 to 1 are missing")), "{first:?}");
    let last = told_of("DELETE FROM events WHERE sequence = 6").await;
    assert!(last.iter().any(|told| told.contains("is not what the events say")), "{last:?}");
}

#[tokio::test]
async fn exchanged_events_are_seen() {
    let told = told_of(
        "UPDATE events SET sequence = 99 WHERE sequence = 2;
         UPDATE events SET sequence = 2 WHERE sequence = 3;
         UPDATE events SET sequence = 3 WHERE sequence = 99;",
    )
    .await;
    assert!(told.iter().any(|told| told.contains("event 2: does not follow")), "{told:?}");
}

#[tokio::test]
async fn a_changed_record_or_column_is_seen() {
    for (change, expected) in [
        ("UPDATE runs SET record = replace(record, 'succeeded', 'failed')", "the record is not what"),
        ("UPDATE runs SET record = '{}'", "`record` of"),
        ("UPDATE runs SET status = 'failed' WHERE first_sequence = 1", "the columns of the run"),
        ("UPDATE runs SET reason = 'idle' WHERE first_sequence = 1", "the columns of the run"),
        ("UPDATE runs SET epoch = epoch + 1 WHERE first_sequence = 1", "the columns of the run"),
        ("UPDATE runs SET holder = 'mallory' WHERE first_sequence = 1", "the columns of the run"),
        ("UPDATE runs SET reported = 7 WHERE first_sequence = 1", "the columns of the run"),
        ("UPDATE runs SET last_sequence = 5 WHERE first_sequence = 1", "the columns of the run"),
        ("UPDATE runs SET request_id = 'other' WHERE first_sequence = 1", "the columns of the run"),
        ("UPDATE runs SET status = 'asleep' WHERE first_sequence = 1", "`status` of"),
        ("UPDATE runs SET run_id = 'r-other' WHERE first_sequence = 1", "the run of this event is missing"),
        ("DELETE FROM runs WHERE first_sequence = 1", "the run of this event is missing"),
    ] {
        let told = told_of(change).await;
        assert!(told.iter().any(|told| told.contains(expected)), "{change}: {told:?}");
    }
}

#[tokio::test]
async fn at_most_a_hundred_faults_are_told() {
    let bed = Bed::start().await;
    for number in 0..120 {
        queued(&bed, &format!("q-{number}")).await;
    }
    let mut raw = bed.raw().await;
    sqlx::raw_sql("UPDATE events SET payload = '{}'").execute(&mut raw).await.expect("tampered");
    let verdict = verdict(&bed).await;
    assert_eq!((verdict.faults.len(), verdict.intact, verdict.events), (100, false, 120));
}

#[tokio::test]
async fn short_and_long_runs_side_by_side_are_all_proven() {
    let bed = Bed::start().await;
    let mut events = 0;
    for number in 0..300 {
        let run_id = prepared(&bed, &format!("q-{number}")).await;
        // More events than are read at once, of the first, one in between and the last.
        let reports = if [0, 140, 299].contains(&number) { 1500 } else { number % 3 };
        report_through(&bed, &run_id, 1, 1..=reports, |_, _| ()).await.expect("taken");
        events += 3 + reports;
    }
    assert_eq!(bed.assert_intact().await, events);

    let mut raw = bed.raw().await;
    let tamper = "UPDATE runs SET reported = reported + 1 WHERE request_id IN ('q-0', 'q-7', 'q-140', 'q-299')";
    sqlx::query(tamper).execute(&mut raw).await.expect("tampered");
    let verdict = verdict(&bed).await;
    assert_eq!((verdict.runs, verdict.events, verdict.faults.len()), (300, events, 4), "{:?}", verdict.faults);
}
