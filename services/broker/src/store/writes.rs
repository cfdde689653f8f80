use std::path::Path;
use std::sync::{Arc, LazyLock};

use futures::TryStreamExt as _;
use mosaic_ids::{RequestId, RunId};
use mosaic_record::RunEvent;
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteConnection, SqliteQueryResult};
use sqlx::{Connection as _, Executor as _, Transaction};

use super::error::exactly;
use super::rows::MOST;
use super::{StoreError, StoredRun, events, runs, wal::WalKeeper};
use crate::domain::{Event, Head, RecordedStep, Run};

/// The one connection that writes.
#[derive(Debug)]
pub(crate) struct WriteConnection {
    pub(super) connection: SqliteConnection,
    wal: WalKeeper,
}

/// The beginning of a transaction and all that it writes, for 1, 2, 4 ... events and as many runs.
static FEW: LazyLock<Vec<String>> = LazyLock::new(|| {
    let powers = (0..=MOST.ilog2()).map(|power| 1 << power);
    let text = |rows| format!("BEGIN IMMEDIATE; {}; {}", events::INSERT.fitting(rows).0, runs::UPSERT.fitting(rows).0);
    powers.map(text).collect()
});

/// One transaction of the writer; dropped without a commit, nothing of it happened.
#[derive(Debug)]
pub(crate) struct WriteBatch<'a> {
    pub(super) transaction: Transaction<'a, Sqlite>,
}

/// A step as it was found; one that is damaged still has its run.
#[derive(Debug)]
pub(crate) struct StoredStep {
    /// Its run's id, as it is stored.
    pub(crate) run_id: String,
    /// The step.
    pub(crate) step: Result<RecordedStep, StoreError>,
}

impl From<(String, i64, String)> for StoredStep {
    fn from((run_id, sequence, payload): (String, i64, String)) -> Self {
        let damaged = |why: Box<dyn std::error::Error + Send + Sync>| {
            StoreError::damaged(&format!("event {sequence}"), "payload")(why)
        };
        let step = match serde_json::from_str(&payload) {
            Ok(RunEvent::Step { epoch, step, state, .. }) => Ok(RecordedStep { epoch, step, state, sequence }),
            Ok(other) => Err(damaged(format!("it is `{}`", other.kind()).into())),
            Err(error) => Err(damaged(error.into())),
        };
        Self { run_id, step }
    }
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

    /// Those of these runs that are there.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn runs(&mut self, run_ids: &[&RunId]) -> Result<Vec<StoredRun>, StoreError> {
        runs::find_all(&mut self.connection, run_ids).await
    }

    /// The runs that these requests made, as far as they made some.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn runs_by_request(&mut self, request_ids: &[&RequestId]) -> Result<Vec<StoredRun>, StoreError> {
        runs::find_all_by_request(&mut self.connection, request_ids).await
    }

    /// Every step that these runs have recorded.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn steps(&mut self, run_ids: &[&RunId]) -> Result<Vec<StoredStep>, StoreError> {
        let steps = events::steps(&mut self.connection, run_ids).await?;
        Ok(steps.into_iter().map(StoredStep::from).collect())
    }

    /// Appends sealed events and writes what runs have become, each run once, in one transaction. All of it is on disk when
    /// this returns.
    ///
    /// # Errors
    /// When the database fails. Nothing of it happened then, once this connection is dropped, which it is to be.
    pub(crate) async fn write(&mut self, events: Vec<Event>, runs: &[Arc<Run>]) -> Result<(), StoreError> {
        if events.len() <= MOST && runs.len() <= MOST {
            return self.write_few(events, runs).await;
        }
        let mut batch = self.begin().await?;
        batch.append(events).await?;
        batch.save(runs).await?;
        batch.commit().await
    }

    /// [`Self::write`] in two hops to the connection's thread instead of four; for few rows the hops are most of the time.
    async fn write_few(&mut self, events: Vec<Event>, runs: &[Arc<Run>]) -> Result<(), StoreError> {
        let meant = [events.len(), runs.len()];
        let taken = events.len().max(runs.len()).next_power_of_two();
        let mut arguments = SqliteArguments::default();
        let bound = events::bind_all(&mut arguments, events.into_iter(), taken)
            .and_then(|()| runs::bind_all(&mut arguments, runs, taken));
        bound.map_err(sqlx::Error::Encode)?;
        let statements = sqlx::query_with(FEW[taken.ilog2() as usize].as_str(), arguments);
        let results: Vec<SqliteQueryResult> = self.connection.execute_many(statements).try_collect().await?;
        let [_begun, appended, saved] = results.as_slice() else {
            return Err(StoreError::RowsAffected { meant: meant[0] as u64, changed: 0 });
        };
        exactly(meant[0], appended.rows_affected())?;
        exactly(meant[1], saved.rows_affected())?;
        sqlx::query("COMMIT").execute(&mut self.connection).await?;
        Ok(())
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

    /// Takes the write-ahead log into the database now, which also gives the space back that the database has lost.
    ///
    /// # Errors
    /// When the database fails; a reader that keeps the log is none.
    pub(crate) async fn empty_wal(&mut self) -> Result<(), StoreError> {
        self.wal.empty(&mut self.connection).await
    }

    pub(super) async fn close(self) -> Result<(), StoreError> {
        Ok(self.connection.close().await?)
    }
}

impl WriteBatch<'_> {
    /// Appends sealed events.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn append(&mut self, events: Vec<Event>) -> Result<(), StoreError> {
        events::insert(&mut self.transaction, events).await
    }

    /// Writes what runs have become; each run once.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn save(&mut self, runs: &[Arc<Run>]) -> Result<(), StoreError> {
        runs::save(&mut self.transaction, runs).await
    }

    /// Puts all of it on disk.
    ///
    /// # Errors
    /// When the database fails; then nothing of it happened.
    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        Ok(self.transaction.commit().await?)
    }
}
