//! The gRPC surface. Generated types stop here, and only here an error becomes one of the wire.

mod authz;
mod convert;
mod ledger;
mod report_stream;
mod retention;
mod runs;

use std::sync::Arc;

pub(crate) use authz::RULES;
use mosaic_proto::broker::v1::ledger_service_server::LedgerServiceServer;
use mosaic_proto::broker::v1::retention_service_server::RetentionServiceServer;
use mosaic_proto::broker::v1::run_service_server::RunServiceServer;
use mosaic_record::Refusal;
use mosaic_rpc::{MAX_MESSAGE_BYTES, Reason, RpcError};
use tonic::service::Routes;

use crate::app::{AppError, Broker};
use crate::domain::DenialKind;

/// Every service of the broker.
pub(crate) fn routes(broker: Broker) -> Routes {
    let broker = Arc::new(broker);
    let runs = RunServiceServer::new(runs::Runs { broker: Arc::clone(&broker) })
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let ledger = LedgerServiceServer::new(ledger::Ledger { broker: Arc::clone(&broker) })
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let retention = RetentionServiceServer::new(retention::Retention { broker });
    Routes::new(runs).add_service(ledger).add_service(retention)
}

/// How an error of the use cases is told to callers.
fn rpc_error(error: AppError) -> RpcError {
    match error {
        AppError::Denied(denial) => {
            let message = denial.to_string();
            let told = match denial.kind() {
                DenialKind::NotFound => RpcError::not_found(message),
                DenialKind::Refused(refusal) => RpcError::refused(refusal, message),
            };
            denial.values().into_iter().fold(told, |told, (key, value)| told.with(key, value))
        }
        AppError::InvalidSpec { ref path, .. } => {
            RpcError::refused(Refusal::InvalidRequest, error.to_string()).with("field", "spec").with("path", path)
        }
        AppError::OutOfRange { from, earliest } => {
            RpcError::out_of_range(error.to_string()).with("from_sequence", from).with("earliest", earliest)
        }
        AppError::Unreadable(ref cause) => {
            tracing::error!(error = cause as &dyn std::error::Error, "Could not read the ledger");
            RpcError::unavailable(error.to_string())
        }
        // The writer has logged why.
        AppError::Unwritable | AppError::Stopping => RpcError::unavailable(error.to_string()),
        AppError::NotIntact => RpcError {
            reason: Reason::Internal,
            message: error.to_string(),
            metadata: std::collections::HashMap::new(),
        },
        AppError::Damaged(_) => RpcError::internal(&error),
    }
}
