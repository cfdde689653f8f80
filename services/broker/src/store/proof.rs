//! What a proof of the ledger reads: everything of many runs at once.

use std::collections::HashMap;
use std::sync::LazyLock;

use sqlx::sqlite::SqliteConnection;

use super::events::{EventRow, StoredEvent};
use super::rows::{Family, filled};
use super::runs::{self, WholeRow};
use super::{EventPage, Snapshot, StoreError};
use crate::domain::{Run, RunSummary};

/// A run that is to be proven.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// Sequence of its first event, as its row says.
    pub(crate) first_sequence: i64,
    /// Its id, as it is stored.
    pub(crate) run_id: String,
    /// Its events.
    pub(crate) events: i64,
    /// Bytes of their payloads, as their rows say.
    pub(crate) bytes: f64,
}

/// What is stored of a run beside its events.
#[derive(Debug)]
pub(crate) struct StoredRow {
    /// The run.
    pub(crate) run: Result<Run, StoreError>,
    /// What lists show of it.
    pub(crate) columns: Result<RunSummary, StoreError>,
}

static WEIGHTS: LazyLock<Family> = LazyLock::new(|| {
    // In floating point, so that sizes that somebody has tampered with do not overflow.
    let head = "
        SELECT subject, COUNT(*), SUM(payload_bytes * 1.0)
        FROM events
        WHERE subject IN (";
    Family::new(head, "?", ") GROUP BY subject")
});

static EVENTS: LazyLock<Family> = LazyLock::new(|| {
    let head = "
        SELECT sequence, event_id, time_ns, kind, actor, subject, trace_id, previous_hash, hash, payload
        FROM events
        WHERE subject IN (";
    Family::new(head, "?", ") ORDER BY subject, sequence")
});

static ROWS: LazyLock<Family> = LazyLock::new(|| Family::new("SELECT * FROM runs WHERE run_id IN (", "?", ")"));

impl Snapshot {
    /// The next runs after `after`, a first sequence, oldest first, whatever state their other columns are in.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn candidates(&mut self, after: i64, limit: i64) -> Result<Vec<Candidate>, StoreError> {
        let ids = runs::ids_after(&mut self.transaction, after, limit).await?;
        let keys: Vec<&str> = ids.iter().map(|(_, run_id)| run_id.as_str()).collect();
        let weights: Vec<(String, i64, f64)> = look_up(&mut self.transaction, &WEIGHTS, &keys).await?;
        let weights: HashMap<String, (i64, f64)> =
            weights.into_iter().map(|(subject, events, bytes)| (subject, (events, bytes))).collect();
        let candidate = |(first_sequence, run_id): (i64, String)| {
            let (events, bytes) = weights.get(&run_id).copied().unwrap_or_default();
            Candidate { first_sequence, run_id, events, bytes }
        };
        Ok(ids.into_iter().map(candidate).collect())
    }

    /// The events of all of these runs, those of each in order.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn events_of_all(&mut self, run_ids: &[&str]) -> Result<HashMap<String, EventPage>, StoreError> {
        let rows: Vec<EventRow> = look_up(&mut self.transaction, &EVENTS, run_ids).await?;
        let mut events: HashMap<String, EventPage> = HashMap::new();
        for row in rows {
            events.entry(row.subject.clone()).or_default().push(StoredEvent::from(row));
        }
        Ok(events)
    }

    /// The rows of all of these runs.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn rows_of_all(&mut self, run_ids: &[&str]) -> Result<HashMap<String, StoredRow>, StoreError> {
        let rows: Vec<WholeRow> = look_up(&mut self.transaction, &ROWS, run_ids).await?;
        let row = |row: WholeRow| {
            let run_id = row.run.run_id.clone();
            (run_id, StoredRow { run: row.run.try_into(), columns: row.summary.try_into() })
        };
        Ok(rows.into_iter().map(row).collect())
    }
}

async fn look_up<T>(
    connection: &mut SqliteConnection,
    family: &'static Family,
    keys: &[&str],
) -> Result<Vec<T>, StoreError>
where
    T: for<'row> sqlx::FromRow<'row, sqlx::sqlite::SqliteRow> + Send + Unpin,
{
    let mut found = Vec::new();
    for (text, keys, repeats) in family.at_least(keys) {
        let mut select = sqlx::query_as(text);
        for key in filled(keys, repeats) {
            select = select.bind(*key);
        }
        found.append(&mut select.fetch_all(&mut *connection).await?);
    }
    Ok(found)
}
