use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use mosaic_ids::{Digest, Name, RequestId, RunId};
use mosaic_record::{RunRecord, RunStatus};
use sqlx::error::BoxDynError;
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteConnection};
use sqlx::{Arguments as _, QueryBuilder};

use super::StoreError;
use super::error::exactly;
use super::rows::{Family, INSERTED, MOST, bind_empty, filled};
use crate::domain::{Run, RunFilter, RunSummary, from_nanos, to_nanos};

/// What the writer needs of a run.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct RunRow {
    pub(super) run_id: String,
    request_id: String,
    request_digest: String,
    epoch: i64,
    holder: Option<String>,
    prepared_epoch: Option<i64>,
    reported: i64,
    first_sequence: i64,
    last_sequence: i64,
    end_sequence: Option<i64>,
    record: String,
}

/// Selects [`RunRow`]s.
macro_rules! select_runs {
    ($rest:literal) => {
        concat!(
            "
            SELECT
                run_id, request_id, request_digest, epoch, holder,
                prepared_epoch, reported, first_sequence, last_sequence, end_sequence, record
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
            end_sequence: row.end_sequence,
        })
    }
}

/// What lists show of a run.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct SummaryRow {
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
    end_sequence: Option<i64>,
    kept: bool,
    record_pruned: bool,
    harvest_pending: bool,
}

/// Selects [`SummaryRow`]s.
macro_rules! select_summaries {
    ($rest:literal) => {
        concat!(
            "
            SELECT
                run_id, status, reason, created_ns, started_ns, finished_ns, task_id, adapter,
                model, workspace, session, cancel_requested, epoch, first_sequence, last_sequence,
                end_sequence, kept, record_pruned, harvest_pending
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
            end_sequence: row.end_sequence,
            kept: row.kept,
            record_pruned: row.record_pruned,
            harvest_pending: row.harvest_pending,
            run_id: RunId::try_from(row.run_id).map_err(StoreError::damaged(&id, "run_id"))?,
        })
    }
}

/// All of a row, read once.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct WholeRow {
    #[sqlx(flatten)]
    pub(super) run: RunRow,
    #[sqlx(flatten)]
    pub(super) summary: SummaryRow,
}

/// The run with this id.
pub(super) async fn find(connection: &mut SqliteConnection, run_id: &RunId) -> Result<Option<Run>, StoreError> {
    let row: Option<RunRow> =
        sqlx::query_as(select_runs!("WHERE run_id = $1")).bind(run_id.as_str()).fetch_optional(connection).await?;
    row.map(Run::try_from).transpose()
}

static SELECT_BY_ID: LazyLock<Family> = LazyLock::new(|| Family::new(select_runs!("WHERE run_id IN ("), "?", ")"));

static SELECT_BY_REQUEST: LazyLock<Family> =
    LazyLock::new(|| Family::new(select_runs!("WHERE request_id IN ("), "?", ")"));

/// A run as it was found; one that is damaged still has its ids.
#[derive(Debug)]
pub(crate) struct StoredRun {
    /// Its id, as it is stored.
    pub(crate) run_id: String,
    /// The request that made it, as it is stored.
    pub(crate) request_id: String,
    /// The run.
    pub(crate) run: Result<Run, StoreError>,
}

impl From<RunRow> for StoredRun {
    fn from(row: RunRow) -> Self {
        Self { run_id: row.run_id.clone(), request_id: row.request_id.clone(), run: row.try_into() }
    }
}

/// Those of these runs that are there.
pub(super) async fn find_all(
    connection: &mut SqliteConnection,
    run_ids: &[&RunId],
) -> Result<Vec<StoredRun>, StoreError> {
    look_up(connection, &SELECT_BY_ID, run_ids, |run_id| run_id.as_str()).await
}

/// The runs that these requests made, as far as they made some.
pub(super) async fn find_all_by_request(
    connection: &mut SqliteConnection,
    request_ids: &[&RequestId],
) -> Result<Vec<StoredRun>, StoreError> {
    look_up(connection, &SELECT_BY_REQUEST, request_ids, |request_id| request_id.as_str()).await
}

async fn look_up<T>(
    connection: &mut SqliteConnection,
    family: &'static Family,
    keys: &[T],
    text_of: impl Fn(&T) -> &str,
) -> Result<Vec<StoredRun>, StoreError> {
    let mut found = Vec::new();
    for (text, keys, repeats) in family.at_least(keys) {
        let mut select = sqlx::query_as(text);
        for key in filled(keys, repeats) {
            select = select.bind(text_of(key));
        }
        let rows: Vec<RunRow> = select.fetch_all(&mut *connection).await?;
        found.extend(rows.into_iter().map(StoredRun::from));
    }
    Ok(found)
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

/// Like [`list`], of those that `filter` shows; of its statuses in any number.
pub(super) async fn list_filtered(
    connection: &mut SqliteConnection,
    filter: &RunFilter,
    before: i64,
    limit: i64,
) -> Result<Vec<RunSummary>, StoreError> {
    let mut query = QueryBuilder::<Sqlite>::new(select_summaries!("WHERE first_sequence < "));
    query.push_bind(before);
    if filter.harvest_pending {
        query.push(" AND harvest_pending");
    }
    if let Some(session) = &filter.session {
        query.push(" AND session = ").push_bind(session.as_str());
    }
    if !filter.statuses.is_empty() {
        let mut statuses = query.push(" AND status IN (").separated(", ");
        for status in &filter.statuses {
            statuses.push_bind(status.as_str());
        }
        query.push(")");
    }
    query.push(" ORDER BY first_sequence DESC LIMIT ").push_bind(limit);
    let rows: Vec<SummaryRow> = query.build_query_as().fetch_all(connection).await?;
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

/// Writes runs, as [`bind_all`] binds them; each run once.
pub(super) static UPSERT: LazyLock<Family> = LazyLock::new(|| {
    let head = "
        INSERT OR FAIL INTO runs (
            run_id, request_id, request_digest, status, reason, created_ns, started_ns, finished_ns, task_id, adapter,
            model, workspace, session, cancel_requested, epoch, holder, prepared_epoch, reported,
            first_sequence, last_sequence, end_sequence, kept, record_pruned, harvest_pending, record
        )
        ";
    let tail = "
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
            end_sequence = excluded.end_sequence,
            kept = excluded.kept,
            record_pruned = excluded.record_pruned,
            harvest_pending = excluded.harvest_pending,
            record = excluded.record";
    let row = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    Family::new(&format!("{head}{}", INSERTED.0), row, &format!("{}{tail}", INSERTED.1))
});
const COLUMNS: usize = 25;

/// Writes new runs, and all of runs that are there; each run once.
pub(super) async fn save(connection: &mut SqliteConnection, runs: &[Arc<Run>]) -> Result<(), StoreError> {
    for runs in runs.chunks(MOST) {
        let (text, taken) = UPSERT.fitting(runs.len());
        let mut arguments = SqliteArguments::default();
        bind_all(&mut arguments, runs, taken).map_err(sqlx::Error::Encode)?;
        let result = sqlx::query_with(text, arguments).execute(&mut *connection).await?;
        exactly(runs.len(), result.rows_affected())?;
    }
    Ok(())
}

/// The rows of [`UPSERT`] that takes `taken`.
pub(super) fn bind_all(arguments: &mut SqliteArguments, runs: &[Arc<Run>], taken: usize) -> Result<(), BoxDynError> {
    arguments.reserve(taken * COLUMNS, 0);
    for run in runs {
        bind(arguments, run)?;
    }
    bind_empty(arguments, taken - runs.len(), COLUMNS)
}

/// One row of [`UPSERT`].
fn bind(row: &mut SqliteArguments, run: &Run) -> Result<(), BoxDynError> {
    let summary = run.summary();
    let nanos = |time: Option<Timestamp>| time.map(to_nanos);
    row.add(String::from(summary.run_id))?;
    row.add(run.request_id.to_string())?;
    row.add(run.request_digest.to_string())?;
    row.add(summary.status.as_str())?;
    row.add(summary.reason)?;
    row.add(to_nanos(summary.created_at))?;
    row.add(nanos(summary.started_at))?;
    row.add(nanos(summary.finished_at))?;
    row.add(String::from(summary.task_id))?;
    row.add(String::from(summary.adapter))?;
    row.add(summary.model)?;
    row.add(summary.workspace)?;
    row.add(summary.session.map(String::from))?;
    row.add(summary.cancel_requested)?;
    row.add(run.epoch)?;
    row.add(run.holder.as_ref().map(ToString::to_string))?;
    row.add(run.prepared_epoch)?;
    row.add(run.reported)?;
    row.add(run.first_sequence)?;
    row.add(run.last_sequence)?;
    row.add(run.end_sequence)?;
    row.add(summary.kept)?;
    row.add(summary.record_pruned)?;
    row.add(summary.harvest_pending)?;
    row.add(serde_json::to_string(&run.record).expect("a record has string keys and no failing type"))
}
