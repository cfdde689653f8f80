//! Connections to the services of a host.

use std::time::Duration;

use mosaic_data_root::{Credentials, DataRoot, Service};
use mosaic_proto::broker::v1::ledger_service_client::LedgerServiceClient;
use mosaic_proto::broker::v1::retention_service_client::RetentionServiceClient;
use mosaic_proto::broker::v1::run_service_client::RunServiceClient;
use mosaic_proto::launcher::v1 as launcher;
use mosaic_proto::launcher::v1::launch_service_client::LaunchServiceClient;
use mosaic_proto::runner::v1::runner_service_client::RunnerServiceClient;
use mosaic_rpc::{AuthedChannel, Dial, MAX_MESSAGE_BYTES, Reason, RpcError};

use crate::exit::Failure;

/// How long a host may take to say what it has in hand.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// One connection to each service, as the operator.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    /// Runs.
    pub runs: RunServiceClient<AuthedChannel>,
    /// The ledger.
    pub ledger: LedgerServiceClient<AuthedChannel>,
    /// What is kept.
    pub retention: RetentionServiceClient<AuthedChannel>,
    /// Launches.
    pub launches: LaunchServiceClient<AuthedChannel>,
    /// Executions.
    pub executions: RunnerServiceClient<AuthedChannel>,
}

impl Client {
    /// Connects to the host of a data root; `None` when it does not answer (yet, or any more).
    ///
    /// # Errors
    /// When the operator's token can't be read, or is refused.
    pub(crate) async fn connect(root: &DataRoot) -> Result<Option<Self>, Failure> {
        let token = Credentials::of(root).operator().map_err(|error| {
            let failure = Failure::unreachable(format!("can't read the operator's token: {error}"));
            failure.hint("run this as the owner of the data root")
        })?;
        let channel = |service| Dial::new(root, service, &token).channel();
        let mut client = Self {
            runs: RunServiceClient::new(channel(Service::Broker))
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
            ledger: LedgerServiceClient::new(channel(Service::Broker)).max_decoding_message_size(MAX_MESSAGE_BYTES),
            retention: RetentionServiceClient::new(channel(Service::Broker)),
            launches: LaunchServiceClient::new(channel(Service::Launcher)).max_encoding_message_size(MAX_MESSAGE_BYTES),
            executions: RunnerServiceClient::new(channel(Service::Runner)),
        };
        // The launcher starts last: one that answers stands for all.
        match client.status().await {
            Ok(_) => Ok(Some(client)),
            Err(error) if error.reason == Reason::Unavailable => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What the host has in hand, and whether it takes more.
    ///
    /// # Errors
    /// When it does not answer in time.
    pub(crate) async fn status(&mut self) -> Result<launcher::GetStatusResponse, RpcError> {
        let mut request = tonic::Request::new(launcher::GetStatusRequest {});
        request.set_timeout(ANSWER_LIMIT);
        match tokio::time::timeout(ANSWER_LIMIT, self.launches.get_status(request)).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(RpcError::from_status(&status)),
            Err(_elapsed) => Err(RpcError::unavailable("the host does not answer")),
        }
    }
}
