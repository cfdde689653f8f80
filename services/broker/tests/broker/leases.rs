use std::time::Duration;

use mosaic_proto::broker::v1 as pb;

use crate::bed::{Bed, claim, create, get, queued, reason};

fn renewal(run_id: &str, epoch: i64) -> pb::RenewLeaseRequest {
    pb::RenewLeaseRequest { run_id: run_id.to_owned(), epoch }
}

fn epoch(response: pb::ClaimRunResponse) -> i64 {
    response.lease.expect("a lease").epoch
}

#[tokio::test]
async fn of_fifty_claims_at_once_one_wins_and_the_others_are_refused() {
    let bed = Bed::start().await;
    let run_id = queued(&bed, "q").await;
    let claims = (0..50).map(|number| {
        let (mut launcher, run_id) = (bed.launcher(), run_id.clone());
        async move { claim(&mut launcher, &run_id, &format!("launcher-{number}")).await }
    });
    let (won, lost): (Vec<_>, Vec<_>) = futures::future::join_all(claims).await.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 49));
    for refused in lost {
        assert_eq!(reason(refused), "superseded");
    }
    assert_eq!(get(&bed, &run_id).await.epoch, 1);
    assert_eq!(bed.assert_intact().await, 2);
}

#[tokio::test]
async fn a_lease_expires_after_its_term_and_its_holder_is_fenced_by_the_next() {
    let bed = Bed::start().await;
    let mut launcher = bed.launcher();
    let run_id = queued(&bed, "q").await;
    let granted = claim(&mut launcher, &run_id, "a").await.expect("free");
    let term = granted.lease.as_ref().and_then(|lease| lease.term).expect("a term");
    assert_eq!((term.seconds, term.nanos), (30, 0));

    bed.clock.advance(Duration::from_secs(20));
    launcher.renew_lease(renewal(&run_id, 1)).await.expect("in time");
    bed.clock.advance(Duration::from_secs(29));
    assert_eq!(reason(claim(&mut launcher, &run_id, "b").await), "superseded");
    bed.clock.advance(Duration::from_secs(1));
    assert_eq!(epoch(claim(&mut launcher, &run_id, "b").await.expect("expired")), 2);

    assert_eq!(reason(launcher.renew_lease(renewal(&run_id, 1)).await), "stale-lease");
    let prepare = pb::PrepareRunRequest { run_id: run_id.clone(), epoch: 1 };
    assert_eq!(reason(launcher.prepare_run(prepare).await), "stale-lease");
    bed.assert_intact().await;
}

#[tokio::test]
async fn the_wall_clock_decides_nothing_about_a_lease() {
    let bed = Bed::start().await;
    let mut launcher = bed.launcher();
    let run_id = queued(&bed, "q").await;
    claim(&mut launcher, &run_id, "a").await.expect("free");
    bed.clock.set_wall("2031-01-01T00:00:00Z".parse().expect("timestamp"));
    assert_eq!(reason(claim(&mut launcher, &run_id, "b").await), "superseded");
}

#[tokio::test]
async fn after_a_restart_everything_is_there_and_every_lease_has_a_full_term() {
    let mut bed = Bed::start().await;
    let run_id = queued(&bed, "q").await;
    claim(&mut bed.launcher(), &run_id, "a").await.expect("free");
    let before = get(&bed, &run_id).await;
    bed.clock.advance(Duration::from_secs(29));
    bed.restart().await;

    assert_eq!(get(&bed, &run_id).await, before);
    bed.clock.advance(Duration::from_secs(29));
    assert_eq!(reason(claim(&mut bed.launcher(), &run_id, "b").await), "superseded");
    bed.launcher().renew_lease(renewal(&run_id, 1)).await.expect("the lease has outlived the broker");
    assert_eq!(epoch(claim(&mut bed.launcher(), &run_id, "a").await.expect("its own")), 2);
    assert_eq!(bed.assert_intact().await, 3);
}

#[tokio::test]
async fn a_lease_that_was_given_back_is_free_at_once() {
    let bed = Bed::start().await;
    let mut launcher = bed.launcher();
    let run_id = queued(&bed, "q").await;
    claim(&mut launcher, &run_id, "a").await.expect("free");
    let release = pb::ReleaseLeaseRequest { run_id: run_id.clone(), epoch: 1 };
    launcher.release_lease(release.clone()).await.expect("given back");
    launcher.release_lease(release.clone()).await.expect("again");
    assert_eq!(reason(launcher.renew_lease(renewal(&run_id, 1)).await), "stale-lease");
    bed.assert_intact().await;
    assert_eq!(epoch(claim(&mut launcher, &run_id, "b").await.expect("free")), 2);
    assert_eq!(reason(launcher.release_lease(release).await), "stale-lease");
}

#[tokio::test]
async fn a_terminal_run_is_answered_without_a_lease() {
    let bed = Bed::start().await;
    let mut launcher = bed.launcher();
    let run_id = create(&mut launcher, "q").await.expect("created").run.expect("a run").run_id;
    launcher.cancel_run(pb::CancelRunRequest { run_id: run_id.clone() }).await.expect("cancelled");
    let answer = claim(&mut launcher, &run_id, "a").await.expect("answered");
    assert_eq!(answer.lease, None);
    assert_eq!(answer.run.expect("a run").state(), pb::run::State::Cancelled);
}
