use mosaic_ids::RunId;
use sqlx::sqlite::{Sqlite, SqlitePool};
use sqlx::{Acquire as _, Transaction};

use super::{EventPage, PageLimits, StoreError, events, runs};
use crate::domain::{Run, RunFilter, RunSummary};

/// The connections that read. Each call takes one for as long as it lasts.
#[derive(Debug, Clone)]
pub(crate) struct Readers {
    pool: SqlitePool,
}

/// The ledger as it is at one moment, whatever is written meanwhile.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(super) transaction: Transaction<'static, Sqlite>,
}

impl Readers {
    pub(super) fn new(pool: SqlitePool) -> Self {
        Self { pool }
    }

    /// A snapshot, taken at its first read.
    ///
    /// # Errors
    /// When the database fails or every connection stays taken.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        Ok(Snapshot { transaction: self.pool.begin().await? })
    }

    /// The next page of the whole ledger.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn events(&self, from: i64, limits: PageLimits) -> Result<EventPage, StoreError> {
        let mut connection = self.pool.acquire().await?;
        events::page(connection.acquire().await?, from, limits).await
    }

    /// What lists show of one run.
    ///
    /// # Errors
    /// When the database fails or the row is damaged.
    pub(crate) async fn summary(&self, run_id: &RunId) -> Result<Option<RunSummary>, StoreError> {
        let mut connection = self.pool.acquire().await?;
        runs::summary(connection.acquire().await?, run_id.as_str()).await
    }

    /// Waits until no connection is in use and closes them.
    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}

impl Snapshot {
    /// The run with this id.
    ///
    /// # Errors
    /// When the database fails or the row is damaged.
    pub(crate) async fn run(&mut self, run_id: &RunId) -> Result<Option<Run>, StoreError> {
        runs::find(&mut self.transaction, run_id).await
    }

    /// The columns that lists show of one run.
    ///
    /// # Errors
    /// When the database fails or the row is damaged.
    pub(crate) async fn summary(&mut self, run_id: &RunId) -> Result<Option<RunSummary>, StoreError> {
        runs::summary(&mut self.transaction, run_id.as_str()).await
    }

    /// Payload of the event with this sequence.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn payload(&mut self, sequence: i64) -> Result<Option<String>, StoreError> {
        events::payload(&mut self.transaction, sequence).await
    }

    /// Runs that `filter` shows and whose first event is before `before`, newest first.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub(crate) async fn runs(
        &mut self,
        filter: &RunFilter,
        before: i64,
        limit: i64,
    ) -> Result<Vec<RunSummary>, StoreError> {
        if filter.harvest_pending || filter.session.is_some() {
            return runs::list_filtered(&mut self.transaction, filter, before, limit).await;
        }
        if filter.statuses.is_empty() {
            return runs::list(&mut self.transaction, before, limit).await;
        }
        // One walk of the index a status, then the newest of all: each is as long as the page and no longer.
        let mut found = Vec::new();
        for &status in &filter.statuses {
            found.extend(runs::list_of(&mut self.transaction, status, before, limit).await?);
        }
        found.sort_by_key(|run| std::cmp::Reverse(run.first_sequence));
        found.truncate(usize::try_from(limit).unwrap_or(0));
        Ok(found)
    }

    /// The next page of the whole ledger.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn events(&mut self, from: i64, limits: PageLimits) -> Result<EventPage, StoreError> {
        events::page(&mut self.transaction, from, limits).await
    }

    /// The next page of one run.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn events_of(
        &mut self,
        subject: &str,
        from: i64,
        limits: PageLimits,
    ) -> Result<EventPage, StoreError> {
        events::page_of(&mut self.transaction, subject, from, limits).await
    }

    /// Subjects that have events and no run, with the sequence of their first event.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn subjects_without_run(&mut self, limit: i64) -> Result<Vec<(i64, String)>, StoreError> {
        events::without_run(&mut self.transaction, limit).await
    }
}
