//! A broker of its own for each test, and what its callers say to it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mosaic_broker::{Handle, Options};
use mosaic_data_root::{Credentials, DataRoot, Service};
use mosaic_lifecycle::ManualClock;
use mosaic_proto::broker::v1 as pb;
use mosaic_proto::broker::v1::ledger_service_client::LedgerServiceClient;
use mosaic_proto::broker::v1::retention_service_client::RetentionServiceClient;
use mosaic_proto::broker::v1::run_service_client::RunServiceClient;
use mosaic_rpc::{AuthedChannel, Dial, MAX_MESSAGE_BYTES, RpcError};
use tonic::Status;

pub(crate) type Runs = RunServiceClient<AuthedChannel>;
pub(crate) type Ledger = LedgerServiceClient<AuthedChannel>;
pub(crate) type Retention = RetentionServiceClient<AuthedChannel>;

/// How long anything may take that has no reason to wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A data root, and a broker that serves it.
pub(crate) struct Bed {
    scratch: tempfile::TempDir,
    pub(crate) root: DataRoot,
    pub(crate) clock: Arc<ManualClock>,
    handle: Option<Handle>,
}

impl Bed {
    /// A fresh data root without a broker.
    pub(crate) fn idle() -> Self {
        let scratch = tempfile::tempdir().expect("scratch");
        let root = DataRoot::create_or_open(&scratch.path().join("d")).expect("data root");
        Credentials::of(&root).ensure().expect("credentials");
        let clock = Arc::new(ManualClock::new("2026-01-02T03:04:05.678Z".parse().expect("timestamp")));
        Self { scratch, root, clock, handle: None }
    }

    /// A fresh data root with a broker.
    pub(crate) async fn start() -> Self {
        let mut bed = Self::idle();
        bed.start_broker().await;
        bed
    }

    pub(crate) async fn start_broker(&mut self) {
        let options = Options { clock: self.clock.clone(), ..Options::new(self.root.clone()) };
        self.handle = Some(mosaic_broker::start(options).await.expect("the broker starts"));
    }

    pub(crate) async fn stop_broker(&mut self) {
        let handle = self.handle.take().expect("a broker");
        assert!(handle.drain(PATIENCE).await, "the broker stops without cutting anything short");
    }

    pub(crate) async fn restart(&mut self) {
        self.stop_broker().await;
        self.start_broker().await;
    }

    pub(crate) fn handle(&self) -> &Handle {
        self.handle.as_ref().expect("a broker")
    }

    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    fn channel(&self, service: Option<Service>) -> AuthedChannel {
        let credentials = Credentials::of(&self.root);
        let token = match service {
            None => credentials.operator(),
            Some(service) => credentials.service(service),
        };
        Dial::new(&self.root, Service::Broker, &token.expect("a token")).channel()
    }

    fn runs(&self, service: Option<Service>) -> Runs {
        RunServiceClient::new(self.channel(service))
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }

    pub(crate) fn launcher(&self) -> Runs {
        self.runs(Some(Service::Launcher))
    }

    pub(crate) fn runner(&self) -> Runs {
        self.runs(Some(Service::Runner))
    }

    pub(crate) fn operator(&self) -> Runs {
        self.runs(None)
    }

    pub(crate) fn ledger(&self) -> Ledger {
        LedgerServiceClient::new(self.channel(None)).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// What is kept and what may go, as `service` or as the operator.
    pub(crate) fn retention(&self, service: Option<Service>) -> Retention {
        RetentionServiceClient::new(self.channel(service))
    }

    /// A connection past the broker, as somebody has who tampers with its file.
    pub(crate) async fn raw(&self) -> sqlx::SqliteConnection {
        use sqlx::Connection as _;
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(self.root.ledger());
        sqlx::SqliteConnection::connect_with(&options).await.expect("the ledger's file")
    }

    /// The ledger is whole. Returns its number of events.
    pub(crate) async fn assert_intact(&self) -> i64 {
        let verdict = self.ledger().verify_ledger(pb::VerifyLedgerRequest {}).await.expect("verified").into_inner();
        assert_eq!(verdict.faults, []);
        assert!(verdict.intact);
        verdict.events
    }
}

/// A spec that says `request`.
pub(crate) fn spec(request: &str) -> String {
    serde_json::json!({
        "taskId": "t", "task": {"name": "task.json", "content": "{}"}, "request": request, "expectExact": "done",
        "tools": [], "adapter": "mock", "synthetic": true, "backend": "host",
        "limits": mosaic_record::Limits::default(), "noWait": false,
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    })
    .to_string()
}

pub(crate) async fn create(runs: &mut Runs, request_id: &str) -> Result<pb::CreateRunResponse, Status> {
    let request = pb::CreateRunRequest { request_id: request_id.to_owned(), spec: spec("do it") };
    runs.create_run(request).await.map(tonic::Response::into_inner)
}

/// A queued run's id.
pub(crate) async fn queued(bed: &Bed, request_id: &str) -> String {
    create(&mut bed.launcher(), request_id).await.expect("created").run.expect("a run").run_id
}

pub(crate) async fn claim(runs: &mut Runs, run_id: &str, holder: &str) -> Result<pb::ClaimRunResponse, Status> {
    let request = pb::ClaimRunRequest { run_id: run_id.to_owned(), holder: holder.to_owned() };
    runs.claim_run(request).await.map(tonic::Response::into_inner)
}

/// Id of a run that was cancelled before it ran: three events.
pub(crate) async fn over(bed: &Bed, request_id: &str) -> String {
    let run_id = queued(bed, request_id).await;
    bed.launcher().cancel_run(pb::CancelRunRequest { run_id: run_id.clone() }).await.expect("cancelled");
    run_id
}

/// Records that `part` of a run is removed.
pub(crate) async fn prune(bed: &Bed, run_id: &str, part: pb::RunPart) -> Result<pb::Run, Status> {
    let request = pb::PruneRunRequest { run_id: run_id.to_owned(), part: part.into(), freed_bytes: 7, archive: None };
    let pruned = bed.retention(Some(Service::Launcher)).prune_run(request).await?;
    Ok(pruned.into_inner().run.expect("a run"))
}

/// Cuts the ledger, as the launcher.
pub(crate) async fn cut(bed: &Bed) -> Result<pb::CutLedgerResponse, Status> {
    let request = pb::CutLedgerRequest { dry_run: false };
    bed.retention(Some(Service::Launcher)).cut_ledger(request).await.map(tonic::Response::into_inner)
}

/// Id of a run that is prepared under epoch 1.
pub(crate) async fn prepared(bed: &Bed, request_id: &str) -> String {
    let mut launcher = bed.launcher();
    let run_id = queued(bed, request_id).await;
    claim(&mut launcher, &run_id, "a").await.expect("claimed");
    let request = pb::PrepareRunRequest { run_id: run_id.clone(), epoch: 1 };
    launcher.prepare_run(request).await.expect("prepared");
    run_id
}

pub(crate) async fn get(bed: &Bed, run_id: &str) -> pb::Run {
    let request = pb::GetRunRequest { run_id: run_id.to_owned() };
    bed.operator().get_run(request).await.expect("read").into_inner().run.expect("a run")
}

pub(crate) fn report(number: i64, payload: &str) -> pb::Report {
    let time = Some(prost_types::Timestamp { seconds: 1_767_323_045, nanos: 700_000_000 });
    pb::Report { number, time, payload: payload.to_owned() }
}

pub(crate) const RUNNING: &str = r#"{"kind":"run.running","sandbox":"s","containment":{"backend":"host","uid":1,
    "ownRoot":false,"noNetwork":false,"syscallFilter":false,"limits":{}}}"#;
pub(crate) const TURN_DONE: &str = r#"{"kind":"run.turn-done"}"#;
pub(crate) const ENDED: &str = r#"{"kind":"run.ended","status":"succeeded","exitCode":0,"response":"done",
    "output":{"stdoutBytes":4,"stderrBytes":0,"dropped":0},"durationMs":5}"#;

pub(crate) async fn send(
    runs: &mut Runs,
    run_id: &str,
    epoch: i64,
    reports: &[(i64, &str)],
) -> Result<pb::ReportRunResponse, Status> {
    let reports = reports.iter().map(|(number, payload)| report(*number, payload)).collect();
    let request = pb::ReportRunRequest { run_id: run_id.to_owned(), epoch, reports };
    runs.report_run(request).await.map(tonic::Response::into_inner)
}

/// The reason of a refused call, kebab-case.
pub(crate) fn reason<T: std::fmt::Debug>(result: Result<T, Status>) -> &'static str {
    RpcError::from_status(&result.expect_err("refused")).reason.as_str()
}

/// `future`, which has no reason to wait.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("within the patience of a test")
}

/// A tenth of `full`, or as much of it as `MOSAIC_SOAK` says; `MOSAIC_SOAK=1` is all.
pub(crate) fn soak(full: u32) -> u32 {
    let share = std::env::var("MOSAIC_SOAK").ok().and_then(|share| share.parse().ok()).unwrap_or(0.1_f64);
    ((f64::from(full) * share) as u32).max(1)
}
