use std::pin::Pin;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use mosaic_proto::broker::v1 as pb;
use mosaic_proto::broker::v1::ledger_service_server::LedgerService;
use tonic::{Request, Response, Status};

use super::{convert, rpc_error};
use crate::app::Broker;
use crate::domain::raw_hash;

/// `LedgerService` on the use cases.
pub(super) struct Ledger {
    pub(super) broker: Arc<Broker>,
}

#[tonic::async_trait]
impl LedgerService for Ledger {
    type WatchEventsStream = Pin<Box<dyn Stream<Item = Result<pb::WatchEventsResponse, Status>> + Send>>;

    async fn watch_events(
        &self,
        request: Request<pb::WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        let from = convert::from_sequence(request.into_inner().from_sequence)?;
        let events = self.broker.watch_events(from).await.map_err(rpc_error)?;
        let events = events.map(|event| {
            let event = event.map_err(rpc_error)?;
            Ok(pb::WatchEventsResponse { event: Some(convert::event_to_pb(event)) })
        });
        Ok(Response::new(events.boxed()))
    }

    async fn verify_ledger(
        &self,
        _request: Request<pb::VerifyLedgerRequest>,
    ) -> Result<Response<pb::VerifyLedgerResponse>, Status> {
        let verdict = self.broker.verify().await.map_err(rpc_error)?;
        Ok(Response::new(pb::VerifyLedgerResponse {
            intact: verdict.faults.is_empty(),
            events: verdict.events,
            runs: verdict.runs,
            head_hash: verdict.head_hash.as_ref().map(raw_hash).unwrap_or_default(),
            faults: verdict.faults.into_iter().map(convert::fault_to_pb).collect(),
            checkpoint: verdict.checkpoint.as_ref().map(convert::retention::checkpoint_to_pb),
        }))
    }
}
