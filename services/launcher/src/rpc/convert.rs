//! The seam between protobuf and the launcher: validated on the way in, infallible on the way out.

mod retention;

use std::time::Duration;

pub(super) use retention::{prune_order, prune_progress};

use mosaic_ids::{Name, RequestId, RunId};
use mosaic_proto::launcher::v1 as pb;
use mosaic_record::Document;
use mosaic_rpc::RpcError;

use crate::app::{Launched, Part, Repaired, Stopping, Validated};
use crate::domain::admission::{Overrides, Wish};

/// How long AwaitRun waits when the caller does not say.
const DEFAULT_WAIT: Duration = Duration::from_secs(60);
/// How long AwaitRun waits at most.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

pub(super) fn run_id(text: &str) -> Result<RunId, RpcError> {
    text.parse().map_err(|error: mosaic_ids::InvalidRunId| RpcError::invalid(format!("run_id: {error}")))
}

/// The project that is named; none for the only one.
pub(super) fn project(text: &str) -> Result<Option<Name>, RpcError> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error: mosaic_ids::InvalidName| RpcError::invalid(format!("project: {error}")))
}

pub(super) fn harvest_part(part: pb::HarvestPart) -> Result<Part, RpcError> {
    match part {
        pb::HarvestPart::Unspecified => Err(RpcError::invalid("part: which file is to be sent")),
        pb::HarvestPart::Patch => Ok(Part::Patch),
        pb::HarvestPart::Bundle => Ok(Part::Bundle),
        pb::HarvestPart::Handoff => Ok(Part::Handoff),
    }
}

pub(super) fn wait_limit(timeout: Option<prost_types::Duration>) -> Result<Duration, RpcError> {
    let Some(timeout) = timeout else { return Ok(DEFAULT_WAIT) };
    let limit: Result<Duration, _> = timeout.try_into();
    match limit {
        Ok(limit) if limit <= LONGEST_WAIT => Ok(limit),
        _ => Err(RpcError::invalid(format!("timeout: write 0 to {} seconds", LONGEST_WAIT.as_secs()))),
    }
}

pub(super) fn wish(
    task: Option<pb::Document>,
    mission: Option<pb::Document>,
    overrides: Option<pb::Overrides>,
    no_wait: bool,
) -> Result<Wish, RpcError> {
    let task = task.ok_or_else(|| RpcError::invalid("task: send the task file"))?;
    let overrides = self::overrides(overrides)?;
    Ok(Wish { task: document(task), mission: mission.map(document), overrides, no_wait, projects: None })
}

pub(super) fn request_id(text: &str) -> Result<RequestId, RpcError> {
    text.parse().map_err(|_bad: mosaic_ids::InvalidName| {
        RpcError::invalid("request_id: write 1 to 128 bytes of printable ASCII without space")
    })
}

pub(super) fn overrides(overrides: Option<pb::Overrides>) -> Result<Overrides, RpcError> {
    let overrides = overrides.unwrap_or_default();
    let adapter = overrides.adapter.map(|name| name.parse()).transpose();
    let adapter = adapter.map_err(|error: mosaic_ids::InvalidName| RpcError::invalid(format!("adapter: {error}")))?;
    Ok(Overrides { adapter, model: overrides.model, mock_response: overrides.mock_response })
}

fn document(document: pb::Document) -> Document {
    Document { name: document.name, content: document.content }
}

impl From<Launched> for pb::LaunchResponse {
    fn from(launched: Launched) -> Self {
        Self { run_id: launched.run_id.into(), created: launched.created }
    }
}

impl From<Launched> for pb::RetryResponse {
    fn from(launched: Launched) -> Self {
        Self { run_id: launched.run_id.into(), created: launched.created }
    }
}

impl From<Stopping> for pb::StopResponse {
    fn from(stopping: Stopping) -> Self {
        Self { already_terminal: stopping == Stopping::AlreadyOver, unrecorded: stopping == Stopping::Unrecorded }
    }
}

impl From<Repaired> for pb::RepairRunsResponse {
    fn from(repaired: Repaired) -> Self {
        let repaired_run_ids = repaired.written.into_iter().map(Into::into).collect();
        Self { checked: i64::try_from(repaired.checked).unwrap_or(i64::MAX), repaired_run_ids }
    }
}

impl From<Validated> for pb::ValidateResponse {
    fn from(validated: Validated) -> Self {
        let spec = validated.spec;
        Self {
            task_id: spec.task_id.into(),
            mission_id: spec.mission_id.map(Into::into).unwrap_or_default(),
            tools: spec.tools.iter().map(ToString::to_string).collect(),
            adapter: spec.adapter.into(),
            provider: spec.provider.map(Into::into).unwrap_or_default(),
            model: spec.model.unwrap_or_default(),
            backend: spec.backend.to_string(),
            notes: spec.notes.iter().map(ToString::to_string).collect(),
            warnings: spec.warnings,
        }
    }
}
