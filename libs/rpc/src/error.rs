use std::collections::HashMap;

use mosaic_record::Refusal;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::ERROR_DOMAIN;

/// Why a call failed: a refusal, or one of four things that only calls have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Something was refused, from the closed list.
    Refusal(Refusal),
    /// There is no such thing.
    NotFound,
    /// The position asked for is no longer, or not yet, there.
    OutOfRange,
    /// The service can't answer now; the same call may succeed later.
    Unavailable,
    /// A fault of ours.
    Internal,
}

impl Reason {
    /// Every reason.
    pub fn all() -> impl Iterator<Item = Self> {
        let own = [Self::NotFound, Self::OutOfRange, Self::Unavailable, Self::Internal];
        Refusal::ALL.iter().copied().map(Self::Refusal).chain(own)
    }

    /// The spelling in `ErrorInfo`, UPPER_SNAKE.
    #[must_use]
    pub fn to_wire(self) -> String {
        self.as_str().replace('-', "_").to_ascii_uppercase()
    }

    /// The reason with this spelling in `ErrorInfo`.
    #[must_use]
    pub fn from_wire(wire: &str) -> Option<Self> {
        Self::all().find(|reason| reason.to_wire() == wire)
    }

    /// The spelling for people and JSON, kebab-case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refusal(refusal) => refusal.as_str(),
            Self::NotFound => "not-found",
            Self::OutOfRange => "out-of-range",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
        }
    }

    /// The gRPC code that goes with it.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::NotFound => Code::NotFound,
            Self::OutOfRange => Code::OutOfRange,
            Self::Unavailable => Code::Unavailable,
            Self::Internal => Code::Internal,
            Self::Refusal(refusal) => match refusal {
                Refusal::InvalidRequest
                | Refusal::InvalidConfig
                | Refusal::UnknownAdapter
                | Refusal::LimitOverCap
                | Refusal::PromptOverBudget
                | Refusal::TaskRequired => Code::InvalidArgument,
                Refusal::Unauthenticated => Code::Unauthenticated,
                Refusal::NotPermitted => Code::PermissionDenied,
                Refusal::UnknownRequirement | Refusal::RequestNotFound => Code::NotFound,
                Refusal::StaleLease | Refusal::Superseded | Refusal::Interrupted => Code::Aborted,
                Refusal::DiskLow => Code::ResourceExhausted,
                Refusal::BackendNotAllowed
                | Refusal::HarnessIncompatible
                | Refusal::SessionLive
                | Refusal::SessionMissing
                | Refusal::WorkspaceMissing
                | Refusal::CheckoutFailed
                | Refusal::BundleChanged
                | Refusal::ImageMissing
                | Refusal::NoActiveRelease
                | Refusal::SandboxUnavailable
                | Refusal::MixedWiring => Code::FailedPrecondition,
            },
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<Refusal> for Reason {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

/// The one form in which an error crosses the wire.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// Why.
    pub reason: Reason,
    /// What, why and what to do, for people.
    pub message: String,
    /// Every value that the message names, for programs.
    pub metadata: HashMap<String, String>,
}

impl RpcError {
    /// Something was refused.
    pub fn refused(refusal: Refusal, message: impl Into<String>) -> Self {
        Self::new(Reason::Refusal(refusal), message)
    }

    /// The request is malformed.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::refused(Refusal::InvalidRequest, message)
    }

    /// There is no such thing.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Reason::NotFound, message)
    }

    /// The position is no longer, or not yet, there.
    pub fn out_of_range(message: impl Into<String>) -> Self {
        Self::new(Reason::OutOfRange, message)
    }

    /// Not now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Reason::Unavailable, message)
    }

    /// A fault of ours. The chain of causes goes to the log, not over the wire.
    pub fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut chain = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            chain.push_str(": ");
            chain.push_str(&cause.to_string());
            source = cause.source();
        }
        tracing::error!(error = %chain, "A call failed for a fault of ours");
        Self::new(Reason::Internal, "an internal error; the service's log says more")
    }

    /// Adds a value that the message names.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl std::fmt::Display) -> Self {
        self.metadata.insert(key.to_owned(), value.to_string());
        self
    }

    /// The refusal, when it is one.
    #[must_use]
    pub const fn refusal(&self) -> Option<Refusal> {
        match self.reason {
            Reason::Refusal(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Reads what another service answered. A status without our `ErrorInfo` came from the transport.
    #[must_use]
    pub fn from_status(status: &Status) -> Self {
        let info = status.get_details_error_info().filter(|info| info.domain == ERROR_DOMAIN);
        if let Some(info) = info
            && let Some(reason) = Reason::from_wire(&info.reason)
        {
            return Self { reason, message: status.message().to_owned(), metadata: info.metadata };
        }
        if let Some(message) = refused_connection(status) {
            return Self::refused(Refusal::NotPermitted, message);
        }
        let from_transport = std::error::Error::source(status).is_some();
        let reason = match status.code() {
            Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded => Reason::Unavailable,
            _ if from_transport => Reason::Unavailable,
            Code::NotFound => Reason::NotFound,
            Code::OutOfRange => Reason::OutOfRange,
            Code::Unauthenticated => Refusal::Unauthenticated.into(),
            Code::PermissionDenied => Refusal::NotPermitted.into(),
            Code::InvalidArgument | Code::ResourceExhausted => Refusal::InvalidRequest.into(),
            // Another version of the service, for example; the same call would fail for ever.
            _ => Reason::Internal,
        };
        Self::new(reason, status.message())
    }

    fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), metadata: HashMap::new() }
    }
}

/// What the client's own connector said, when it refused to talk to whoever serves the socket.
fn refused_connection(status: &Status) -> Option<String> {
    let mut source = std::error::Error::source(status);
    while let Some(cause) = source {
        if let Some(error) = cause.downcast_ref::<std::io::Error>()
            && error.kind() == std::io::ErrorKind::PermissionDenied
        {
            return Some(error.to_string());
        }
        source = cause.source();
    }
    None
}

impl From<RpcError> for Status {
    fn from(error: RpcError) -> Self {
        let details = ErrorDetails::with_error_info(error.reason.to_wire(), ERROR_DOMAIN, error.metadata);
        Self::with_error_details(error.reason.code(), error.message, details)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_survives_the_wire() {
        for reason in Reason::all() {
            let error = RpcError::new(reason, "what and why").with("run_id", "r-1");
            let status = Status::from(error.clone());
            assert_eq!(status.code(), reason.code());
            assert_eq!(RpcError::from_status(&status), error);
        }
    }

    #[test]
    fn a_status_from_the_transport_is_unavailable() {
        let error = RpcError::from_status(&Status::unavailable("connection refused"));
        assert_eq!(error.reason, Reason::Unavailable);
    }
}
