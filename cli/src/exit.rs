//! How the command ends: its exit status, and what it says when something went wrong.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use mosaic_record::{Refusal, RunStatus};
use mosaic_rpc::{Reason, RpcError};

/// The exit status of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// The run did not succeed.
    NotSucceeded,
    /// Rejected by validation; nothing was recorded.
    Rejected,
    /// The services can't be reached, don't match, or refused the credential.
    Unreachable,
    /// Usage, or no such thing.
    Usage,
    /// A recorded run ended refused.
    Refused,
    /// Left by Ctrl-C; what was watched goes on.
    Left,
}

impl Exit {
    /// The number.
    #[must_use]
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::NotSucceeded => 1,
            Self::Rejected => 2,
            Self::Unreachable => 3,
            Self::Usage => 4,
            Self::Refused => 5,
            Self::Left => 130,
        }
    }

    /// The status after a run that ended so.
    #[must_use]
    pub(crate) const fn of_run(status: RunStatus) -> Self {
        match status {
            RunStatus::Succeeded => Self::Done,
            RunStatus::Refused => Self::Refused,
            _ => Self::NotSucceeded,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Set when something that was to be written to standard output was not.
static NOT_WRITTEN: AtomicBool = AtomicBool::new(false);

/// Takes note of a write to standard output. A reader that has gone away has seen enough; any other failure counts.
pub(crate) fn written(result: std::io::Result<()>) {
    if let Err(error) = result
        && error.kind() != std::io::ErrorKind::BrokenPipe
        && !NOT_WRITTEN.swap(true, Ordering::Relaxed)
    {
        crate::say!("error: can't write to standard output: {error}");
    }
}

/// The exit status, given that what was asked for may not have been written.
pub(crate) fn after_writing(code: ExitCode) -> ExitCode {
    if NOT_WRITTEN.load(Ordering::Relaxed) { Exit::Usage.into() } else { code }
}

/// Why the command could not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    hint: Option<String>,
}

/// What every command returns.
pub(crate) type Outcome = Result<Exit, Failure>;

impl Failure {
    fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }

    /// Rejected by validation.
    pub(crate) fn rejected(message: impl Into<String>) -> Self {
        Self::new(Exit::Rejected, message)
    }

    /// The services can't be reached or don't match.
    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self::new(Exit::Unreachable, message)
    }

    /// Usage, or no such thing.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says it on standard error.
    pub(crate) fn report(&self) -> ExitCode {
        crate::say!("error: {}", self.message);
        if let Some(hint) = &self.hint {
            crate::say!("hint: {hint}");
        }
        self.exit.into()
    }
}

impl From<RpcError> for Failure {
    fn from(error: RpcError) -> Self {
        let exit = match error.reason {
            Reason::NotFound => Exit::Usage,
            Reason::OutOfRange => Exit::Usage,
            Reason::Unavailable | Reason::Internal => Exit::Unreachable,
            Reason::Refusal(Refusal::Unauthenticated | Refusal::NotPermitted) => Exit::Unreachable,
            Reason::Refusal(_) => Exit::Rejected,
        };
        let (message, hint) = match error.message.split_once("\nhint: ") {
            Some((message, hint)) => (message.to_owned(), Some(hint.to_owned())),
            None => (error.message, None),
        };
        let message = match error.reason {
            Reason::Refusal(refusal) => format!("{message} ({refusal})"),
            _ => message,
        };
        Self { exit, message, hint }
    }
}

impl From<tonic::Status> for Failure {
    fn from(status: tonic::Status) -> Self {
        RpcError::from_status(&status).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses_follow_reasons() {
        let exit =
            |reason: Reason| Failure::from(RpcError { reason, message: "m".into(), metadata: Default::default() }).exit;
        assert_eq!(exit(Reason::NotFound).code(), 4);
        assert_eq!(exit(Reason::Unavailable).code(), 3);
        assert_eq!(exit(Refusal::Unauthenticated.into()).code(), 3);
        assert_eq!(exit(Refusal::InvalidRequest.into()).code(), 2);
        assert_eq!(exit(Refusal::UnknownAdapter.into()).code(), 2);
        for &status in RunStatus::ALL {
            assert_eq!(Exit::of_run(status).code() == 0, status == RunStatus::Succeeded);
        }
    }
}
