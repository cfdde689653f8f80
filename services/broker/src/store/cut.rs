//! What a cut of the ledger reads and removes.

use std::sync::LazyLock;

use mosaic_ids::{Digest, Name, RunId};
use sqlx::sqlite::SqliteConnection;

use super::error::exactly;
use super::events::{self, StoredEvent};
use super::rows::{Family, filled};
use super::writes::WriteBatch;
use super::{Snapshot, StoreError, WriteConnection};
use crate::domain::{CutPlan, Recorded};

/// A run that goes with the next cut.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct RunToCut {
    /// Its id, as it is stored.
    pub(crate) run_id: String,
    /// Sequence of its last event.
    pub(crate) last_sequence: i64,
    /// How many events it has.
    pub(crate) events: i64,
}

/// As much of an event as a cut needs to know of it.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct EventLine {
    /// Position in the ledger.
    pub(crate) sequence: i64,
    /// What it happened to.
    pub(crate) subject: String,
    hash: String,
}

impl EventLine {
    /// Its hash.
    ///
    /// # Errors
    /// When it is damaged.
    pub(crate) fn hash(&self) -> Result<Digest, StoreError> {
        self.hash
            .parse()
            .map_err(StoreError::damaged::<mosaic_ids::InvalidDigest>(&format!("event {}", self.sequence), "hash"))
    }
}

impl Snapshot {
    /// The event of the newest checkpoint; none in a ledger that was never cut.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn newest_checkpoint(&mut self) -> Result<Option<StoredEvent>, StoreError> {
        events::newest_checkpoint(&mut self.transaction).await
    }

    /// Sequence of the first event from which on none was removed; none in a ledger without events.
    ///
    /// # Errors
    /// When the database fails, or the checkpoint is damaged.
    pub(crate) async fn first_whole(&mut self) -> Result<Option<i64>, StoreError> {
        first_whole(&mut self.transaction).await
    }

    /// Runs that go with the next cut, those whose last event is oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn runs_to_cut(&mut self, limit: i64) -> Result<Vec<RunToCut>, StoreError> {
        let runs = sqlx::query_as(
            "
            SELECT run_id, last_sequence, (SELECT COUNT(*) FROM events WHERE subject = run_id) AS events
            FROM runs
            WHERE record_pruned
            ORDER BY last_sequence
            LIMIT $1
            ",
        )
        .bind(limit)
        .fetch_all(&mut *self.transaction)
        .await?;
        Ok(runs)
    }

    /// How many runs and events would go if everything went that may.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn size_of_cut(&mut self) -> Result<(i64, i64), StoreError> {
        let (runs, until): (i64, Option<i64>) =
            sqlx::query_as("SELECT COUNT(*), MAX(last_sequence) FROM runs WHERE record_pruned")
                .fetch_one(&mut *self.transaction)
                .await?;
        let events: i64 = sqlx::query_scalar(
            "
            SELECT
                (SELECT COUNT(*) FROM events WHERE subject IN (SELECT run_id FROM runs WHERE record_pruned))
                + (SELECT COUNT(*) FROM events WHERE subject = 'ledger' AND sequence <= $1)
                + (SELECT COUNT(*) FROM events WHERE subject >= 'session:' AND subject < 'session;' AND sequence <= $1)
            ",
        )
        .bind(until.unwrap_or(0))
        .fetch_one(&mut *self.transaction)
        .await?;
        Ok((runs, events))
    }

    /// The next events after `after` and up to `until`, in order.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn lines(&mut self, after: i64, until: i64, limit: i64) -> Result<Vec<EventLine>, StoreError> {
        let lines = sqlx::query_as(
            "
            SELECT sequence, subject, hash
            FROM events
            WHERE sequence > $1 AND sequence <= $2
            ORDER BY sequence
            LIMIT $3
            ",
        )
        .bind(after)
        .bind(until)
        .bind(limit)
        .fetch_all(&mut *self.transaction)
        .await?;
        Ok(lines)
    }
}

/// See [`Snapshot::first_whole`].
pub(super) async fn first_whole(connection: &mut SqliteConnection) -> Result<Option<i64>, StoreError> {
    match events::newest_checkpoint(connection).await? {
        None => events::earliest(connection).await,
        Some(StoredEvent { sequence, event }) => {
            let name = format!("event {sequence}");
            let recorded = Recorded::of(&event?).map_err(StoreError::damaged(&name, "payload"))?;
            Ok(Some(recorded.first_whole()))
        }
    }
}

static DELETE_EVENTS: LazyLock<Family> =
    LazyLock::new(|| Family::new("DELETE FROM events WHERE subject IN (", "?", ")"));

static DELETE_RUNS: LazyLock<Family> =
    LazyLock::new(|| Family::new("DELETE FROM runs WHERE record_pruned AND run_id IN (", "?", ")"));

impl WriteBatch<'_> {
    /// Removes what `plan` says, if all of it is as it was planned.
    ///
    /// # Errors
    /// When the database fails, or the ledger is not the one that was planned for.
    pub(crate) async fn cut(&mut self, plan: &CutPlan) -> Result<(), StoreError> {
        let newest = events::newest_checkpoint(&mut self.transaction).await?;
        let newest = newest.map(|stored| stored.event).transpose()?.map(|event| event.hash);
        if newest != plan.previous {
            return Err(StoreError::damaged("checkpoint", "hash")("it is not the one that this cut was planned on"));
        }
        exactly(plan.runs.len(), self.delete(&DELETE_RUNS, &plan.runs).await?)?;
        let mut events = self.delete(&DELETE_EVENTS, &plan.runs).await?;
        for of_no_run in [
            "DELETE FROM events WHERE subject = 'ledger' AND sequence <= $1",
            "DELETE FROM events WHERE subject >= 'session:' AND subject < 'session;' AND sequence <= $1",
        ] {
            let deleted = sqlx::query(of_no_run).bind(plan.sequence).execute(&mut *self.transaction).await?;
            events += deleted.rows_affected();
        }
        exactly(usize::try_from(plan.events).unwrap_or(0), events)
    }

    async fn delete(&mut self, family: &'static Family, runs: &[RunId]) -> Result<u64, StoreError> {
        let mut deleted = 0;
        for (text, runs, repeats) in family.at_least(runs) {
            let mut delete = sqlx::query(text);
            for run_id in filled(runs, repeats) {
                delete = delete.bind(run_id.as_str());
            }
            deleted += delete.execute(&mut *self.transaction).await?.rows_affected();
        }
        Ok(deleted)
    }

    /// A run of this session that is not terminal.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn live_run_of(&mut self, session: &Name) -> Result<Option<String>, StoreError> {
        let run = sqlx::query_scalar(
            "
            SELECT run_id
            FROM runs
            WHERE status IN ('queued', 'preparing', 'running') AND session = $1
            ORDER BY first_sequence
            LIMIT 1
            ",
        )
        .bind(session.as_str())
        .fetch_optional(&mut *self.transaction)
        .await?;
        Ok(run)
    }
}

impl WriteConnection {
    /// Gives up to `pages` unused pages back to the file system. Returns how many are unused still.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn shrink(&mut self, pages: u32) -> Result<i64, StoreError> {
        let vacuum = sqlx::AssertSqlSafe(format!("PRAGMA incremental_vacuum({pages})"));
        sqlx::query(vacuum).execute(&mut self.connection).await?;
        Ok(sqlx::query_scalar("PRAGMA freelist_count").fetch_one(&mut self.connection).await?)
    }
}
