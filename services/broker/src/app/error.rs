use mosaic_ids::RunId;

use crate::domain::Denial;
use crate::store::StoreError;
use crate::writer::WriteError;

/// Why the broker did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppError {
    /// It is not allowed.
    #[error(transparent)]
    Denied(Denial),
    /// The spec of a new run is malformed.
    #[error("the spec is malformed at `{path}`: {source}")]
    InvalidSpec {
        /// Where, as a path of keys.
        path: String,
        /// Why.
        source: serde_json::Error,
    },
    /// The position asked for is no longer in the ledger.
    #[error("event {from} is no longer in the ledger; the first one is {earliest}")]
    OutOfRange {
        /// The position.
        from: i64,
        /// The first event that is there.
        earliest: i64,
    },
    /// A fault that a cut would hide.
    #[error("the ledger is not intact and is not cut; `mosaic ledger verify` says what is wrong")]
    NotIntact,
    /// The database can't be read now.
    #[error("the ledger can't be read now")]
    Unreadable(#[source] StoreError),
    /// The database can't be written now.
    #[error("the ledger can't be written now; the same call may succeed later")]
    Unwritable,
    /// The broker ends.
    #[error("the broker is stopping; the same call may succeed later")]
    Stopping,
    /// What is stored is not what was written.
    #[error("the ledger is damaged")]
    Damaged(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl AppError {
    pub(super) fn not_found(run_id: &RunId) -> Self {
        Self::Denied(Denial::NotFound { run_id: run_id.clone() })
    }
}

impl From<StoreError> for AppError {
    fn from(error: StoreError) -> Self {
        if error.is_damage() { Self::Damaged(error.into()) } else { Self::Unreadable(error) }
    }
}

impl From<WriteError> for AppError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Denied(denial) => Self::Denied(denial),
            WriteError::Damaged(error) => Self::Damaged(error.into()),
            WriteError::Unavailable => Self::Unwritable,
        }
    }
}
