use std::path::PathBuf;
use std::time::{Duration, Instant};

use mosaic_broker::{Handle, Options};
use mosaic_data_root::{Credentials, DataRoot, Service};
use mosaic_proto::broker::v1 as pb;
use mosaic_proto::broker::v1::run_service_client::RunServiceClient;
use mosaic_rpc::{AuthedChannel, Dial};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::load::payload;
use crate::peer::scratch;
use crate::samples::Turn;

pub(crate) type Runs = RunServiceClient<AuthedChannel>;

const RUNNING: &str = r#"{"kind":"run.running","sandbox":"s","containment":{"backend":"bubblewrap","uid":65532,
    "ownRoot":true,"noNetwork":true,"syscallFilter":true,"limits":{}}}"#;

/// A broker on a fresh data root, and a running run for each client.
pub(crate) struct Ledger {
    scratch: tempfile::TempDir,
    root: DataRoot,
    handle: Handle,
    runs: Vec<String>,
    begun: (u64, u64),
}

/// What a broker has left behind.
pub(crate) struct Wrote {
    /// Keeps the files.
    _scratch: tempfile::TempDir,
    /// The ledger.
    pub(crate) database: PathBuf,
    /// Events that were appended in the turn.
    pub(crate) events: u64,
    /// Transactions that they took.
    pub(crate) commits: u64,
}

impl Wrote {
    /// Events of one transaction.
    pub(crate) fn batch(&self) -> f64 {
        self.events as f64 / self.commits as f64
    }
}

impl Ledger {
    pub(crate) async fn start(clients: usize) -> Self {
        let scratch = scratch();
        let root = DataRoot::create_or_open(&scratch.path().join("d")).expect("a data root");
        Credentials::of(&root).ensure().expect("credentials");
        let handle = mosaic_broker::start(Options::new(root.clone())).await.expect("the broker starts");
        let mut ledger = Self { scratch, root, handle, runs: Vec::new(), begun: (0, 0) };
        for number in 0..clients {
            let run_id = ledger.running(number).await;
            ledger.runs.push(run_id);
        }
        ledger.begun = (ledger.handle.events(), ledger.handle.commits());
        ledger
    }

    /// A client on a connection of its own.
    pub(crate) fn client(&self, service: Service) -> Runs {
        let token = Credentials::of(&self.root).service(service).expect("a token");
        RunServiceClient::new(Dial::new(&self.root, Service::Broker, &token).channel())
    }

    /// The root, for clients of other kinds.
    pub(crate) fn root(&self) -> &DataRoot {
        &self.root
    }

    async fn running(&self, number: usize) -> String {
        let mut launcher = self.client(Service::Launcher);
        let create = pb::CreateRunRequest { request_id: format!("bench-{number}"), spec: spec() };
        let run = launcher.create_run(create).await.expect("created").into_inner().run.expect("a run");
        let claim = pb::ClaimRunRequest { run_id: run.run_id.clone(), holder: "bench".to_owned() };
        launcher.claim_run(claim).await.expect("claimed");
        let prepare = pb::PrepareRunRequest { run_id: run.run_id.clone(), epoch: 1 };
        launcher.prepare_run(prepare).await.expect("prepared");
        let running = report(&run.run_id, 1, RUNNING.to_owned());
        self.client(Service::Runner).report_run(running).await.expect("taken");
        run.run_id
    }

    /// Has every client report on its own run, with up to `window` reports unanswered.
    pub(crate) async fn append(&self, window: usize, length: Duration) -> Turn {
        let mut tasks = Vec::new();
        let begun = Instant::now();
        for run_id in &self.runs {
            tasks.push(tokio::spawn(stream(self.client(Service::Runner), run_id.clone(), window, begun, length)));
        }
        let mut latencies = Vec::new();
        for task in tasks {
            latencies.append(&mut task.await.expect("a client reports"));
        }
        Turn { latencies, elapsed: begun.elapsed() }
    }

    pub(crate) async fn stop(self) -> Wrote {
        let (events, commits) = (self.handle.events() - self.begun.0, self.handle.commits() - self.begun.1);
        assert!(self.handle.drain(Duration::from_secs(30)).await, "the broker ends");
        Wrote { database: self.root.ledger(), _scratch: self.scratch, events, commits }
    }
}

/// Reports on one run over one stream until `length` has passed, and waits for every acknowledgement.
async fn stream(mut client: Runs, run_id: String, window: usize, begun: Instant, length: Duration) -> Vec<Duration> {
    let (requests, queue) = mpsc::channel(window);
    let mut asked: Vec<Instant> = Vec::new();
    let mut ask = |requests: &mpsc::Sender<_>| {
        let number = asked.len() as i64 + 2;
        let request = Some(report(&run_id, number, payload(number as u64)));
        asked.push(Instant::now());
        requests.try_send(pb::ReportRunsRequest { tag: number, request }).expect("no more than the window");
        asked.last().copied()
    };
    // Asking before there is a stream would count its making.
    let mut answers = client.report_runs(ReceiverStream::new(queue)).await.expect("a stream").into_inner();
    let mut times = Vec::new();
    let mut waiting = 0;
    for _ in 0..window {
        times.extend(ask(&requests));
        waiting += 1;
    }
    let mut latencies = Vec::new();
    while waiting > 0 {
        let answer = answers.message().await.expect("no error").expect("an answer");
        let accepted = pb::report_runs_response::Result::Accepted(answer.tag);
        assert_eq!(answer.result, Some(accepted), "reports are taken in their order");
        latencies.push(times[answer.tag as usize - 2].elapsed());
        waiting -= 1;
        if begun.elapsed() < length {
            times.extend(ask(&requests));
            waiting += 1;
        }
    }
    latencies
}

fn report(run_id: &str, number: i64, payload: String) -> pb::ReportRunRequest {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let time = prost_types::Timestamp { seconds: now.as_secs() as i64, nanos: now.subsec_nanos() as i32 };
    let report = pb::Report { number, time: Some(time), payload };
    pb::ReportRunRequest { run_id: run_id.to_owned(), epoch: 1, reports: vec![report] }
}

fn spec() -> String {
    serde_json::json!({
        "taskId": "t", "task": {"name": "task.json", "content": "{}"}, "request": "do it",
        "tools": [], "adapter": "mock", "synthetic": true, "backend": "bubblewrap",
        "limits": mosaic_record::Limits::default(), "noWait": false,
    })
    .to_string()
}
