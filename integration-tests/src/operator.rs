use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mosaic_data_root::{Credentials, DataRoot, Service, Token};
use mosaic_proto::broker::v1 as broker;
use mosaic_proto::broker::v1::ledger_service_client::LedgerServiceClient;
use mosaic_proto::broker::v1::run_service_client::RunServiceClient;
use mosaic_proto::launcher::v1 as launcher;
use mosaic_proto::launcher::v1::launch_service_client::LaunchServiceClient;
use mosaic_proto::runner::v1 as runner;
use mosaic_proto::runner::v1::runner_service_client::RunnerServiceClient;
use mosaic_rpc::{AuthedChannel, Dial, MAX_MESSAGE_BYTES, RpcError};
use serde_json::Value;
use tokio::runtime::Runtime;
use tonic::{Response, Status};

/// How long a call may take, except one that waits for something.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// A person with a gRPC client: every call of theirs that the tests need, each one bounded. Usable from several threads.
#[derive(Debug, Clone)]
pub struct Operator {
    runtime: Arc<Runtime>,
    runs: RunServiceClient<AuthedChannel>,
    ledger: LedgerServiceClient<AuthedChannel>,
    launches: LaunchServiceClient<AuthedChannel>,
    executions: RunnerServiceClient<AuthedChannel>,
}

impl Operator {
    /// The operator of a data root that has its credentials.
    ///
    /// # Panics
    /// When it is none, or its token can't be read.
    #[must_use]
    pub fn of(data: &Path) -> Self {
        let root = DataRoot::open(data).expect("a data root");
        let token = Credentials::of(&root).operator().expect("the operator's token");
        Self::with_token(&root, &token)
    }

    /// Whoever has the token of a service; may do what that service may.
    ///
    /// # Panics
    /// When it is no data root, or the token can't be read.
    #[must_use]
    pub fn as_service(data: &Path, service: Service) -> Self {
        let root = DataRoot::open(data).expect("a data root");
        let token = Credentials::of(&root).service(service).expect("the service's token");
        Self::with_token(&root, &token)
    }

    fn with_token(root: &DataRoot, token: &Token) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let _context = runtime.enter();
        let channel = |service| Dial::new(root, service, token).channel();
        Self {
            runs: RunServiceClient::new(channel(Service::Broker)).max_decoding_message_size(MAX_MESSAGE_BYTES),
            ledger: LedgerServiceClient::new(channel(Service::Broker)).max_decoding_message_size(MAX_MESSAGE_BYTES),
            launches: LaunchServiceClient::new(channel(Service::Launcher)).max_encoding_message_size(MAX_MESSAGE_BYTES),
            executions: RunnerServiceClient::new(channel(Service::Runner)),
            runtime: Arc::new(runtime),
        }
    }

    /// Launches a task, and returns the run's id.
    ///
    /// # Errors
    /// What the launcher answers.
    pub fn launch(&self, request_id: &str, task: &Value) -> Result<String, RpcError> {
        let task = launcher::Document { name: "task.json".to_owned(), content: task.to_string() };
        let request = launcher::LaunchRequest {
            request_id: request_id.to_owned(),
            task: Some(task),
            ..launcher::LaunchRequest::default()
        };
        let mut client = self.launches.clone();
        self.call(async move { client.launch(request).await }).map(|response| response.run_id)
    }

    /// Asks for the end of a run.
    ///
    /// # Errors
    /// What the launcher answers.
    pub fn stop(&self, run: &str) -> Result<launcher::StopResponse, RpcError> {
        let (mut client, request) = (self.launches.clone(), launcher::StopRequest { run_id: run.to_owned() });
        self.call(async move { client.stop(request).await })
    }

    /// How many runs the launcher has in hand.
    ///
    /// # Errors
    /// What the launcher answers.
    pub fn in_hand(&self) -> Result<i64, RpcError> {
        let mut client = self.launches.clone();
        self.call(async move { client.get_status(launcher::GetStatusRequest {}).await })
            .map(|response| response.runs_in_hand)
    }

    /// One run.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn run(&self, run: &str) -> Result<broker::Run, RpcError> {
        let (mut client, request) = (self.runs.clone(), broker::GetRunRequest { run_id: run.to_owned() });
        self.call(async move { client.get_run(request).await }).map(|response| response.run.unwrap_or_default())
    }

    /// The record of a run.
    ///
    /// # Errors
    /// What the broker answers.
    ///
    /// # Panics
    /// When it is no JSON.
    pub fn record(&self, run: &str) -> Result<Value, RpcError> {
        self.run(run).map(|run| serde_json::from_str(&run.record).expect("a record is JSON"))
    }

    /// Every run, newest first.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn runs(&self) -> Result<Vec<broker::Run>, RpcError> {
        let (mut runs, mut page_token) = (Vec::new(), String::new());
        loop {
            let request =
                broker::ListRunsRequest { page_size: 200, page_token, states: Vec::new(), ..Default::default() };
            let mut client = self.runs.clone();
            let page = self.call(async move { client.list_runs(request).await })?;
            runs.extend(page.runs);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(runs);
            }
        }
    }

    /// Hands every event of a run from `from` on to `seen` until that returns false or the run is terminal.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable` when there is no end within `limit`.
    pub fn watch(
        &self,
        run: &str,
        from: i64,
        limit: Duration,
        mut seen: impl FnMut(broker::Event) -> bool,
    ) -> Result<(), RpcError> {
        let mut client = self.runs.clone();
        let request = broker::WatchRunRequest { run_id: run.to_owned(), from_sequence: from };
        let watching = async move {
            let mut events = client.watch_run(request).await?.into_inner();
            while let Some(response) = events.message().await? {
                if let Some(event) = response.event
                    && !seen(event)
                {
                    break;
                }
            }
            Ok(())
        };
        self.bounded(limit, watching)
    }

    /// Every event of a run that is terminal.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn events(&self, run: &str) -> Result<Vec<broker::Event>, RpcError> {
        let mut events = Vec::new();
        self.watch(run, 0, CALL_LIMIT, |event| {
            events.push(event);
            true
        })?;
        Ok(events)
    }

    /// What the runner has of a run.
    ///
    /// # Errors
    /// What the runner answers.
    pub fn execution(&self, run: &str) -> Result<runner::Execution, RpcError> {
        let mut client = self.executions.clone();
        let request = runner::GetExecutionRequest { run_id: run.to_owned(), wait: None };
        self.call(async move { client.get_execution(request).await })
            .map(|response| response.execution.unwrap_or_default())
    }

    /// Claims a run for `holder`; only for who has the launcher's token.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn claim(&self, run: &str, holder: &str) -> Result<broker::ClaimRunResponse, RpcError> {
        let request = broker::ClaimRunRequest { holder: holder.to_owned(), run_id: run.to_owned() };
        let mut client = self.runs.clone();
        self.call(async move { client.claim_run(request).await })
    }

    /// Renews a lease; only for who has the launcher's token.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn renew(&self, run: &str, epoch: i64) -> Result<broker::RenewLeaseResponse, RpcError> {
        let request = broker::RenewLeaseRequest { run_id: run.to_owned(), epoch };
        let mut client = self.runs.clone();
        self.call(async move { client.renew_lease(request).await })
    }

    /// Ends a run whose execution nobody knows; only for who has the launcher's token.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn lose(&self, run: &str, epoch: i64) -> Result<broker::LoseRunResponse, RpcError> {
        let request = broker::LoseRunRequest { run_id: run.to_owned(), epoch };
        let mut client = self.runs.clone();
        self.call(async move { client.lose_run(request).await })
    }

    /// Proves the ledger.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn verify(&self) -> Result<broker::VerifyLedgerResponse, RpcError> {
        let mut client = self.ledger.clone();
        let limit = Duration::from_secs(60);
        self.bounded(limit, async move {
            client.verify_ledger(broker::VerifyLedgerRequest {}).await.map(Response::into_inner)
        })
    }

    fn call<T>(&self, call: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, RpcError> {
        self.bounded(CALL_LIMIT, async move { call.await.map(Response::into_inner) })
    }

    fn bounded<T>(&self, limit: Duration, work: impl Future<Output = Result<T, Status>>) -> Result<T, RpcError> {
        let bounded = async move { tokio::time::timeout(limit, work).await };
        match self.runtime.block_on(bounded) {
            Ok(answer) => answer.map_err(|status| RpcError::from_status(&status)),
            Err(_elapsed) => Err(RpcError::unavailable(format!("no answer within {} s", limit.as_secs()))),
        }
    }
}
