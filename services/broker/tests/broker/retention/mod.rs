//! What is kept, what is removed, and what is left of the ledger when it is cut.

mod clock;
mod cutting;
mod tampering;

use mosaic_data_root::Service;
use mosaic_proto::broker::v1 as pb;
use mosaic_rpc::RpcError;
use tonic::Status;

use crate::bed::{Bed, get, over, prepared, prune, queued, reason, send, spec};

async fn keep(bed: &Bed, run_id: &str, kept: bool) -> Result<pb::Run, Status> {
    let request = pb::KeepRunRequest { run_id: run_id.to_owned(), kept };
    Ok(bed.retention(None).keep_run(request).await?.into_inner().run.expect("a run"))
}

async fn prune_session(bed: &Bed, session: &str) -> Result<(), Status> {
    let request = pb::PruneSessionRequest { session: session.to_owned(), freed_bytes: 9 };
    bed.retention(Some(Service::Launcher)).prune_session(request).await.map(drop)
}

async fn verdict(bed: &Bed) -> pb::VerifyLedgerResponse {
    bed.ledger().verify_ledger(pb::VerifyLedgerRequest {}).await.expect("verified").into_inner()
}

fn record(run: &pb::Run) -> serde_json::Value {
    serde_json::from_str(&run.record).expect("JSON")
}

#[tokio::test]
async fn a_run_is_kept_once_in_every_state_and_shown_as_kept() {
    let bed = Bed::start().await;
    for run_id in [queued(&bed, "q-1").await, prepared(&bed, "q-2").await, over(&bed, "q-3").await] {
        let kept = keep(&bed, &run_id, true).await.expect("kept");
        assert!(kept.kept);
        assert_eq!(keep(&bed, &run_id, true).await.expect("again"), kept);
        let shown = get(&bed, &run_id).await;
        assert!(shown.kept && record(&shown)["kept"] == true);
        assert!(!keep(&bed, &run_id, false).await.expect("no longer").kept);
        assert!(!get(&bed, &run_id).await.kept);
    }
    assert_eq!(reason(keep(&bed, "r-nobody", true).await), "not-found");
    bed.assert_intact().await;
}

#[tokio::test]
async fn a_run_that_is_kept_and_lives_goes_on() {
    let mut bed = Bed::start().await;
    let run_id = prepared(&bed, "q").await;
    keep(&bed, &run_id, true).await.expect("kept");
    bed.restart().await;
    send(&mut bed.runner(), &run_id, 1, &[(1, crate::bed::RUNNING), (2, crate::bed::ENDED)]).await.expect("taken");
    let run = get(&bed, &run_id).await;
    assert_eq!((run.state(), run.kept), (pb::run::State::Succeeded, true));
    bed.assert_intact().await;
}

#[tokio::test]
async fn what_is_removed_of_a_run_is_recorded_once_and_shown() {
    let bed = Bed::start().await;
    let run_id = over(&bed, "q").await;
    let workspace = pb::PruneRunRequest {
        run_id: run_id.clone(),
        part: pb::RunPart::Workspace.into(),
        freed_bytes: 4096,
        archive: Some(pb::Archive { name: "workspace.tar.gz".into(), digest: "a".repeat(64), size_bytes: 99 }),
    };
    let mut launcher = bed.retention(Some(Service::Launcher));
    let first = launcher.prune_run(workspace.clone()).await.expect("removed").into_inner();
    assert_eq!(launcher.prune_run(workspace).await.expect("again").into_inner(), first);
    prune(&bed, &run_id, pb::RunPart::Output).await.expect("removed");
    let expected = serde_json::json!([
        { "part": "workspace", "freedBytes": 4096,
          "archive": { "name": "workspace.tar.gz", "digest": "a".repeat(64), "sizeBytes": 99 } },
        { "part": "output", "freedBytes": 7 },
    ]);
    assert_eq!(record(&get(&bed, &run_id).await)["pruned"], expected);
    prune(&bed, &run_id, pb::RunPart::Record).await.expect("removed");
    assert_eq!(reason(keep(&bed, &run_id, true).await), "invalid-request");
    assert_eq!(bed.assert_intact().await, 6);
}

#[tokio::test]
async fn nothing_of_a_run_that_lives_or_is_kept_is_removed() {
    let bed = Bed::start().await;
    assert_eq!(reason(prune(&bed, "r-nobody", pb::RunPart::Output).await), "not-found");
    for run_id in [queued(&bed, "q-1").await, prepared(&bed, "q-2").await] {
        assert_eq!(reason(prune(&bed, &run_id, pb::RunPart::Output).await), "invalid-request");
    }
    let run_id = over(&bed, "q-3").await;
    keep(&bed, &run_id, true).await.expect("kept");
    let refused = RpcError::from_status(&prune(&bed, &run_id, pb::RunPart::Record).await.expect_err("kept"));
    assert_eq!(refused.reason.as_str(), "not-permitted");
    assert!(refused.message.contains(&format!("mosaic keep --undo {run_id}")), "{}", refused.message);
    assert_eq!(refused.metadata.get("run_id"), Some(&run_id));
    keep(&bed, &run_id, false).await.expect("no longer");
    prune(&bed, &run_id, pb::RunPart::Record).await.expect("removed");
}

#[tokio::test]
async fn a_session_is_removed_when_no_run_that_lives_uses_it() {
    let bed = Bed::start().await;
    let with_session = spec("do it").replace("\"tools\":[]", "\"tools\":[],\"session\":\"talk\"");
    let request = pb::CreateRunRequest { request_id: "q".to_owned(), spec: with_session };
    let mut launcher = bed.launcher();
    let run_id = launcher.create_run(request).await.expect("created").into_inner().run.expect("a run").run_id;
    let refused = RpcError::from_status(&prune_session(&bed, "talk").await.expect_err("in use"));
    assert_eq!((refused.reason.as_str(), refused.metadata.get("run_id")), ("session-live", Some(&run_id)));
    prune_session(&bed, "other").await.expect("removed");
    launcher.cancel_run(pb::CancelRunRequest { run_id }).await.expect("cancelled");
    prune_session(&bed, "talk").await.expect("removed");
    assert_eq!(reason(prune_session(&bed, "../talk").await), "invalid-request");

    let request = pb::WatchEventsRequest { from_sequence: 5 };
    let mut watch = bed.ledger().watch_events(request).await.expect("watched").into_inner();
    let event = watch.message().await.expect("no error").expect("an event").event.expect("an event");
    assert_eq!((event.kind.as_str(), event.subject.as_str()), ("session.pruned", "session:talk"));
    assert_eq!(event.payload, r#"{"kind":"session.pruned","session":"talk","freedBytes":9}"#);
    assert_eq!(event.actor, "service:launcher");
    assert_eq!(bed.assert_intact().await, 5);
}
