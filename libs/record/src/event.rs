use jiff::Timestamp;
use mosaic_ids::{Digest, RequestId};

use crate::{
    Activity, Actor, Containment, EndReason, Harvest, Integration, Note, Output, ProjectCheckout, Pruned, Refusal,
    RunSpec, RunStatus,
};

/// What the ledger keeps of an event beside its payload, as far as a record needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventMeta {
    /// When it happened.
    pub time: Timestamp,
    /// Who caused it.
    pub actor: Actor,
    /// W3C trace id, 32 hex digits.
    pub trace_id: Option<String>,
}

/// What became of a step of the preparation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepState {
    /// It was taken.
    Done,
    /// What it had made was removed again.
    Undone,
}

/// What a step of the preparation adds to the record.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepFacts {
    /// Where the workspace is on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_root: Option<String>,
    /// What became of each project's clone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkouts: Vec<ProjectCheckout>,
    /// What the step has noted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// Digest of the sealed bundle's manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle_digest: Option<Digest>,
    /// True when the step made something that is to be removed when the run does not go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub made: bool,
    /// What the run waits for, for example `workspace:site`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Outcome {
    /// A terminal status.
    pub status: RunStatus,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<EndReason>,
    /// What is worth knowing and did not end it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// For people: what lies behind the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Exit status of the adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Signal that ended the adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Standard output without trailing newlines, invalid UTF-8 replaced, up to
    /// [`RESPONSE_SHOWN_BYTES`](crate::RESPONSE_SHOWN_BYTES).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// True when `response` is not all of it.
    #[serde(default)]
    pub response_truncated: bool,
    /// What was written and what was kept of it.
    pub output: Output,
    /// Time from the start of the adapter to its end by a monotonic clock, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// Everything that can happen to a run. `kind` in the payload names it; the same text is the event's kind.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
pub enum RunEvent {
    /// The run was recorded.
    #[serde(rename = "run.queued")]
    Queued {
        /// The caller's id of the request that made it.
        request_id: RequestId,
        /// What is to run.
        spec: Box<RunSpec>,
    },
    /// A launcher took the lease.
    #[serde(rename = "run.claimed")]
    Claimed {
        /// The launcher's id.
        holder: RequestId,
        /// The lease's epoch.
        epoch: i64,
    },
    /// The preparation began.
    #[serde(rename = "run.preparing")]
    Preparing {
        /// The lease's epoch.
        epoch: i64,
    },
    /// A step of the preparation was taken or undone.
    #[serde(rename = "run.step")]
    Step {
        /// The lease's epoch.
        epoch: i64,
        /// Name of the step.
        step: String,
        /// What became of it.
        state: StepState,
        /// What it adds to the record.
        facts: StepFacts,
    },
    /// The run never ran.
    #[serde(rename = "run.refused")]
    Refused {
        /// Which refusal.
        reason: Refusal,
        /// The step that did not happen.
        step: String,
        /// What, why and what to do.
        message: String,
    },
    /// Somebody asked for the end of the run.
    #[serde(rename = "run.cancel-requested")]
    CancelRequested {},
    /// The run was stopped before it ran.
    #[serde(rename = "run.cancelled")]
    Cancelled {},
    /// The adapter was started.
    #[serde(rename = "run.running")]
    Running {
        /// Name of the sandbox.
        sandbox: String,
        /// What holds it.
        containment: Containment,
    },
    /// The model produced its first output of the turn.
    #[serde(rename = "run.activity")]
    Activity(Activity),
    /// How much the adapter has written so far.
    #[serde(rename = "run.output")]
    Output(Output),
    /// The turn marker was written.
    #[serde(rename = "run.turn-done")]
    TurnDone {},
    /// A stop or a limit began to end the run.
    #[serde(rename = "run.ending")]
    Ending {
        /// Why.
        reason: EndReason,
    },
    /// The runner does not know the execution: what happened to it can't be known any more.
    #[serde(rename = "run.lost")]
    Lost {},
    /// The run is over and its sandbox is gone.
    #[serde(rename = "run.ended")]
    Ended(Box<Outcome>),
    /// The work in the clones was taken out, or could not be.
    #[serde(rename = "run.harvested")]
    Harvested {
        /// The lease's epoch.
        epoch: i64,
        /// What became of it; never pending.
        harvest: Harvest,
    },
    /// A person asked for the work, put onto a branch of the root.
    #[serde(rename = "run.integrated")]
    Integrated {
        /// What came of it.
        integration: Integration,
    },
    /// A person keeps the run, or no longer does.
    #[serde(rename = "run.kept")]
    Kept {
        /// Which of the two.
        kept: bool,
    },
    /// A part of the run is removed.
    #[serde(rename = "run.pruned")]
    Pruned(Pruned),
}

impl RunEvent {
    /// The event's kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Queued { .. } => "run.queued",
            Self::Claimed { .. } => "run.claimed",
            Self::Preparing { .. } => "run.preparing",
            Self::Step { .. } => "run.step",
            Self::Refused { .. } => "run.refused",
            Self::CancelRequested {} => "run.cancel-requested",
            Self::Cancelled {} => "run.cancelled",
            Self::Running { .. } => "run.running",
            Self::Activity(_) => "run.activity",
            Self::Output(_) => "run.output",
            Self::TurnDone {} => "run.turn-done",
            Self::Ending { .. } => "run.ending",
            Self::Lost {} => "run.lost",
            Self::Ended(_) => "run.ended",
            Self::Harvested { .. } => "run.harvested",
            Self::Integrated { .. } => "run.integrated",
            Self::Kept { .. } => "run.kept",
            Self::Pruned(_) => "run.pruned",
        }
    }

    /// True for the kinds that a runner reports; everything else is the launcher's or the broker's own.
    #[must_use]
    pub fn is_report(&self) -> bool {
        matches!(
            self,
            Self::Running { .. }
                | Self::Activity(_)
                | Self::Output(_)
                | Self::TurnDone {}
                | Self::Ending { .. }
                | Self::Ended(_)
        )
    }
}
