use std::io::ErrorKind;

use mosaic_ids::RunId;
use mosaic_record::Refusal;

use crate::sandbox::StartError;

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

    /// A fault; where the disk is full, the refusal for that.
    pub(crate) fn fault(what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |error| match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::disk_low(&format!("{what}: {}", chain(&error))),
            _ => Self::Fault { what, cause: chain(&error) },
        }
    }

    /// There is no room on the disk.
    pub(crate) fn disk_low(what: &str) -> Self {
        Self::refused(Refusal::DiskLow, format!("{what}; free space on the data root's disk and launch again"))
    }

    /// The sandbox can't be made.
    pub(crate) fn unavailable(error: &dyn std::error::Error) -> Self {
        Self::refused(Refusal::SandboxUnavailable, chain(error))
    }
}

impl From<StartError> for AppError {
    fn from(error: StartError) -> Self {
        match &error {
            StartError::DiskFull { .. } => Self::disk_low(&error.to_string()),
            StartError::Failed { .. } | StartError::Gone | StartError::Late { .. } => Self::unavailable(&error),
        }
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

#[cfg(test)]
mod tests {
    use mosaic_shim::protocol::Stage;

    use super::*;

    #[test]
    fn a_full_disk_is_a_refusal_of_its_own_and_other_faults_are_faults() {
        let fault = |errno| AppError::fault("could not write")(std::io::Error::from_raw_os_error(errno));
        for errno in [libc::ENOSPC, libc::EDQUOT] {
            let AppError::Refused { refusal: Refusal::DiskLow, message } = fault(errno) else { panic!("{errno}") };
            assert!(message.starts_with("could not write: "), "{message}");
        }
        assert!(matches!(fault(libc::EIO), AppError::Fault { .. }));
    }

    #[test]
    fn a_shim_without_room_is_no_missing_sandbox() {
        let refusal = |error: StartError| match AppError::from(error) {
            AppError::Refused { refusal, .. } => Some(refusal),
            _ => None,
        };
        assert_eq!(refusal(StartError::DiskFull { message: "x".to_owned() }), Some(Refusal::DiskLow));
        let failed = StartError::Failed { stage: Stage::Watch, message: "x".to_owned() };
        assert_eq!(refusal(failed), Some(Refusal::SandboxUnavailable));
    }
}
