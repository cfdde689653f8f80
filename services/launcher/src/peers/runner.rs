use std::time::Duration;

use mosaic_ids::{Digest, RunId};
use mosaic_proto::runner::v1 as pb;
use mosaic_proto::runner::v1::runner_service_client::RunnerServiceClient;
use mosaic_rpc::{AuthedChannel, Dial, Reason, RpcError};
use tonic::Status;

/// How long one call waits for the end of an execution; the next one goes on waiting.
const WAIT: Duration = Duration::from_secs(60);

/// The runner, as the launcher uses it.
#[derive(Debug, Clone)]
pub struct Runner {
    client: RunnerServiceClient<AuthedChannel>,
}

/// Where an execution is, as far as the launcher cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It goes on.
    NotYet,
    /// Its sandbox is gone and the broker has its end.
    Reported,
    /// The runner does not know it.
    Unknown,
}

impl Runner {
    /// The runner that `dial` leads to.
    #[must_use]
    pub fn new(dial: &Dial) -> Self {
        Self { client: RunnerServiceClient::new(dial.channel()) }
    }

    /// Starts a run.
    ///
    /// # Errors
    /// What the runner answers, or `unavailable`.
    pub async fn start(&self, run: &RunId, epoch: i64, bundle: &Digest) -> Result<(), RpcError> {
        let request = pb::StartRunRequest { run_id: run.to_string(), epoch, bundle_digest: bundle.to_string() };
        self.client.clone().start_run(request).await.map_err(failed)?;
        Ok(())
    }

    /// Asks for the end of an execution; false for one that the runner does not know, which is over already.
    ///
    /// # Errors
    /// What the runner answers, or `unavailable`.
    pub async fn stop(&self, run: &RunId) -> Result<bool, RpcError> {
        let request = pb::StopRunRequest { run_id: run.to_string() };
        match self.client.clone().stop_run(request).await.map_err(failed) {
            Err(error) if error.reason == Reason::NotFound => Ok(false),
            answer => answer.map(|_stopping| true),
        }
    }

    /// True when the runner knows an execution of the run.
    ///
    /// # Errors
    /// What the runner answers, or `unavailable`.
    pub async fn known(&self, run: &RunId) -> Result<bool, RpcError> {
        let request = pb::GetExecutionRequest { run_id: run.to_string(), wait: None };
        match self.client.clone().get_execution(request).await.map_err(failed) {
            Err(error) if error.reason == Reason::NotFound => Ok(false),
            answer => answer.map(|_execution| true),
        }
    }

    /// Waits a while for the end of an execution.
    ///
    /// # Errors
    /// What the runner answers, or `unavailable`.
    pub async fn wait(&self, run: &RunId) -> Result<Ended, RpcError> {
        let wait = WAIT.try_into().expect("a minute is a duration");
        let request = pb::GetExecutionRequest { run_id: run.to_string(), wait: Some(wait) };
        let execution = match self.client.clone().get_execution(request).await.map_err(failed) {
            Err(error) if error.reason == Reason::NotFound => return Ok(Ended::Unknown),
            answer => answer?.into_inner().execution.unwrap_or_default(),
        };
        let ended = execution.state() == pb::execution::State::Ended && execution.reported;
        Ok(if ended { Ended::Reported } else { Ended::NotYet })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form that `map_err` takes")]
fn failed(status: Status) -> RpcError {
    RpcError::from_status(&status)
}
