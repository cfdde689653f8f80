use mosaic_ids::RunId;
use mosaic_record::Refusal;

/// Why a use case failed. Cloned to everybody who waits for the same start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AppError {
    /// There is no such execution.
    #[error("there is no execution of `{run}` here")]
    Unknown {
        /// The run.
        run: RunId,
    },
    /// The caller's lease is over.
    #[error("`{run}` works under epoch {epoch}, which is higher")]
    Stale {
        /// The run.
        run: RunId,
        /// The epoch that it works under.
        epoch: i64,
    },
    /// The run was not started.
    #[error("{message}")]
    Refused {
        /// The refusal.
        refusal: Refusal,
        /// What, why and what to do.
        message: String,
    },
    /// Too many executions at once.
    #[error("{limit} executions are live, which is the most that a runner takes")]
    Full {
        /// The limit.
        limit: usize,
    },
    /// The runner is being shut down.
    #[error("the runner is shutting down and takes nothing new")]
    Closing,
    /// A fault of ours or of the disk.
    #[error("{what}: {cause}")]
    Fault {
        /// What was tried.
        what: &'static str,
        /// Why it failed, with its chain of causes.
        cause: String,
    },
}

impl AppError {
    pub(crate) fn refused(refusal: Refusal, message: impl std::fmt::Display) -> Self {
        Self::Refused { refusal, message: message.to_string() }
    }

    pub(crate) fn fault(what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::Fault { what, cause: chain(&error) }
    }

    /// The sandbox can't be made.
    pub(crate) fn unavailable(error: &dyn std::error::Error) -> Self {
        Self::refused(Refusal::SandboxUnavailable, chain(error))
    }
}

/// An error with everything behind it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
