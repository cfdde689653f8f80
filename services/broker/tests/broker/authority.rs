use mosaic_data_root::Service;
use mosaic_proto::broker::v1 as pb;
use mosaic_record::Actor;

use crate::bed::{Bed, ENDED, create, get, prepared, queued, reason, report, spec};

#[tokio::test]
async fn only_the_launcher_makes_runs_and_only_the_runner_reports() {
    let bed = Bed::start().await;
    let run_id = queued(&bed, "q").await;
    assert_eq!(reason(create(&mut bed.operator(), "x").await), "not-permitted");
    assert_eq!(reason(create(&mut bed.runner(), "x").await), "not-permitted");
    let report = || pb::ReportRunRequest { run_id: run_id.clone(), epoch: 1, reports: vec![] };
    assert_eq!(reason(bed.operator().report_run(report()).await), "not-permitted");
    assert_eq!(reason(bed.launcher().report_run(report()).await), "not-permitted");
    let cancel = pb::CancelRunRequest { run_id: run_id.clone() };
    assert_eq!(reason(bed.operator().cancel_run(cancel).await), "not-permitted");
}

#[tokio::test]
async fn only_the_operator_keeps_and_only_the_launcher_removes() {
    let bed = Bed::start().await;
    let run_id = queued(&bed, "q").await;
    for service in [Some(Service::Launcher), Some(Service::Runner), Some(Service::Broker)] {
        let keep = pb::KeepRunRequest { run_id: run_id.clone(), kept: true };
        assert_eq!(reason(bed.retention(service).keep_run(keep).await), "not-permitted", "{service:?}");
    }
    for service in [None, Some(Service::Runner), Some(Service::Broker)] {
        let mut retention = bed.retention(service);
        let part = pb::RunPart::Output.into();
        let prune = pb::PruneRunRequest { run_id: run_id.clone(), part, freed_bytes: 0, archive: None };
        assert_eq!(reason(retention.prune_run(prune).await), "not-permitted", "{service:?}");
        let session = pb::PruneSessionRequest { session: "talk".to_owned(), freed_bytes: 0 };
        assert_eq!(reason(retention.prune_session(session).await), "not-permitted", "{service:?}");
    }
    for (service, allowed) in [(None, true), (Some(Service::Runner), false), (Some(Service::Broker), false)] {
        let cut = bed.retention(service).cut_ledger(pb::CutLedgerRequest { dry_run: true }).await;
        assert_eq!(cut.is_ok(), allowed, "{service:?}");
    }
}

#[tokio::test]
async fn an_event_names_whom_a_service_acts_for() {
    let bed = Bed::start().await;
    let request = pb::CreateRunRequest { request_id: "q".to_owned(), spec: spec("do it") };
    let request = mosaic_rpc::acting_for(request, &Actor::Operator);
    let run = bed.launcher().create_run(request).await.expect("created").into_inner().run.expect("a run");
    let record: serde_json::Value = serde_json::from_str(&get(&bed, &run.run_id).await.record).expect("JSON");
    assert_eq!(record["requestedBy"], "operator");
}

#[tokio::test]
async fn the_runner_names_nobody_but_the_session_of_its_run() {
    let bed = Bed::start().await;
    let run_id = prepared(&bed, "q").await;
    for actor in [Actor::Operator, "session:talk".parse().expect("actor")] {
        let reports = vec![report(1, ENDED)];
        let request = pb::ReportRunRequest { run_id: run_id.clone(), epoch: 1, reports };
        let request = mosaic_rpc::acting_for(request, &actor);
        assert_eq!(reason(bed.runner().report_run(request).await), "not-permitted");
    }
}

#[tokio::test]
async fn a_second_broker_on_one_data_root_is_refused() {
    let bed = Bed::start().await;
    let second = mosaic_broker::start(mosaic_broker::Options::new(bed.root.clone())).await;
    assert!(matches!(second, Err(mosaic_broker::Error::Locked(_))));
    assert!(bed.root.socket(Service::Broker).exists(), "the first one still has its socket");
    queued(&bed, "q").await;
}
