use jiff::Timestamp;
use mosaic_ids::{Digest, Name, RequestId, RunId};
use mosaic_record::{RunRecord, RunStatus};
use sqlx::sqlite::SqliteConnection;

use super::StoreError;
use super::error::exactly_one;
use crate::domain::{Run, RunSummary, from_nanos, to_nanos};

/// What the writer needs of a run.
#[derive(Debug, sqlx::FromRow)]
struct RunRow {
    run_id: String,
    request_id: String,
    request_digest: String,
    epoch: i64,
    holder: Option<String>,
    prepared_epoch: Option<i64>,
    reported: i64,
    first_sequence: i64,
    last_sequence: i64,
    record: String,
}

/// Selects [`RunRow`]s.
macro_rules! select_runs {
    ($rest:literal) => {
        concat!(
            "
            SELECT
                run_id, request_id, request_digest, epoch, holder,
                prepared_epoch, reported, first_sequence, last_sequence, record
            FROM runs
            ",
            $rest
        )
    };
}

impl TryFrom<RunRow> for Run {
    type Error = StoreError;

    fn try_from(row: RunRow) -> Result<Self, StoreError> {
        let name = row.run_id.as_str();
        let record: RunRecord = serde_json::from_str(&row.record).map_err(StoreError::damaged(name, "record"))?;
        if record.run_id.as_str() != name {
            return Err(StoreError::damaged(name, "record")(format!("it is of run `{}`", record.run_id)));
        }
        let holder = row.holder.map(RequestId::try_from).transpose();
        Ok(Self {
            record,
            request_id: RequestId::try_from(row.request_id).map_err(StoreError::damaged(name, "request_id"))?,
            request_digest: Digest::try_from(row.request_digest)
                .map_err(StoreError::damaged(name, "request_digest"))?,
            epoch: row.epoch,
            holder: holder.map_err(StoreError::damaged(name, "holder"))?,
            prepared_epoch: row.prepared_epoch,
            reported: row.reported,
            first_sequence: row.first_sequence,
            last_sequence: row.last_sequence,
        })
    }
}

/// What lists show of a run.
#[derive(Debug, sqlx::FromRow)]
struct SummaryRow {
    run_id: String,
    status: String,
    reason: Option<String>,
    created_ns: i64,
    started_ns: Option<i64>,
    finished_ns: Option<i64>,
    task_id: String,
    adapter: String,
    model: Option<String>,
    workspace: Option<String>,
    session: Option<String>,
    cancel_requested: bool,
    epoch: i64,
    first_sequence: i64,
    last_sequence: i64,
}

/// Selects [`SummaryRow`]s.
macro_rules! select_summaries {
    ($rest:literal) => {
        concat!(
            "
            SELECT
                run_id, status, reason, created_ns, started_ns, finished_ns, task_id, adapter,
                model, workspace, session, cancel_requested, epoch, first_sequence, last_sequence
            FROM runs
            ",
            $rest
        )
    };
}

impl TryFrom<SummaryRow> for RunSummary {
    type Error = StoreError;

    fn try_from(row: SummaryRow) -> Result<Self, StoreError> {
        let id = row.run_id.clone();
        let name = |text: String, column| Name::try_from(text).map_err(StoreError::damaged(&id, column));
        Ok(Self {
            status: row.status.parse::<RunStatus>().map_err(StoreError::damaged(&id, "status"))?,
            reason: row.reason,
            created_at: from_nanos(row.created_ns),
            started_at: row.started_ns.map(from_nanos),
            finished_at: row.finished_ns.map(from_nanos),
            task_id: name(row.task_id, "task_id")?,
            adapter: name(row.adapter, "adapter")?,
            model: row.model,
            workspace: row.workspace,
            session: row.session.map(|session| name(session, "session")).transpose()?,
            cancel_requested: row.cancel_requested,
            epoch: row.epoch,
            first_sequence: row.first_sequence,
            last_sequence: row.last_sequence,
            run_id: RunId::try_from(row.run_id).map_err(StoreError::damaged(&id, "run_id"))?,
        })
    }
}

/// The run with this id.
pub(super) async fn find(connection: &mut SqliteConnection, run_id: &RunId) -> Result<Option<Run>, StoreError> {
    let row: Option<RunRow> =
        sqlx::query_as(select_runs!("WHERE run_id = $1")).bind(run_id.as_str()).fetch_optional(connection).await?;
    row.map(Run::try_from).transpose()
}

/// The run that a request made.
pub(super) async fn find_by_request(
    connection: &mut SqliteConnection,
    request_id: &RequestId,
) -> Result<Option<Run>, StoreError> {
    let row: Option<RunRow> = sqlx::query_as(select_runs!("WHERE request_id = $1"))
        .bind(request_id.as_str())
        .fetch_optional(connection)
        .await?;
    row.map(Run::try_from).transpose()
}

/// The columns that lists show of one run.
pub(super) async fn summary(connection: &mut SqliteConnection, run_id: &str) -> Result<Option<RunSummary>, StoreError> {
    let row: Option<SummaryRow> =
        sqlx::query_as(select_summaries!("WHERE run_id = $1")).bind(run_id).fetch_optional(connection).await?;
    row.map(RunSummary::try_from).transpose()
}

/// Runs recorded before `before` (a first sequence), newest first.
pub(super) async fn list(
    connection: &mut SqliteConnection,
    before: i64,
    limit: i64,
) -> Result<Vec<RunSummary>, StoreError> {
    let rows: Vec<SummaryRow> =
        sqlx::query_as(select_summaries!("WHERE first_sequence < $1 ORDER BY first_sequence DESC LIMIT $2"))
            .bind(before)
            .bind(limit)
            .fetch_all(connection)
            .await?;
    rows.into_iter().map(RunSummary::try_from).collect()
}

/// Like [`list`], of one status.
pub(super) async fn list_of(
    connection: &mut SqliteConnection,
    status: RunStatus,
    before: i64,
    limit: i64,
) -> Result<Vec<RunSummary>, StoreError> {
    let rows: Vec<SummaryRow> = sqlx::query_as(select_summaries!(
        "WHERE status = $1 AND first_sequence < $2 ORDER BY first_sequence DESC LIMIT $3"
    ))
    .bind(status.as_str())
    .bind(before)
    .bind(limit)
    .fetch_all(connection)
    .await?;
    rows.into_iter().map(RunSummary::try_from).collect()
}

/// First sequences and ids of runs after `after`, oldest first, whatever state their other columns are in.
pub(super) async fn ids_after(
    connection: &mut SqliteConnection,
    after: i64,
    limit: i64,
) -> Result<Vec<(i64, String)>, StoreError> {
    let rows = sqlx::query_as(
        "
        SELECT first_sequence, run_id
        FROM runs
        WHERE first_sequence > $1
        ORDER BY first_sequence
        LIMIT $2
        ",
    )
    .bind(after)
    .bind(limit)
    .fetch_all(connection)
    .await?;
    Ok(rows)
}

/// Writes a new run, or all of a run that is there.
pub(super) async fn save(connection: &mut SqliteConnection, run: &Run) -> Result<(), StoreError> {
    let summary = run.summary();
    let nanos = |time: Option<Timestamp>| time.map(to_nanos);
    let result = sqlx::query(
        "
        INSERT INTO runs (
            run_id, request_id, request_digest, status, reason, created_ns, started_ns, finished_ns, task_id, adapter,
            model, workspace, session, cancel_requested, epoch, holder, prepared_epoch, reported,
            first_sequence, last_sequence, record
        )
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)
        ON CONFLICT (run_id) DO UPDATE SET
            status = excluded.status,
            reason = excluded.reason,
            started_ns = excluded.started_ns,
            finished_ns = excluded.finished_ns,
            cancel_requested = excluded.cancel_requested,
            epoch = excluded.epoch,
            holder = excluded.holder,
            prepared_epoch = excluded.prepared_epoch,
            reported = excluded.reported,
            last_sequence = excluded.last_sequence,
            record = excluded.record
        ",
    )
    .bind(summary.run_id.as_str())
    .bind(run.request_id.as_str())
    .bind(run.request_digest.as_str())
    .bind(summary.status.as_str())
    .bind(summary.reason)
    .bind(to_nanos(summary.created_at))
    .bind(nanos(summary.started_at))
    .bind(nanos(summary.finished_at))
    .bind(summary.task_id.as_str())
    .bind(summary.adapter.as_str())
    .bind(summary.model)
    .bind(summary.workspace)
    .bind(summary.session.as_ref().map(Name::as_str))
    .bind(summary.cancel_requested)
    .bind(run.epoch)
    .bind(run.holder.as_ref().map(RequestId::as_str))
    .bind(run.prepared_epoch)
    .bind(run.reported)
    .bind(run.first_sequence)
    .bind(run.last_sequence)
    .bind(serde_json::to_string(&run.record).expect("a record has string keys and no failing type"))
    .execute(connection)
    .await?;
    exactly_one(result.rows_affected())
}
