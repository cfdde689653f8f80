use std::pin::Pin;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use mosaic_proto::broker::v1 as pb;
use mosaic_proto::broker::v1::run_service_server::RunService;
use mosaic_rpc::{Caller, RpcError, page_size};
use tonic::{Request, Response, Status, Streaming};

use super::{convert, report_stream, rpc_error};
use crate::app::Broker;
use crate::domain::Change;
use crate::writer::Written;

/// `RunService` on the use cases.
pub(super) struct Runs {
    pub(super) broker: Arc<Broker>,
}

impl Runs {
    /// Has a change carried out for the caller of a request.
    async fn change(&self, caller: Caller, run_id: String, change: Change) -> Result<Written, RpcError> {
        let run_id = convert::run_id(run_id)?;
        self.broker.change(caller.actor, run_id, change).await.map_err(rpc_error)
    }
}

fn run(written: &Written) -> Option<pb::Run> {
    Some(convert::summary_to_pb(written.run.summary()))
}

#[tonic::async_trait]
impl RunService for Runs {
    type ReportRunsStream = Pin<Box<dyn Stream<Item = Result<pb::ReportRunsResponse, Status>> + Send>>;
    type WatchRunStream = Pin<Box<dyn Stream<Item = Result<pb::WatchRunResponse, Status>> + Send>>;

    async fn create_run(
        &self,
        request: Request<pb::CreateRunRequest>,
    ) -> Result<Response<pb::CreateRunResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let request_id = convert::request_id("request_id", request.request_id)?;
        let spec = convert::spec(request.spec)?;
        let written = self.broker.create(caller.actor, request_id, spec).await.map_err(rpc_error)?;
        Ok(Response::new(pb::CreateRunResponse { run: run(&written), created: written.changed }))
    }

    async fn get_run(&self, request: Request<pb::GetRunRequest>) -> Result<Response<pb::GetRunResponse>, Status> {
        let run_id = convert::run_id(request.into_inner().run_id)?;
        let details = self.broker.details(&run_id).await.map_err(rpc_error)?;
        Ok(Response::new(pb::GetRunResponse { run: Some(convert::details_to_pb(details)) }))
    }

    async fn list_runs(&self, request: Request<pb::ListRunsRequest>) -> Result<Response<pb::ListRunsResponse>, Status> {
        let request = request.into_inner();
        let filter = convert::filter(&request)?;
        let before = convert::before(&request.page_token, &filter)?;
        let size = page_size(request.page_size)?;
        let (runs, next) = self.broker.list(&filter, before, size).await.map_err(rpc_error)?;
        let next_page_token = convert::page_token(next, &filter);
        let runs = runs.into_iter().map(convert::summary_to_pb).collect();
        Ok(Response::new(pb::ListRunsResponse { runs, next_page_token }))
    }

    async fn watch_run(&self, request: Request<pb::WatchRunRequest>) -> Result<Response<Self::WatchRunStream>, Status> {
        let request = request.into_inner();
        let run_id = convert::run_id(request.run_id)?;
        let from = convert::from_sequence(request.from_sequence)?;
        let events = self.broker.watch_run(run_id, from).await.map_err(rpc_error)?;
        let events = events.map(|event| {
            let event = event.map_err(rpc_error)?;
            Ok(pb::WatchRunResponse { event: Some(convert::event_to_pb(event)) })
        });
        Ok(Response::new(events.boxed()))
    }

    async fn claim_run(&self, request: Request<pb::ClaimRunRequest>) -> Result<Response<pb::ClaimRunResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let holder = convert::request_id("holder", request.holder)?;
        let written = self.change(caller, request.run_id, Change::Claim { holder }).await?;
        let lease = written.changed.then(|| convert::lease_to_pb(&written.run, self.broker.term()));
        let details = self.broker.details(written.run.id()).await.map_err(rpc_error)?;
        Ok(Response::new(pb::ClaimRunResponse { lease, run: Some(convert::details_to_pb(details)) }))
    }

    async fn renew_lease(
        &self,
        request: Request<pb::RenewLeaseRequest>,
    ) -> Result<Response<pb::RenewLeaseResponse>, Status> {
        let caller = Caller::of(&request)?;
        let pb::RenewLeaseRequest { run_id, epoch } = request.into_inner();
        let written = self.change(caller, run_id, Change::Renew { epoch }).await?;
        let lease = Some(convert::lease_to_pb(&written.run, self.broker.term()));
        let cancel_requested = written.run.record.cancel_requested;
        Ok(Response::new(pb::RenewLeaseResponse { lease, cancel_requested }))
    }

    async fn release_lease(
        &self,
        request: Request<pb::ReleaseLeaseRequest>,
    ) -> Result<Response<pb::ReleaseLeaseResponse>, Status> {
        let caller = Caller::of(&request)?;
        let pb::ReleaseLeaseRequest { run_id, epoch } = request.into_inner();
        self.change(caller, run_id, Change::Release { epoch }).await?;
        Ok(Response::new(pb::ReleaseLeaseResponse {}))
    }

    async fn prepare_run(
        &self,
        request: Request<pb::PrepareRunRequest>,
    ) -> Result<Response<pb::PrepareRunResponse>, Status> {
        let caller = Caller::of(&request)?;
        let pb::PrepareRunRequest { run_id, epoch } = request.into_inner();
        let written = self.change(caller, run_id, Change::Prepare { epoch }).await?;
        Ok(Response::new(pb::PrepareRunResponse { run: run(&written) }))
    }

    async fn record_step(
        &self,
        request: Request<pb::RecordStepRequest>,
    ) -> Result<Response<pb::RecordStepResponse>, Status> {
        let caller = Caller::of(&request)?;
        let (run_id, change) = convert::step(request.into_inner())?;
        let written = self.broker.change(caller.actor, run_id, change).await.map_err(rpc_error)?;
        Ok(Response::new(pb::RecordStepResponse { sequence: written.sequence }))
    }

    async fn refuse_run(
        &self,
        request: Request<pb::RefuseRunRequest>,
    ) -> Result<Response<pb::RefuseRunResponse>, Status> {
        let caller = Caller::of(&request)?;
        let (run_id, change) = convert::refusal(request.into_inner())?;
        let written = self.broker.change(caller.actor, run_id, change).await.map_err(rpc_error)?;
        Ok(Response::new(pb::RefuseRunResponse { run: run(&written) }))
    }

    async fn cancel_run(
        &self,
        request: Request<pb::CancelRunRequest>,
    ) -> Result<Response<pb::CancelRunResponse>, Status> {
        let caller = Caller::of(&request)?;
        let written = self.change(caller, request.into_inner().run_id, Change::Cancel).await?;
        Ok(Response::new(pb::CancelRunResponse { run: run(&written) }))
    }

    async fn confirm_cancel(
        &self,
        request: Request<pb::ConfirmCancelRequest>,
    ) -> Result<Response<pb::ConfirmCancelResponse>, Status> {
        let caller = Caller::of(&request)?;
        let pb::ConfirmCancelRequest { run_id, epoch } = request.into_inner();
        let written = self.change(caller, run_id, Change::ConfirmCancel { epoch }).await?;
        Ok(Response::new(pb::ConfirmCancelResponse { run: run(&written) }))
    }

    async fn lose_run(&self, request: Request<pb::LoseRunRequest>) -> Result<Response<pb::LoseRunResponse>, Status> {
        let caller = Caller::of(&request)?;
        let pb::LoseRunRequest { run_id, epoch } = request.into_inner();
        let written = self.change(caller, run_id, Change::Lose { epoch }).await?;
        Ok(Response::new(pb::LoseRunResponse { run: run(&written) }))
    }

    async fn record_harvest(
        &self,
        request: Request<pb::RecordHarvestRequest>,
    ) -> Result<Response<pb::RecordHarvestResponse>, Status> {
        let caller = Caller::of(&request)?;
        let (run_id, change) = convert::harvest(request.into_inner())?;
        let written = self.broker.change(caller.actor, run_id, change).await.map_err(rpc_error)?;
        Ok(Response::new(pb::RecordHarvestResponse { run: run(&written) }))
    }

    async fn record_integration(
        &self,
        request: Request<pb::RecordIntegrationRequest>,
    ) -> Result<Response<pb::RecordIntegrationResponse>, Status> {
        let caller = Caller::of(&request)?;
        let (run_id, change) = convert::integration(request.into_inner())?;
        let written = self.broker.change(caller.actor, run_id, change).await.map_err(rpc_error)?;
        Ok(Response::new(pb::RecordIntegrationResponse { run: run(&written) }))
    }

    async fn report_run(
        &self,
        request: Request<pb::ReportRunRequest>,
    ) -> Result<Response<pb::ReportRunResponse>, Status> {
        let caller = Caller::of(&request)?;
        let (run_id, change) = convert::report_request(request.into_inner())?;
        let written = self.broker.change(caller.actor, run_id, change).await.map_err(rpc_error)?;
        Ok(Response::new(pb::ReportRunResponse { accepted: written.run.reported, run: run(&written) }))
    }

    async fn report_runs(
        &self,
        request: Request<Streaming<pb::ReportRunsRequest>>,
    ) -> Result<Response<Self::ReportRunsStream>, Status> {
        let caller = Caller::of(&request)?;
        let answers = report_stream::answers(Arc::clone(&self.broker), caller.actor, request.into_inner());
        Ok(Response::new(Box::pin(answers)))
    }
}
