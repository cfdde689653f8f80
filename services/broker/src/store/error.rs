/// Why the store did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The database failed; the same may work later.
    #[error("the ledger's database failed")]
    Database(#[from] sqlx::Error),
    /// The schema could not be brought up to date.
    #[error("the ledger's schema can't be brought up to date")]
    Schema(#[from] sqlx::migrate::MigrateError),
    /// What is stored is not what was written.
    #[error("`{column}` of `{row}` is damaged")]
    Damaged {
        /// The row: a run's id or an event's sequence.
        row: String,
        /// The column.
        column: &'static str,
        /// Why it can't be read.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A statement changed another number of rows than was meant.
    #[error("a statement changed {changed} rows instead of {meant}")]
    RowsAffected {
        /// How many it was to change.
        meant: u64,
        /// How many it changed.
        changed: u64,
    },
}

impl StoreError {
    /// Makes the error of a column that can't be read; for `map_err`.
    pub(super) fn damaged<E>(row: &str, column: &'static str) -> impl FnOnce(E) -> Self
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        move |source| Self::Damaged { row: row.to_owned(), column, source: source.into() }
    }

    /// True when what is stored is at fault, so that trying again leads to the same.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }
}

/// Fails unless exactly `meant` rows were changed.
pub(super) fn exactly(meant: usize, changed: u64) -> Result<(), StoreError> {
    let meant = meant as u64;
    if changed == meant { Ok(()) } else { Err(StoreError::RowsAffected { meant, changed }) }
}
