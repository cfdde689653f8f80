use std::sync::LazyLock;

use mosaic_ids::RunId;
use sqlx::Arguments as _;
use sqlx::error::BoxDynError;
use sqlx::sqlite::{SqliteArguments, SqliteConnection};

use super::StoreError;
use super::error::exactly;
use super::rows::{Family, INSERTED, MOST, bind_empty, filled};
use crate::domain::{Event, from_nanos, to_nanos};

/// How much one page of events holds: at least one event, then no more than these.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageLimits {
    /// Events.
    pub(crate) events: i64,
    /// Bytes of payload.
    pub(crate) bytes: i64,
}

impl PageLimits {
    /// What readers take: small enough for many of them at once.
    pub(crate) const DEFAULT: Self = Self { events: 256, bytes: 1024 * 1024 };
}

/// Events in order; empty when there are no more.
pub(crate) type EventPage = Vec<StoredEvent>;

/// An event as it was found; one that is damaged still has its place.
#[derive(Debug)]
pub(crate) struct StoredEvent {
    /// Position in the ledger.
    pub(crate) sequence: i64,
    /// The event.
    pub(crate) event: Result<Event, StoreError>,
}

impl From<EventRow> for StoredEvent {
    fn from(row: EventRow) -> Self {
        Self { sequence: row.sequence, event: row.try_into() }
    }
}

#[derive(Debug, sqlx::FromRow)]
pub(super) struct EventRow {
    sequence: i64,
    event_id: String,
    time_ns: i64,
    kind: String,
    actor: String,
    pub(super) subject: String,
    trace_id: Option<String>,
    previous_hash: String,
    hash: String,
    payload: String,
}

impl TryFrom<EventRow> for Event {
    type Error = StoreError;

    fn try_from(row: EventRow) -> Result<Self, StoreError> {
        let name = format!("event {}", row.sequence);
        Ok(Self {
            sequence: row.sequence,
            id: row.event_id.parse().map_err(StoreError::damaged::<uuid::Error>(&name, "event_id"))?,
            time: from_nanos(row.time_ns),
            kind: row.kind,
            actor: row.actor.parse().map_err(StoreError::damaged::<mosaic_record::InvalidActor>(&name, "actor"))?,
            subject: row.subject,
            payload: row.payload,
            trace_id: row.trace_id,
            previous_hash: digest(row.previous_hash, &name, "previous_hash")?,
            hash: digest(row.hash, &name, "hash")?,
        })
    }
}

fn digest(text: String, row: &str, column: &'static str) -> Result<mosaic_ids::Digest, StoreError> {
    text.try_into().map_err(StoreError::damaged::<mosaic_ids::InvalidDigest>(row, column))
}

/// Appends events, as [`bind_all`] binds them.
pub(super) static INSERT: LazyLock<Family> = LazyLock::new(|| {
    let head = "
        INSERT OR FAIL INTO events (
            sequence, event_id, time_ns, kind, actor, subject,
            trace_id, previous_hash, hash, payload_bytes, payload
        )
        ";
    Family::new(&format!("{head}{}", INSERTED.0), "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", INSERTED.1)
});
const COLUMNS: usize = 11;

/// Appends sealed events.
pub(super) async fn insert(connection: &mut SqliteConnection, events: Vec<Event>) -> Result<(), StoreError> {
    let mut left = events.into_iter();
    while left.len() > 0 {
        let rows = left.len().min(MOST);
        let (text, taken) = INSERT.fitting(rows);
        let mut arguments = SqliteArguments::default();
        bind_all(&mut arguments, left.by_ref().take(rows), taken).map_err(sqlx::Error::Encode)?;
        let result = sqlx::query_with(text, arguments).execute(&mut *connection).await?;
        exactly(rows, result.rows_affected())?;
    }
    Ok(())
}

/// The rows of [`INSERT`] that takes `taken`.
pub(super) fn bind_all(
    arguments: &mut SqliteArguments,
    events: impl ExactSizeIterator<Item = Event>,
    taken: usize,
) -> Result<(), BoxDynError> {
    let empty = taken - events.len();
    arguments.reserve(taken * COLUMNS, 0);
    for event in events {
        bind(arguments, event)?;
    }
    bind_empty(arguments, empty, COLUMNS)
}

/// One row of [`INSERT`].
fn bind(row: &mut SqliteArguments, event: Event) -> Result<(), BoxDynError> {
    row.add(event.sequence)?;
    row.add(event.id.to_string())?;
    row.add(to_nanos(event.time))?;
    row.add(event.kind)?;
    row.add(event.actor.to_string())?;
    row.add(event.subject)?;
    row.add(event.trace_id)?;
    row.add(String::from(event.previous_hash))?;
    row.add(String::from(event.hash))?;
    row.add(i64::try_from(event.payload.len()).unwrap_or(i64::MAX))?;
    row.add(event.payload)
}

/// Sequence and hash of the last event.
pub(super) async fn last(connection: &mut SqliteConnection) -> Result<Option<(i64, mosaic_ids::Digest)>, StoreError> {
    let row: Option<(i64, String)> = sqlx::query_as(
        "
        SELECT sequence, hash
        FROM events
        ORDER BY sequence DESC
        LIMIT 1
        ",
    )
    .fetch_optional(connection)
    .await?;
    row.map(|(sequence, hash)| Ok((sequence, digest(hash, &format!("event {sequence}"), "hash")?))).transpose()
}

/// Sequence of the first event that is still there.
pub(super) async fn earliest(connection: &mut SqliteConnection) -> Result<Option<i64>, StoreError> {
    Ok(sqlx::query_scalar("SELECT MIN(sequence) FROM events").fetch_one(connection).await?)
}

/// The next page of the whole ledger.
pub(super) async fn page(
    connection: &mut SqliteConnection,
    from: i64,
    limits: PageLimits,
) -> Result<EventPage, StoreError> {
    let sizes: Vec<(i64, i64)> = sqlx::query_as(
        "
        SELECT sequence, payload_bytes
        FROM events
        WHERE sequence >= $1
        ORDER BY sequence
        LIMIT $2
        ",
    )
    .bind(from)
    .bind(limits.events)
    .fetch_all(&mut *connection)
    .await?;
    let Some(last) = last_that_fits(&sizes, limits.bytes) else { return Ok(vec![]) };
    let rows: Vec<EventRow> = sqlx::query_as(
        "
        SELECT sequence, event_id, time_ns, kind, actor, subject, trace_id, previous_hash, hash, payload
        FROM events
        WHERE sequence BETWEEN $1 AND $2
        ORDER BY sequence
        ",
    )
    .bind(from)
    .bind(last)
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(StoredEvent::from).collect())
}

/// The next page of one subject.
pub(super) async fn page_of(
    connection: &mut SqliteConnection,
    subject: &str,
    from: i64,
    limits: PageLimits,
) -> Result<EventPage, StoreError> {
    let sizes: Vec<(i64, i64)> = sqlx::query_as(
        "
        SELECT sequence, payload_bytes
        FROM events
        WHERE subject = $1 AND sequence >= $2
        ORDER BY sequence
        LIMIT $3
        ",
    )
    .bind(subject)
    .bind(from)
    .bind(limits.events)
    .fetch_all(&mut *connection)
    .await?;
    let Some(last) = last_that_fits(&sizes, limits.bytes) else { return Ok(vec![]) };
    let rows: Vec<EventRow> = sqlx::query_as(
        "
        SELECT sequence, event_id, time_ns, kind, actor, subject, trace_id, previous_hash, hash, payload
        FROM events
        WHERE subject = $1 AND sequence BETWEEN $2 AND $3
        ORDER BY sequence
        ",
    )
    .bind(subject)
    .bind(from)
    .bind(last)
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(StoredEvent::from).collect())
}

static SELECT_STEPS: LazyLock<Family> = LazyLock::new(|| {
    let head = "
        SELECT subject, sequence, payload
        FROM events
        WHERE kind = 'run.step' AND subject IN (";
    Family::new(head, "?", ") ORDER BY sequence")
});

/// Subject, sequence and payload of every `run.step` of these runs, those of each in order.
pub(super) async fn steps(
    connection: &mut SqliteConnection,
    runs: &[&RunId],
) -> Result<Vec<(String, i64, String)>, StoreError> {
    let mut steps = Vec::new();
    for (text, runs, repeats) in SELECT_STEPS.at_least(runs) {
        let mut select = sqlx::query_as(text);
        for run_id in filled(runs, repeats) {
            select = select.bind(run_id.as_str());
        }
        steps.append(&mut select.fetch_all(&mut *connection).await?);
    }
    Ok(steps)
}

/// Payload of the event with this sequence.
pub(super) async fn payload(connection: &mut SqliteConnection, sequence: i64) -> Result<Option<String>, StoreError> {
    let payload = sqlx::query_scalar("SELECT payload FROM events WHERE sequence = $1")
        .bind(sequence)
        .fetch_optional(connection)
        .await?;
    Ok(payload)
}

/// First event and name of each run that has events and no row; at most `limit`.
pub(super) async fn without_run(
    connection: &mut SqliteConnection,
    limit: i64,
) -> Result<Vec<(i64, String)>, StoreError> {
    let rows = sqlx::query_as(
        "
        SELECT MIN(sequence), subject
        FROM events
        WHERE subject >= 'r-' AND subject < 'r.'
        GROUP BY subject
        HAVING NOT EXISTS (SELECT 1 FROM runs WHERE runs.run_id = events.subject)
        ORDER BY MIN(sequence)
        LIMIT $1
        ",
    )
    .bind(limit)
    .fetch_all(connection)
    .await?;
    Ok(rows)
}

/// The event of the newest checkpoint.
pub(super) async fn newest_checkpoint(connection: &mut SqliteConnection) -> Result<Option<StoredEvent>, StoreError> {
    let row: Option<EventRow> = sqlx::query_as(
        "
        SELECT sequence, event_id, time_ns, kind, actor, subject, trace_id, previous_hash, hash, payload
        FROM events
        WHERE subject = 'ledger'
        ORDER BY sequence DESC
        LIMIT 1
        ",
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(StoredEvent::from))
}

/// The last sequence of `sizes` such that all payloads up to it fit `bytes`; the first one always does.
fn last_that_fits(sizes: &[(i64, i64)], bytes: i64) -> Option<i64> {
    let mut left = bytes;
    let mut last = None;
    for &(sequence, size) in sizes {
        left = left.saturating_sub(size.max(0));
        if left < 0 && last.is_some() {
            break;
        }
        last = Some(sequence);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_at_least_one_event_and_ends_where_its_bytes_do() {
        let sizes = [(1, 10), (2, 10), (5, 90), (6, 1)];
        for (bytes, last) in [(0, Some(1)), (5, Some(1)), (20, Some(2)), (109, Some(2)), (110, Some(5)), (111, Some(6))]
        {
            assert_eq!(last_that_fits(&sizes, bytes), last, "{bytes}");
        }
        assert_eq!(last_that_fits(&[], 100), None);
        assert_eq!(last_that_fits(&[(3, i64::MIN), (4, i64::MAX), (5, i64::MAX)], 1), Some(3));
    }
}
