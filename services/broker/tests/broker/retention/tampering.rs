//! Every way of changing a ledger that was cut is seen.

use mosaic_proto::broker::v1 as pb;

use super::{keep, verdict};
use crate::bed::{Bed, cut, over, prepared, prune, queued, reason};

/// A ledger that was cut at event 10: events 1 to 3 and 7 to 9 are left of those before, 11 is the checkpoint, then come
/// two runs of one event each.
async fn ledger() -> Bed {
    let bed = Bed::start().await;
    prepared(&bed, "stays").await;
    let gone = over(&bed, "gone").await;
    over(&bed, "stays-too").await;
    prune(&bed, &gone, pb::RunPart::Record).await.expect("removed");
    let cut = cut(&bed).await.expect("cut");
    assert_eq!((cut.checkpoint.expect("a checkpoint").sequence, cut.events), (10, 4));
    queued(&bed, "later-1").await;
    queued(&bed, "later-2").await;
    bed
}

/// Does `tampering` to a ledger of its own and returns what is told of it.
async fn told_of(tampering: &'static str) -> Vec<String> {
    let bed = ledger().await;
    sqlx::raw_sql(tampering).execute(&mut bed.raw().await).await.expect(tampering);
    let verdict = verdict(&bed).await;
    assert_eq!(verdict.intact, verdict.faults.is_empty());
    verdict.faults.into_iter().map(|fault| fault.message).collect()
}

#[tokio::test]
async fn a_ledger_that_was_cut_is_intact() {
    assert_eq!(told_of("SELECT 1").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_change_of_what_is_left_is_seen() {
    for (change, expected) in [
        ("UPDATE events SET payload = replace(payload, 'do it', 'do no') WHERE sequence = 1", "is not what was hashed"),
        ("UPDATE events SET time_ns = time_ns + 1 WHERE sequence = 8", "is not what was hashed"),
        ("UPDATE events SET previous_hash = hash WHERE sequence = 8", "does not follow the event before it"),
        ("DELETE FROM events WHERE sequence = 2", "5 events are left up to event 10, not 6"),
        (
            "DELETE FROM events WHERE subject = (SELECT subject FROM events WHERE sequence = 7);
             DELETE FROM runs WHERE first_sequence = 7;",
            "3 events are left up to event 10, not 6",
        ),
        ("UPDATE events SET sequence = 6 WHERE sequence = 7", "is not what was signed"),
        ("UPDATE events SET hash = 'x' WHERE sequence = 8", "`hash` of `event 8` is damaged"),
        ("DELETE FROM runs WHERE first_sequence = 7", "the run of this event is missing"),
        ("UPDATE runs SET status = 'failed' WHERE first_sequence = 7", "the columns of the run"),
        ("UPDATE runs SET end_sequence = 8 WHERE first_sequence = 7", "the columns of the run"),
        ("UPDATE runs SET kept = TRUE WHERE first_sequence = 7", "the columns of the run"),
        ("UPDATE runs SET record_pruned = TRUE WHERE first_sequence = 7", "the columns of the run"),
    ] {
        let told = told_of(change).await;
        assert!(told.iter().any(|told| told.contains(expected)), "{change}: {told:?}");
    }
}

#[tokio::test]
async fn a_change_of_the_chain_after_the_cut_is_seen() {
    for (change, expected) in [
        ("DELETE FROM events WHERE sequence = 12", "events 12 to 12 are missing"),
        (
            "UPDATE events SET payload = replace(payload, 'do it', 'do no') WHERE sequence = 12",
            "is not what was hashed",
        ),
        ("UPDATE events SET previous_hash = hash WHERE sequence = 11", "does not follow the event before it"),
        ("UPDATE events SET subject = 'x' WHERE sequence = 12", "is neither of a run nor what it is called"),
    ] {
        let told = told_of(change).await;
        assert!(told.iter().any(|told| told.contains(expected)), "{change}: {told:?}");
    }
}

#[tokio::test]
async fn a_forged_or_missing_checkpoint_is_seen() {
    for (change, expected) in [
        ("DELETE FROM events WHERE sequence = 11", "events 4 to 6 are missing"),
        (
            "UPDATE events SET payload = replace(payload, '\"retainedEvents\":6', '\"retainedEvents\":5') WHERE sequence = 11",
            "the checkpoint in event 11 is not what was signed",
        ),
        (
            "UPDATE events SET payload = replace(payload, '\"removedRuns\":1', '\"removedRuns\":2') WHERE sequence = 11",
            "the checkpoint in event 11 is not what was signed",
        ),
        (
            "UPDATE events SET time_ns = time_ns + 1 WHERE sequence = 11",
            "the checkpoint in event 11 is not what was signed",
        ),
        ("UPDATE events SET payload = '{}' WHERE sequence = 11", "event 11: is not what is called a checkpoint"),
        ("UPDATE events SET kind = 'session.pruned' WHERE sequence = 11", "is not what is called a checkpoint"),
    ] {
        let told = told_of(change).await;
        assert!(told.iter().any(|told| told.contains(expected)), "{change}: {told:?}");
    }
}

#[tokio::test]
async fn a_checkpoint_that_another_key_signed_proves_nothing_and_is_never_built_on() {
    let mut bed = ledger().await;
    bed.stop_broker().await;
    std::fs::write(bed.root.credentials().join("ledger.key"), "ab".repeat(32)).expect("written");
    bed.start_broker().await;
    let verdict = verdict(&bed).await;
    let told: Vec<_> = verdict.faults.iter().map(|fault| fault.message.as_str()).collect();
    assert_eq!(told, ["the checkpoint in event 11 was signed by another key than `credentials/ledger.key`"]);
    assert_eq!(verdict.checkpoint, None);

    let gone = over(&bed, "gone-next").await;
    prune(&bed, &gone, pb::RunPart::Record).await.expect("removed");
    let status = cut(&bed).await.expect_err("refused");
    assert!(status.message().contains("mosaic ledger verify"), "{}", status.message());
    assert_eq!(reason::<()>(Err(status)), "internal");
}

#[tokio::test]
async fn events_that_went_without_a_checkpoint_are_missed() {
    let bed = Bed::start().await;
    let gone = over(&bed, "gone").await;
    let stays = over(&bed, "stays").await;
    keep(&bed, &stays, true).await.expect("kept");
    sqlx::query("DELETE FROM events WHERE subject = $1").bind(&gone).execute(&mut bed.raw().await).await.expect("gone");
    sqlx::query("DELETE FROM runs WHERE run_id = $1").bind(&gone).execute(&mut bed.raw().await).await.expect("gone");
    let told: Vec<_> = verdict(&bed).await.faults.into_iter().map(|fault| fault.message).collect();
    assert!(told.iter().any(|told| told.contains("events 1 to 3 are missing")), "{told:?}");
}

#[tokio::test]
async fn a_ledger_with_a_fault_is_not_cut() {
    let bed = ledger().await;
    let gone = over(&bed, "gone-next").await;
    prune(&bed, &gone, pb::RunPart::Record).await.expect("removed");
    let tampering = "UPDATE events SET time_ns = time_ns + 1 WHERE sequence = 12";
    sqlx::raw_sql(tampering).execute(&mut bed.raw().await).await.expect("tampered");
    assert_eq!(reason(cut(&bed).await), "internal");
    assert_eq!(verdict(&bed).await.runs, 5, "nothing is gone");
}
