use std::sync::Arc;

use mosaic_proto::broker::v1 as pb;
use mosaic_proto::broker::v1::retention_service_server::RetentionService;
use mosaic_rpc::Caller;
use tonic::{Request, Response, Status};

use super::{convert, rpc_error};
use crate::app::Broker;

/// `RetentionService` on the use cases.
pub(super) struct Retention {
    pub(super) broker: Arc<Broker>,
}

#[tonic::async_trait]
impl RetentionService for Retention {
    async fn keep_run(&self, request: Request<pb::KeepRunRequest>) -> Result<Response<pb::KeepRunResponse>, Status> {
        let caller = Caller::of(&request)?;
        let (run_id, change) = convert::retention::keep(request.into_inner())?;
        let written = self.broker.change(caller.actor, run_id, change).await.map_err(rpc_error)?;
        Ok(Response::new(pb::KeepRunResponse { run: Some(convert::summary_to_pb(written.run.summary())) }))
    }

    async fn prune_run(&self, request: Request<pb::PruneRunRequest>) -> Result<Response<pb::PruneRunResponse>, Status> {
        let caller = Caller::of(&request)?;
        let (run_id, change) = convert::retention::prune(request.into_inner())?;
        let written = self.broker.change(caller.actor, run_id, change).await.map_err(rpc_error)?;
        Ok(Response::new(pb::PruneRunResponse { run: Some(convert::summary_to_pb(written.run.summary())) }))
    }

    async fn prune_session(
        &self,
        request: Request<pb::PruneSessionRequest>,
    ) -> Result<Response<pb::PruneSessionResponse>, Status> {
        let caller = Caller::of(&request)?;
        let (session, freed_bytes) = convert::retention::session(request.into_inner())?;
        self.broker.prune_session(caller.actor, session, freed_bytes).await.map_err(rpc_error)?;
        Ok(Response::new(pb::PruneSessionResponse {}))
    }

    async fn cut_ledger(
        &self,
        request: Request<pb::CutLedgerRequest>,
    ) -> Result<Response<pb::CutLedgerResponse>, Status> {
        let caller = Caller::of(&request)?;
        let cut = match request.into_inner().dry_run {
            true => self.broker.would_cut().await,
            false => self.broker.cut(caller.actor).await,
        };
        Ok(Response::new(convert::retention::cut_to_pb(&cut.map_err(rpc_error)?)))
    }
}
