//! The broker as the runner sees it: where reports go.

use mosaic_ids::RunId;
use mosaic_proto::broker::v1::run_service_client::RunServiceClient;
use mosaic_proto::broker::v1::{Report, ReportRunRequest};
use mosaic_record::Refusal;
use mosaic_rpc::{AuthedChannel, Dial, MAX_MESSAGE_BYTES, Reason, RpcError};

use crate::store::Entry;

/// Reports that one call carries at most.
pub(crate) const BATCH: usize = 256;

/// The broker.
#[derive(Debug, Clone)]
pub(crate) struct Broker {
    client: RunServiceClient<AuthedChannel>,
}

/// Why reports were not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReportError {
    /// Somebody else has the run now.
    #[error("the lease is over")]
    Stale,
    /// The broker will never take them.
    #[error("the broker refuses the reports: {0}")]
    Refused(String),
    /// The broker can't take them now.
    #[error("the broker does not take reports now: {0}")]
    Unavailable(String),
}

impl Broker {
    /// The broker at the end of `dial`. Connected with the first call.
    pub(crate) fn new(dial: &Dial) -> Self {
        let client = RunServiceClient::new(dial.channel());
        Self {
            client: client.max_encoding_message_size(MAX_MESSAGE_BYTES).max_decoding_message_size(MAX_MESSAGE_BYTES),
        }
    }

    /// Delivers reports, and tells the highest number that was accepted so far.
    pub(crate) async fn report(&self, run: &RunId, epoch: i64, entries: &[Entry]) -> Result<i64, ReportError> {
        let reports = entries.iter().map(to_wire).collect();
        let request = ReportRunRequest { run_id: run.to_string(), epoch, reports };
        match self.client.clone().report_run(request).await {
            Ok(response) => Ok(response.into_inner().accepted),
            Err(status) => Err(refusal(RpcError::from_status(&status))),
        }
    }
}

fn refusal(error: RpcError) -> ReportError {
    match error.reason {
        Reason::Refusal(Refusal::StaleLease) => ReportError::Stale,
        Reason::Refusal(Refusal::InvalidRequest) | Reason::NotFound => ReportError::Refused(error.message),
        _ => ReportError::Unavailable(error.message),
    }
}

fn to_wire(entry: &Entry) -> Report {
    Report {
        number: entry.number,
        time: Some(prost_types::Timestamp { seconds: entry.time.as_second(), nanos: entry.time.subsec_nanosecond() }),
        payload: serde_json::to_string(&entry.event).expect("events serialize"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lease_that_is_over_and_a_refusal_end_the_attempts() {
        let of = |error: RpcError| refusal(error);
        assert_eq!(of(RpcError::refused(Refusal::StaleLease, "x")), ReportError::Stale);
        assert_eq!(of(RpcError::invalid("x")), ReportError::Refused("x".to_owned()));
        assert_eq!(of(RpcError::not_found("x")), ReportError::Refused("x".to_owned()));
        for error in [RpcError::unavailable("x"), RpcError::refused(Refusal::Unauthenticated, "x")] {
            assert_eq!(of(error), ReportError::Unavailable("x".to_owned()));
        }
    }
}
