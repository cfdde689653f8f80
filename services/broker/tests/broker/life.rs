//! One run from its recording to its end, and the ends before the beginning.

use mosaic_proto::broker::v1 as pb;
use pb::run::State;

use crate::bed::{Bed, ENDED, RUNNING, TURN_DONE, claim, get, prepared, queued, reason, send};

fn step(run_id: &str, name: &str, facts: &str) -> pb::RecordStepRequest {
    pb::RecordStepRequest {
        run_id: run_id.to_owned(),
        epoch: 1,
        step: name.to_owned(),
        state: pb::record_step_request::State::Done.into(),
        facts: facts.to_owned(),
    }
}

#[tokio::test]
async fn a_run_goes_from_queued_to_succeeded_and_its_record_says_how() {
    let bed = Bed::start().await;
    let (mut launcher, mut runner) = (bed.launcher(), bed.runner());
    let run_id = prepared(&bed, "q").await;
    let facts = format!(r#"{{"workspaceRoot":"/w","bundleDigest":"{}"}}"#, "ab".repeat(32));
    let first = launcher.record_step(step(&run_id, "bundle", &facts)).await.expect("recorded").into_inner();
    let again = launcher.record_step(step(&run_id, "bundle", "")).await.expect("known").into_inner();
    assert_eq!(first, again);

    send(&mut runner, &run_id, 1, &[(1, RUNNING)]).await.expect("taken");
    assert_eq!(get(&bed, &run_id).await.state(), State::Running);
    let end = send(&mut runner, &run_id, 1, &[(2, TURN_DONE), (3, ENDED)]).await.expect("taken");
    assert_eq!(end.accepted, 3);

    let run = get(&bed, &run_id).await;
    assert_eq!((run.state(), run.reason.as_str()), (State::Succeeded, ""));
    assert!(run.start_time.is_some() && run.end_time.is_some());
    let record: serde_json::Value = serde_json::from_str(&run.record).expect("JSON");
    assert_eq!(record["response"], "done");
    assert_eq!(record["workspaceRoot"], "/w");
    assert_eq!(record["status"], "succeeded");
    assert_eq!(record["durationMs"], 5);
    launcher.release_lease(pb::ReleaseLeaseRequest { run_id, epoch: 1 }).await.expect("given back");
    assert_eq!(bed.assert_intact().await, 7);
}

#[tokio::test]
async fn a_terminal_run_takes_nothing_more() {
    let bed = Bed::start().await;
    let (mut launcher, mut runner) = (bed.launcher(), bed.runner());
    let run_id = prepared(&bed, "q").await;
    send(&mut runner, &run_id, 1, &[(1, ENDED)]).await.expect("taken");
    let before = get(&bed, &run_id).await;

    assert_eq!(reason(send(&mut runner, &run_id, 1, &[(2, TURN_DONE)]).await), "invalid-request");
    let prepare = pb::PrepareRunRequest { run_id: run_id.clone(), epoch: 1 };
    assert_eq!(reason(launcher.prepare_run(prepare).await), "invalid-request");
    assert_eq!(reason(launcher.record_step(step(&run_id, "late", "")).await), "invalid-request");
    let confirm = pb::ConfirmCancelRequest { run_id: run_id.clone(), epoch: 1 };
    assert_eq!(reason(launcher.confirm_cancel(confirm).await), "invalid-request");
    let lose = pb::LoseRunRequest { run_id: run_id.clone(), epoch: 1 };
    assert_eq!(reason(launcher.lose_run(lose).await), "invalid-request");
    assert_eq!(reason(launcher.refuse_run(refusal(&run_id)).await), "invalid-request");
    launcher.cancel_run(pb::CancelRunRequest { run_id: run_id.clone() }).await.expect("returned as it is");
    assert_eq!(get(&bed, &run_id).await, before);
}

fn refusal(run_id: &str) -> pb::RefuseRunRequest {
    pb::RefuseRunRequest {
        run_id: run_id.to_owned(),
        epoch: 1,
        reason: "disk-low".to_owned(),
        step: "workspace".to_owned(),
        message: "20 MiB are free; 1 GiB is needed".to_owned(),
    }
}

#[tokio::test]
async fn a_refused_run_says_which_step_did_not_happen_and_why() {
    let bed = Bed::start().await;
    let mut launcher = bed.launcher();
    let run_id = prepared(&bed, "q").await;
    let refused = launcher.refuse_run(refusal(&run_id)).await.expect("refused").into_inner().run.expect("a run");
    let again = launcher.refuse_run(refusal(&run_id)).await.expect("again").into_inner().run.expect("a run");
    assert_eq!((refused.state(), refused.reason.as_str()), (State::Refused, "disk-low"));
    assert_eq!(refused, again);
    let unknown = pb::RefuseRunRequest { reason: "bored".to_owned(), ..refusal(&run_id) };
    assert_eq!(reason(launcher.refuse_run(unknown).await), "invalid-request");
    bed.assert_intact().await;
}

#[tokio::test]
async fn a_stop_reaches_the_holder_through_its_lease_and_is_confirmed() {
    let bed = Bed::start().await;
    let mut launcher = bed.launcher();
    let run_id = queued(&bed, "q").await;
    claim(&mut launcher, &run_id, "a").await.expect("claimed");
    let cancelled = launcher.cancel_run(pb::CancelRunRequest { run_id: run_id.clone() }).await.expect("asked");
    assert_eq!(cancelled.into_inner().run.expect("a run").state(), State::Queued);
    let renew = pb::RenewLeaseRequest { run_id: run_id.clone(), epoch: 1 };
    assert!(launcher.renew_lease(renew).await.expect("renewed").into_inner().cancel_requested);
    let confirm = pb::ConfirmCancelRequest { run_id: run_id.clone(), epoch: 1 };
    let run = launcher.confirm_cancel(confirm).await.expect("confirmed").into_inner().run.expect("a run");
    assert_eq!((run.state(), run.reason.as_str(), run.cancel_requested), (State::Cancelled, "cancelled", true));
    bed.assert_intact().await;
}

#[tokio::test]
async fn a_run_whose_runner_is_gone_is_lost() {
    let bed = Bed::start().await;
    let run_id = prepared(&bed, "q").await;
    send(&mut bed.runner(), &run_id, 1, &[(1, RUNNING)]).await.expect("taken");
    let lose = pb::LoseRunRequest { run_id: run_id.clone(), epoch: 1 };
    let run = bed.launcher().lose_run(lose).await.expect("lost").into_inner().run.expect("a run");
    assert_eq!((run.state(), run.reason.as_str()), (State::Lost, "runner-lost"));
    assert_eq!(reason(send(&mut bed.runner(), &run_id, 1, &[(2, ENDED)]).await), "invalid-request");
    bed.assert_intact().await;
}
