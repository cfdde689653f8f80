//! ReportRuns: many reports in flight on one stream, each acknowledged on its own.
//!
//! Requests are handed to the writer one after the other, in the order they came, so the reports of one run keep theirs;
//! what waits is only the answers. At most [`UNANSWERED`] do: then nothing more is read, and the transport holds the
//! caller up.

use std::collections::HashSet;
use std::sync::Arc;

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, Stream, StreamExt as _};
use mosaic_ids::RunId;
use mosaic_proto::broker::v1 as pb;
use mosaic_record::Actor;
use mosaic_rpc::RpcError;
use tonic::{Status, Streaming};

use super::{convert, rpc_error};
use crate::app::{AppError, Broker};
use crate::domain::Change;
use crate::writer::Written;

/// Most requests of one stream that are not answered yet.
const UNANSWERED: usize = 1024;

/// What happens next on a stream.
enum Step {
    Answer(pb::ReportRunsResponse),
    Request(pb::ReportRunsRequest),
    /// No more requests are taken; those that were are still answered.
    LastRequest(Option<Status>),
    Over,
}

/// The answers to `requests`, all on behalf of `actor`.
pub(super) fn answers(
    broker: Arc<Broker>,
    actor: Actor,
    mut requests: Streaming<pb::ReportRunsRequest>,
) -> impl Stream<Item = Result<pb::ReportRunsResponse, Status>> {
    async_stream::try_stream! {
        let stopping = std::pin::pin!(broker.stopping());
        let mut stopping = stopping.fuse();
        let mut tags = HashSet::new();
        let mut waiting = FuturesUnordered::new();
        let mut taking = true;
        let mut fault = None;
        loop {
            let step = tokio::select! {
                biased;
                Some(answer) = waiting.next() => Step::Answer(answer),
                () = &mut stopping, if taking => Step::LastRequest(Some(rpc_error(AppError::Stopping).into())),
                request = requests.message(), if taking && tags.len() < UNANSWERED => match request {
                    Ok(Some(request)) => Step::Request(request),
                    Ok(None) => Step::LastRequest(None),
                    Err(broken) => Step::LastRequest(Some(broken)),
                },
                else => Step::Over,
            };
            match step {
                Step::Answer(answer) => {
                    tags.remove(&answer.tag);
                    yield answer;
                }
                Step::Request(pb::ReportRunsRequest { tag, .. }) if !tags.insert(tag) => {
                    taking = false;
                    fault = Some(convert::repeated_tag(tag).into());
                }
                Step::Request(request) => {
                    let tag = request.tag;
                    match hand_over(&broker, &actor, request).await {
                        Ok(written) => waiting.push(async move { answer(tag, written.await.map_err(rpc_error)) }),
                        Err(denied) => {
                            tags.remove(&tag);
                            yield answer(tag, Err(denied));
                        }
                    }
                }
                Step::LastRequest(broken) => (taking, fault) = (false, broken),
                Step::Over => break,
            }
        }
        if let Some(fault) = fault {
            Err(fault)?;
        }
    }
}

/// Puts one request into the writer's queue.
async fn hand_over(
    broker: &Broker,
    actor: &Actor,
    request: pb::ReportRunsRequest,
) -> Result<impl Future<Output = Result<Written, AppError>> + use<>, RpcError> {
    let (run_id, change): (RunId, Change) = convert::report_request(request.request.unwrap_or_default())?;
    broker.hand_over(actor.clone(), run_id, change).await.map_err(rpc_error)
}

fn answer(tag: i64, written: Result<Written, RpcError>) -> pb::ReportRunsResponse {
    use pb::report_runs_response::Result as Told;
    let told = match written {
        Ok(written) => Told::Accepted(written.run.reported),
        Err(error) => Told::Denial(pb::Denial { reason: error.reason.to_wire(), message: error.message }),
    };
    pb::ReportRunsResponse { tag, result: Some(told) }
}
