//! The gRPC surface. Only here an error becomes one of the wire.

pub(crate) mod authz;
mod convert;

use std::pin::Pin;

use futures::{Stream, StreamExt as _};
use mosaic_proto::runner::v1 as pb;
use mosaic_proto::runner::v1::runner_service_server::{RunnerService, RunnerServiceServer};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::app::{App, AppError};

/// Every service of the runner.
pub(crate) fn routes(app: App) -> Routes {
    Routes::new(RunnerServiceServer::new(Rpc { app }))
}

struct Rpc {
    app: App,
}

fn refused(error: AppError) -> Status {
    convert::app_error(error).into()
}

#[tonic::async_trait]
impl RunnerService for Rpc {
    type TailOutputStream = Pin<Box<dyn Stream<Item = Result<pb::TailOutputResponse, Status>> + Send>>;

    async fn start_run(&self, request: Request<pb::StartRunRequest>) -> Result<Response<pb::StartRunResponse>, Status> {
        let request = request.into_inner();
        let run = convert::run_id(&request.run_id)?;
        let epoch = convert::epoch(request.epoch)?;
        let digest = convert::digest(&request.bundle_digest)?;
        let execution = self.app.start_run(&run, epoch, &digest).await.map_err(refused)?;
        Ok(Response::new(pb::StartRunResponse { execution: Some(convert::execution(&execution)) }))
    }

    async fn stop_run(&self, request: Request<pb::StopRunRequest>) -> Result<Response<pb::StopRunResponse>, Status> {
        let run = convert::run_id(&request.into_inner().run_id)?;
        let execution = self.app.stop_run(&run).map_err(refused)?;
        Ok(Response::new(pb::StopRunResponse { execution: Some(convert::execution(&execution)) }))
    }

    async fn get_execution(
        &self,
        request: Request<pb::GetExecutionRequest>,
    ) -> Result<Response<pb::GetExecutionResponse>, Status> {
        let request = request.into_inner();
        let run = convert::run_id(&request.run_id)?;
        let wait = convert::wait(request.wait)?;
        let execution = self.app.execution(&run, wait).await.map_err(refused)?;
        Ok(Response::new(pb::GetExecutionResponse { execution: Some(convert::execution(&execution)) }))
    }

    async fn tail_output(
        &self,
        request: Request<pb::TailOutputRequest>,
    ) -> Result<Response<Self::TailOutputStream>, Status> {
        let request = request.into_inner();
        let run = convert::run_id(&request.run_id)?;
        let stream = convert::stream(request.stream)?;
        let offset = convert::offset(request.offset)?;
        let chunks = self.app.tail(&run, stream, offset, request.follow).map_err(refused)?;
        let chunks = chunks.map(|chunk| match chunk {
            Ok(chunk) => Ok(convert::chunk(chunk)),
            Err(error) => Err(convert::read_error(&error).into()),
        });
        Ok(Response::new(Box::pin(chunks.take_until(self.app.closed()))))
    }
}
