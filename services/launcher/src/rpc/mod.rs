//! The launcher's gRPC surface.

pub mod authz;
mod convert;
mod integrate;

use std::pin::Pin;
use std::time::Duration;

use mosaic_proto::launcher::v1 as pb;
use mosaic_proto::launcher::v1::launch_service_server::LaunchService;
use mosaic_rpc::Caller;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};

use crate::app::App;
use convert::{harvest_part, overrides, project, prune_order, prune_progress, request_id, run_id, wait_limit, wish};

/// Progress of a prune that may wait for whoever reads it.
const PROGRESS: usize = 64;

/// Pieces of a file that may wait for whoever reads it.
const CHUNKS: usize = 4;

/// How long the broker may take to say whether a run was left in the queue.
const SHORTEST_LOOK: Duration = Duration::from_secs(1);

/// `mosaic.launcher.v1.LaunchService`.
#[derive(Debug, Clone)]
pub struct LaunchRpc {
    app: App,
}

impl LaunchRpc {
    /// The service over `app`.
    #[must_use]
    pub const fn new(app: App) -> Self {
        Self { app }
    }
}

#[tonic::async_trait]
impl LaunchService for LaunchRpc {
    type GetHarvestStream = Pin<Box<dyn Stream<Item = Result<pb::GetHarvestResponse, Status>> + Send>>;
    type IntegrateStream = Pin<Box<dyn Stream<Item = Result<pb::IntegrateResponse, Status>> + Send>>;
    type PruneStream = Pin<Box<dyn Stream<Item = Result<pb::PruneResponse, Status>> + Send>>;

    async fn launch(&self, request: Request<pb::LaunchRequest>) -> Result<Response<pb::LaunchResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let request_id = request_id(&request.request_id)?;
        let wish = wish(request.task, request.mission, request.overrides, request.no_wait)?;
        let launched = self.app.launch(&request_id, wish, &caller.actor).await?;
        Ok(Response::new(launched.into()))
    }

    async fn retry(&self, request: Request<pb::RetryRequest>) -> Result<Response<pb::RetryResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let (request_id, run) = (request_id(&request.request_id)?, run_id(&request.run_id)?);
        let overrides = overrides(request.overrides)?;
        let launched = self.app.retry(&request_id, &run, overrides, request.no_wait, &caller.actor).await?;
        Ok(Response::new(launched.into()))
    }

    async fn validate(&self, request: Request<pb::ValidateRequest>) -> Result<Response<pb::ValidateResponse>, Status> {
        let request = request.into_inner();
        let wish = wish(request.task, request.mission, request.overrides, false)?;
        Ok(Response::new(self.app.validate(wish)?.into()))
    }

    async fn stop(&self, request: Request<pb::StopRequest>) -> Result<Response<pb::StopResponse>, Status> {
        let caller = Caller::of(&request)?;
        let run = run_id(&request.get_ref().run_id)?;
        Ok(Response::new(self.app.stop(&run, &caller.actor).await?.into()))
    }

    async fn repair_runs(
        &self,
        _request: Request<pb::RepairRunsRequest>,
    ) -> Result<Response<pb::RepairRunsResponse>, Status> {
        Ok(Response::new(self.app.repair().await?.into()))
    }

    async fn prune(&self, request: Request<pb::PruneRequest>) -> Result<Response<Self::PruneStream>, Status> {
        let caller = Caller::of(&request)?;
        let order = prune_order(request.into_inner(), caller.actor)?;
        let (sender, progress) = mpsc::channel(PROGRESS);
        self.app.spawn_prune(order, sender);
        Ok(Response::new(Box::pin(ReceiverStream::new(progress).map(prune_progress))))
    }

    async fn get_harvest(
        &self,
        request: Request<pb::GetHarvestRequest>,
    ) -> Result<Response<Self::GetHarvestStream>, Status> {
        let request = request.into_inner();
        let (run, part) = (run_id(&request.run_id)?, harvest_part(request.part())?);
        let project = project(&request.project)?;
        let (sender, chunks) = mpsc::channel(CHUNKS);
        self.app.hand_out(&run, project.as_ref(), part, sender).await?;
        let chunks = ReceiverStream::new(chunks);
        let responses = chunks.map(|chunk| Ok(chunk.map(|chunk| pb::GetHarvestResponse { chunk })?));
        Ok(Response::new(Box::pin(responses)))
    }

    async fn integrate(
        &self,
        request: Request<pb::IntegrateRequest>,
    ) -> Result<Response<Self::IntegrateStream>, Status> {
        let caller = Caller::of(&request)?;
        let order = integrate::order(request.into_inner(), caller.actor)?;
        let (sender, progress) = mpsc::channel(PROGRESS);
        self.app.spawn_integrate(order, sender);
        Ok(Response::new(Box::pin(ReceiverStream::new(progress).map(integrate::progress))))
    }

    async fn get_status(
        &self,
        _request: Request<pb::GetStatusRequest>,
    ) -> Result<Response<pb::GetStatusResponse>, Status> {
        let runs_in_hand = i64::try_from(self.app.unfinished()).unwrap_or(i64::MAX);
        Ok(Response::new(pb::GetStatusResponse { runs_in_hand, ending: self.app.is_ending() }))
    }

    async fn hand_over(
        &self,
        _request: Request<pb::HandOverRequest>,
    ) -> Result<Response<pb::HandOverResponse>, Status> {
        self.app.hand_over()?;
        let runs_in_hand = i64::try_from(self.app.unfinished()).unwrap_or(i64::MAX);
        Ok(Response::new(pb::HandOverResponse { runs_in_hand }))
    }

    async fn await_run(&self, request: Request<pb::AwaitRunRequest>) -> Result<Response<pb::AwaitRunResponse>, Status> {
        let request = request.into_inner();
        let run = run_id(&request.run_id)?;
        let limit: Duration = wait_limit(request.timeout)?;
        // Also for whoever does not wait at all.
        if let Ok(looked) = tokio::time::timeout(limit.max(SHORTEST_LOOK), self.app.claim_left(&run)).await {
            looked?;
        }
        let finished = match tokio::time::timeout(limit, self.app.wait(&run)).await {
            Ok(over) => over.map(|()| true)?,
            Err(_elapsed) => false,
        };
        Ok(Response::new(pb::AwaitRunResponse { finished }))
    }
}
