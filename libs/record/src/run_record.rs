use std::collections::BTreeMap;

use jiff::Timestamp;
use mosaic_ids::{Digest, Name, RunId};

use crate::{
    ActivitySource, Actor, Backend, CheckoutVerdict, Distrusted, Enforcement, EventMeta, Harvest, HarvestState,
    Integration, KeptReason, Limits, Note, RunEvent, RunPart, RunSpec, RunStatus, StepState, Tool, Work, Workspace,
    WorkspaceMode,
};

/// Most integrations of one run: a record stays small.
const INTEGRATIONS: usize = 1000;

/// The first thing that the model produced.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Activity {
    /// When.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Timestamp,
    /// Time since the adapter was started, in milliseconds.
    pub latency_ms: u64,
    /// Who saw it.
    pub source: ActivitySource,
}

/// What the adapter wrote and what was kept of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Output {
    /// Bytes written to standard output.
    pub stdout_bytes: u64,
    /// Bytes written to standard error.
    pub stderr_bytes: u64,
    /// Bytes that were not kept: the middle of a stream beyond the limit.
    pub dropped: u64,
    /// Digest of everything that was written to standard output; known at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_digest: Option<Digest>,
    /// Digest of everything that was written to standard error; known at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_digest: Option<Digest>,
}

/// What held the run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Containment {
    /// What the sandbox was made of.
    pub backend: Backend,
    /// Uid that the adapter ran under.
    pub uid: u32,
    /// True when the file system was the sandbox's own.
    pub own_root: bool,
    /// True when there was no network.
    pub no_network: bool,
    /// True when a system call filter was in force.
    pub syscall_filter: bool,
    /// What enforced each limit, by its key.
    pub limits: BTreeMap<String, Enforcement>,
}

/// Where the files of a workspace went before it was removed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Archive {
    /// File below the run's directory.
    pub name: String,
    /// Digest of it.
    pub digest: Digest,
    /// Its size.
    pub size_bytes: u64,
}

/// A part of a run that was removed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pruned {
    /// Which.
    pub part: RunPart,
    /// Bytes on disk that it took.
    pub freed_bytes: u64,
    /// Where its files are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<Archive>,
}

/// What became of a project's clone before the run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProjectCheckout {
    /// The project.
    pub project: Name,
    /// What became of it.
    pub verdict: CheckoutVerdict,
    /// Why it was left as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<KeptReason>,
    /// What that was seen at, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Branch of the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Commit that the clone was at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Commit that the root is at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tip: Option<String>,
    /// Identity of the tree that the run began with: the id of its tree object, without ignored files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// What was not trusted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distrusted: Vec<Distrusted>,
}

/// The record of one run: `result.json`.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunRecord {
    /// Id of the run.
    pub run_id: RunId,
    /// Where it is in its life.
    pub status: RunStatus,
    /// Why it did not succeed: a refusal or an end reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What is worth knowing and did not end it.
    pub notes: Vec<Note>,
    /// For people.
    pub warnings: Vec<String>,
    /// The step that a refusal stopped, or the last one that was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Id of the task file.
    pub task_id: Name,
    /// Id of the mission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mission_id: Option<Name>,
    /// Who asked for it.
    pub requested_by: Actor,
    /// The request, verbatim.
    pub request: String,
    /// The response: standard output without trailing newlines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// True when `response` is not all of it.
    pub response_truncated: bool,
    /// The answer that alone counts as success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_exact: Option<String>,
    /// The run that this one retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retried_from: Option<RunId>,
    /// Where the adapter worked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    /// The conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Name>,
    /// Effective tools.
    pub tools: Vec<Tool>,
    /// The adapter.
    pub adapter: Name,
    /// The provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Name>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// True for the adapters that are for tests and demonstrations.
    pub synthetic: bool,
    /// What the sandbox was to be made of.
    pub backend: Backend,
    /// Whether a sandbox was to hold the run.
    pub workspace_mode: WorkspaceMode,
    /// True when adapter, shell tools and file tools all acted on one sandboxed tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containment: Option<bool>,
    /// True when the configuration allowed tools of one run to act on different trees.
    pub mixed_wiring_allowed: bool,
    /// What held the run, in detail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Containment>,
    /// Where the workspace is on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_root: Option<String>,
    /// Exit status of the adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Signal that ended the adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// When it was recorded.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: Timestamp,
    /// When the adapter was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub started_at: Option<Timestamp>,
    /// When it became terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub finished_at: Option<Timestamp>,
    /// Time from the start of the adapter to its end by a monotonic clock, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The first thing that the model produced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
    /// W3C trace id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Digest of the sealed bundle's manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle_digest: Option<Digest>,
    /// The limits it was under.
    pub limits: Limits,
    /// What became of each project's clone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkouts: Vec<ProjectCheckout>,
    /// The work that was taken out of them; absent when there is none to take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harvest: Option<Harvest>,
    /// How often that work was put onto a branch, and what came of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub integrations: Vec<Integration>,
    /// What was written and what was kept of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// True once somebody has asked for its end.
    #[serde(default)]
    pub cancel_requested: bool,
    /// True while a person keeps it: nothing of it is pruned.
    #[serde(default)]
    pub kept: bool,
    /// What was removed of it, in that order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pruned: Vec<Pruned>,
}

/// An event that the run's state does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{kind}` is not allowed for a run that is {status}")]
pub struct IllegalEvent {
    /// Kind of the event.
    pub kind: &'static str,
    /// Status of the run; `new` before its first event.
    pub status: String,
}

impl RunRecord {
    /// The record after `event`, given the record before it (`None` for the first event).
    ///
    /// # Errors
    /// When the state that the run is in does not allow the event; the caller's record is unchanged then.
    pub fn fold(
        before: Option<Self>,
        run_id: &RunId,
        meta: &EventMeta,
        event: &RunEvent,
    ) -> Result<Self, IllegalEvent> {
        match (before, event) {
            (None, RunEvent::Queued { spec, .. }) => Ok(Self::queued(run_id.clone(), meta, spec)),
            (None, _) => Err(IllegalEvent { kind: event.kind(), status: "new".to_owned() }),
            (Some(record), _) if !record.allows(event) => {
                Err(IllegalEvent { kind: event.kind(), status: record.status.to_string() })
            }
            (Some(mut record), _) => {
                record.apply(meta, event);
                Ok(record)
            }
        }
    }

    fn queued(run_id: RunId, meta: &EventMeta, spec: &RunSpec) -> Self {
        let spec = spec.clone();
        Self {
            run_id,
            status: RunStatus::Queued,
            reason: None,
            notes: spec.notes,
            warnings: spec.warnings,
            step: None,
            task_id: spec.task_id,
            mission_id: spec.mission_id,
            requested_by: meta.actor.clone(),
            request: spec.request,
            response: None,
            response_truncated: false,
            expected_exact: spec.expect_exact,
            retried_from: spec.retried_from,
            workspace: spec.workspace,
            session: spec.session,
            tools: spec.tools,
            adapter: spec.adapter,
            provider: spec.provider,
            model: spec.model,
            synthetic: spec.synthetic,
            backend: spec.backend,
            workspace_mode: WorkspaceMode::of(spec.backend),
            containment: None,
            mixed_wiring_allowed: false,
            sandbox: None,
            workspace_root: None,
            exit_code: None,
            signal: None,
            created_at: meta.time,
            started_at: None,
            finished_at: None,
            duration_ms: None,
            activity: None,
            trace_id: meta.trace_id.clone(),
            bundle_digest: None,
            limits: spec.limits,
            checkouts: Vec::new(),
            harvest: None,
            integrations: Vec::new(),
            output: None,
            cancel_requested: false,
            kept: false,
            pruned: Vec::new(),
        }
    }

    /// The state machine: which events each state takes.
    fn allows(&self, event: &RunEvent) -> bool {
        use RunStatus::{Preparing, Queued, Running};
        match event {
            RunEvent::Queued { .. } => false,
            RunEvent::Claimed { .. } => !self.status.is_terminal() || self.awaits_harvest(),
            RunEvent::CancelRequested {} => !self.status.is_terminal(),
            RunEvent::Preparing { .. } => self.status == Queued,
            RunEvent::Step { .. } | RunEvent::Refused { .. } | RunEvent::Cancelled {} => {
                matches!(self.status, Queued | Preparing)
            }
            RunEvent::Running { .. } => self.status == Preparing,
            RunEvent::Activity(_) | RunEvent::Output(_) | RunEvent::TurnDone {} | RunEvent::Ending { .. } => {
                self.status == Running
            }
            RunEvent::Lost {} => matches!(self.status, Preparing | Running),
            RunEvent::Ended(outcome) => matches!(self.status, Preparing | Running) && outcome.status.is_terminal(),
            RunEvent::Harvested { harvest, .. } => self.awaits_harvest() && harvest.state != HarvestState::Pending,
            RunEvent::Integrated { integration } => {
                self.integrations.len() < INTEGRATIONS
                    && !self.is_pruned(RunPart::Record)
                    && self.work(&integration.project).is_some()
            }
            RunEvent::Kept { .. } => !self.is_pruned(RunPart::Record),
            RunEvent::Pruned(pruned) => {
                self.status.is_terminal() && !self.awaits_harvest() && !self.kept && !self.is_pruned(pruned.part)
            }
        }
    }

    fn apply(&mut self, meta: &EventMeta, event: &RunEvent) {
        match event {
            RunEvent::Queued { .. } | RunEvent::Claimed { .. } | RunEvent::TurnDone {} | RunEvent::Ending { .. } => {}
            RunEvent::Preparing { .. } => self.status = RunStatus::Preparing,
            RunEvent::Step { step, state, facts, .. } => {
                if *state == StepState::Done {
                    self.step = Some(step.clone());
                }
                if let Some(root) = &facts.workspace_root {
                    self.workspace_root = Some(root.clone());
                }
                if !facts.checkouts.is_empty() {
                    self.checkouts.clone_from(&facts.checkouts);
                }
                self.notes.extend(facts.notes.iter().copied());
                if let Some(digest) = &facts.bundle_digest {
                    self.bundle_digest = Some(digest.clone());
                }
            }
            RunEvent::Refused { reason, step, message } => {
                self.finish(RunStatus::Refused, meta.time);
                self.reason = Some(reason.to_string());
                self.step = Some(step.clone());
                self.warnings.push(message.clone());
            }
            RunEvent::CancelRequested {} => self.cancel_requested = true,
            RunEvent::Cancelled {} => {
                self.finish(RunStatus::Cancelled, meta.time);
                self.reason = Some(crate::EndReason::Cancelled.to_string());
            }
            RunEvent::Running { containment, .. } => {
                self.status = RunStatus::Running;
                self.started_at = Some(meta.time);
                self.containment = Some(containment.own_root);
                self.sandbox = Some(containment.clone());
            }
            RunEvent::Activity(activity) => self.activity = Some(activity.clone()),
            RunEvent::Output(output) => self.output = Some(output.clone()),
            RunEvent::Lost {} => {
                self.finish(RunStatus::Lost, meta.time);
                self.expect_harvest();
                self.reason = Some(crate::EndReason::RunnerLost.to_string());
            }
            RunEvent::Ended(outcome) => {
                self.finish(outcome.status, meta.time);
                self.expect_harvest();
                self.reason = outcome.reason.map(|reason| reason.to_string());
                self.notes.extend(outcome.notes.iter().copied());
                self.warnings.extend(outcome.warnings.iter().cloned());
                self.exit_code = outcome.exit_code;
                self.signal = outcome.signal;
                self.response.clone_from(&outcome.response);
                self.response_truncated = outcome.response_truncated;
                self.output = Some(outcome.output.clone());
                self.duration_ms = outcome.duration_ms;
            }
            RunEvent::Harvested { harvest, .. } => self.harvest = Some(harvest.clone()),
            RunEvent::Integrated { integration } => self.integrations.push(integration.clone()),
            RunEvent::Kept { kept } => self.kept = *kept,
            RunEvent::Pruned(pruned) => self.pruned.push(pruned.clone()),
        }
    }

    /// True when `part` is gone, alone or with the whole record.
    #[must_use]
    pub fn is_pruned(&self, part: RunPart) -> bool {
        self.pruned.iter().any(|pruned| pruned.part == part || pruned.part == RunPart::Record)
    }

    /// True while the run is over and the work in its clones is still to be taken out.
    #[must_use]
    pub fn awaits_harvest(&self) -> bool {
        self.harvest.as_ref().is_some_and(|harvest| harvest.state == HarvestState::Pending)
    }

    /// The work in one project, when it was taken out.
    #[must_use]
    pub fn work(&self, project: &Name) -> Option<&Work> {
        self.harvest.as_ref()?.projects.iter().find(|harvest| harvest.project == *project)?.work.as_ref()
    }

    /// What ran may have worked in its clones.
    fn expect_harvest(&mut self) {
        if !self.checkouts.is_empty() {
            self.harvest = Some(Harvest::pending());
        }
    }

    fn finish(&mut self, status: RunStatus, time: Timestamp) {
        self.status = status;
        self.finished_at = Some(time);
    }
}

#[cfg(test)]
mod tests;
