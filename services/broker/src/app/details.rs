use mosaic_ids::RunId;
use mosaic_record::RunRecord;
use serde_json::value::RawValue;

use super::{AppError, off_the_workers};
use crate::domain::{Run, RunSummary};
use crate::store::Readers;

/// A run with everything.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunDetails {
    /// What lists show of it.
    pub(crate) summary: RunSummary,
    /// The record as JSON.
    pub(crate) record: String,
    /// The spec as JSON.
    pub(crate) spec: String,
}

/// The payload of `run.queued`, as far as it is needed.
#[derive(serde::Deserialize)]
struct Queued<'a> {
    #[serde(borrow)]
    spec: &'a RawValue,
}

/// What a stored record leaves out, because the spec has it.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeftOut {
    request: String,
    expect_exact: Option<String>,
}

pub(super) async fn read(readers: &Readers, run_id: &RunId) -> Result<RunDetails, AppError> {
    let mut snapshot = readers.snapshot().await?;
    let run = snapshot.run(run_id).await?.ok_or_else(|| AppError::not_found(run_id))?;
    let queued = snapshot.payload(run.first_sequence).await?;
    drop(snapshot);
    let queued = queued.ok_or_else(|| AppError::Damaged(format!("run `{run_id}` has lost its first event").into()))?;
    off_the_workers(move || complete(run, &queued)).await
}

fn complete(run: Run, queued: &str) -> Result<RunDetails, AppError> {
    let damaged = |error: serde_json::Error| AppError::Damaged(error.into());
    let Queued { spec } = serde_json::from_str(queued).map_err(damaged)?;
    let LeftOut { request, expect_exact } = serde_json::from_str(spec.get()).map_err(damaged)?;
    let summary = run.summary();
    let record = RunRecord { request, expected_exact: expect_exact, ..run.record };
    let record = serde_json::to_string(&record).expect("a record has string keys and no failing type");
    Ok(RunDetails { summary, record, spec: spec.get().to_owned() })
}
