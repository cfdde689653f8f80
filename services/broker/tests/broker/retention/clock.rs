//! The wall clock is set two hours back and forth.

use std::time::Duration;

use mosaic_proto::broker::v1 as pb;

use super::{keep, record, verdict};
use crate::bed::{Bed, ENDED, RUNNING, claim, cut, get, over, prune, queued, reason, send};

const TWO_HOURS: Duration = Duration::from_secs(7200);

/// Sets the wall clock; how long things take does not change.
fn turn(bed: &Bed, back: bool) {
    use mosaic_lifecycle::Clock as _;
    let now = bed.clock.now();
    let turned = if back { now.checked_sub(TWO_HOURS) } else { now.checked_add(TWO_HOURS) };
    bed.clock.set_wall(turned.expect("within range"));
}

#[tokio::test]
async fn leases_expire_by_the_time_that_passes_and_not_by_the_clock_on_the_wall() {
    let bed = Bed::start().await;
    let mut launcher = bed.launcher();
    let run_id = queued(&bed, "q").await;
    claim(&mut launcher, &run_id, "a").await.expect("claimed");
    for back in [false, true, true, false] {
        turn(&bed, back);
        assert_eq!(reason(claim(&mut launcher, &run_id, "b").await), "superseded");
        let renew = pb::RenewLeaseRequest { run_id: run_id.clone(), epoch: 1 };
        launcher.renew_lease(renew).await.expect("its own");
        bed.clock.advance(Duration::from_secs(29));
        assert_eq!(reason(claim(&mut launcher, &run_id, "b").await), "superseded");
    }
    turn(&bed, true);
    bed.clock.advance(Duration::from_secs(1));
    claim(&mut launcher, &run_id, "b").await.expect("thirty seconds have passed");
    bed.assert_intact().await;
}

#[tokio::test]
async fn no_time_of_a_run_is_before_the_one_that_came_before_it() {
    for back_at in 0..4 {
        let bed = Bed::start().await;
        let mut launcher = bed.launcher();
        let step = |at: usize| {
            if at == back_at {
                turn(&bed, true);
            }
        };
        let run_id = queued(&bed, "q").await;
        step(0);
        claim(&mut launcher, &run_id, "a").await.expect("claimed");
        step(1);
        let prepare = pb::PrepareRunRequest { run_id: run_id.clone(), epoch: 1 };
        launcher.prepare_run(prepare).await.expect("prepared");
        step(2);
        send(&mut bed.runner(), &run_id, 1, &[(1, RUNNING)]).await.expect("taken");
        step(3);
        send(&mut bed.runner(), &run_id, 1, &[(2, ENDED)]).await.expect("taken");

        let run = get(&bed, &run_id).await;
        let nanos = |time: &Option<prost_types::Timestamp>| time.as_ref().map(|time| (time.seconds, time.nanos));
        let times = [run.create_time, run.start_time, run.end_time].map(|time| nanos(&time).expect("known"));
        assert!(times.is_sorted(), "back at {back_at}: {times:?}");
        assert_eq!(record(&run)["durationMs"], 5, "what the runner measured");
        bed.assert_intact().await;
    }
}

#[tokio::test]
async fn a_ledger_is_kept_and_cut_and_proven_whatever_the_clock_says() {
    let bed = Bed::start().await;
    let (gone, stays) = (over(&bed, "q-1").await, over(&bed, "q-2").await);
    turn(&bed, true);
    keep(&bed, &stays, true).await.expect("kept");
    prune(&bed, &gone, pb::RunPart::Record).await.expect("removed");
    cut(&bed).await.expect("cut");
    turn(&bed, false);
    turn(&bed, false);
    let next = over(&bed, "q-3").await;
    prune(&bed, &next, pb::RunPart::Record).await.expect("removed");
    turn(&bed, true);
    assert_eq!(cut(&bed).await.expect("cut again").runs, 1);
    let verdict = verdict(&bed).await;
    assert_eq!((verdict.faults, verdict.runs), (vec![], 1));
}
