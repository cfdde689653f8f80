use std::path::Path;

use mosaic_ids::{RequestId, RunId};
use mosaic_record::{RunEvent, StepState};
use sqlx::sqlite::{Sqlite, SqliteConnection};
use sqlx::{Connection as _, Transaction};

use super::{StoreError, events, runs, wal::WalKeeper};
use crate::domain::{Event, Head, Run};

/// The one connection that writes.
#[derive(Debug)]
pub(crate) struct WriteConnection {
    connection: SqliteConnection,
    wal: WalKeeper,
}

/// One transaction of the writer; dropped without a commit, nothing of it happened.
#[derive(Debug)]
pub(crate) struct WriteBatch<'a> {
    transaction: Transaction<'a, Sqlite>,
}

impl WriteConnection {
    pub(super) fn new(connection: SqliteConnection, path: &Path) -> Self {
        Self { connection, wal: WalKeeper::of(path) }
    }

    /// The end of the chain as it is stored.
    ///
    /// # Errors
    /// When the database fails or the last event is damaged.
    pub(crate) async fn head(&mut self) -> Result<Head, StoreError> {
        let last = events::last(&mut self.connection).await?;
        Ok(last.map_or_else(Head::empty, |(sequence, hash)| Head { sequence, hash }))
    }

    /// Begins a transaction that holds the write lock from its start.
    ///
    /// # Errors
    /// When the database fails or another process keeps it locked.
    pub(crate) async fn begin(&mut self) -> Result<WriteBatch<'_>, StoreError> {
        Ok(WriteBatch { transaction: self.connection.begin_with("BEGIN IMMEDIATE").await? })
    }

    /// Keeps the write-ahead log bounded; to be called between transactions.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn keep_wal_bounded(&mut self) -> Result<(), StoreError> {
        self.wal.relieve(&mut self.connection).await
    }

    pub(super) async fn close(self) -> Result<(), StoreError> {
        Ok(self.connection.close().await?)
    }
}

impl WriteBatch<'_> {
    /// The run with this id.
    ///
    /// # Errors
    /// When the database fails or the row is damaged.
    pub(crate) async fn find(&mut self, run_id: &RunId) -> Result<Option<Run>, StoreError> {
        runs::find(&mut self.transaction, run_id).await
    }

    /// The run that a request made.
    ///
    /// # Errors
    /// When the database fails or the row is damaged.
    pub(crate) async fn find_by_request(&mut self, request_id: &RequestId) -> Result<Option<Run>, StoreError> {
        runs::find_by_request(&mut self.transaction, request_id).await
    }

    /// Sequence of the event that recorded this step under this epoch.
    ///
    /// # Errors
    /// When the database fails or an event is damaged.
    pub(crate) async fn recorded_step(
        &mut self,
        run_id: &RunId,
        wanted: (i64, &str, StepState),
    ) -> Result<Option<i64>, StoreError> {
        for (sequence, payload) in events::of_kind(&mut self.transaction, run_id.as_str(), "run.step").await? {
            let name = format!("event {sequence}");
            let event = serde_json::from_str(&payload).map_err(StoreError::damaged(&name, "payload"))?;
            if let RunEvent::Step { epoch, step, state, .. } = event
                && (epoch, step.as_str(), state) == wanted
            {
                return Ok(Some(sequence));
            }
        }
        Ok(None)
    }

    /// Appends a sealed event.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn append(&mut self, event: &Event) -> Result<(), StoreError> {
        events::insert(&mut self.transaction, event).await
    }

    /// Writes what a run has become.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn save(&mut self, run: &Run) -> Result<(), StoreError> {
        runs::save(&mut self.transaction, run).await
    }

    /// Puts all of it on disk.
    ///
    /// # Errors
    /// When the database fails; then nothing of it happened.
    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        Ok(self.transaction.commit().await?)
    }
}
