use jiff::Timestamp;
use mosaic_ids::{Digest, RequestId, RunId};
use mosaic_record::{Actor, Harvest, Integration, Pruned, Refusal, RunEvent, StepFacts, StepState};

/// Something that somebody wants written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Command {
    /// Who.
    pub(crate) actor: Actor,
    /// What.
    pub(crate) order: Order,
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Order {
    /// A new run.
    Create(Box<NewRun>),
    /// A change of a run.
    Change {
        /// The run.
        run_id: RunId,
        /// The change.
        change: Change,
    },
}

/// A run that is to be recorded. Everything that takes long for a large spec is done before the writer sees it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewRun {
    /// The caller's id of the request.
    pub(crate) request_id: RequestId,
    /// `run.queued`.
    pub(crate) event: RunEvent,
    /// The event as JSON.
    pub(crate) payload: String,
    /// Digest of `payload`.
    pub(crate) digest: Digest,
    /// W3C trace id of the launch.
    pub(crate) trace_id: Option<String>,
}

/// A change of a run. What carries an epoch is fenced by it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    Claim {
        holder: RequestId,
    },
    Renew {
        epoch: i64,
    },
    Release {
        epoch: i64,
    },
    Prepare {
        epoch: i64,
    },
    Step {
        epoch: i64,
        step: String,
        state: StepState,
        facts: StepFacts,
    },
    Refuse {
        epoch: i64,
        reason: Refusal,
        step: String,
        message: String,
    },
    Cancel,
    ConfirmCancel {
        epoch: i64,
    },
    Lose {
        epoch: i64,
    },
    Report {
        epoch: i64,
        reports: Vec<Report>,
    },
    /// `bytes` is the length of its text.
    Integrated {
        integration: Integration,
        bytes: usize,
    },
    /// `bytes` is the length of its text.
    Harvested {
        epoch: i64,
        harvest: Harvest,
        bytes: usize,
    },
    Keep {
        kept: bool,
    },
    Prune(Pruned),
}

/// One thing that the runner saw.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Report {
    /// Number within the run, from 1.
    pub(crate) number: i64,
    /// When, by the runner's clock.
    pub(crate) time: Timestamp,
    /// What.
    pub(crate) event: RunEvent,
}

impl Command {
    /// Bytes of text that it carries, as far as they may be many.
    pub(crate) fn weight(&self) -> usize {
        const SMALL: usize = 4096;
        match &self.order {
            // The spec, parsed, takes about as much again as its text.
            Order::Create(new) => new.payload.len() * 2 + SMALL,
            Order::Change { change: Change::Report { reports, .. }, .. } => {
                let response = |report: &Report| match &report.event {
                    RunEvent::Ended(outcome) => outcome.response.as_ref().map_or(0, String::len),
                    _ => 0,
                };
                reports.iter().map(|report| SMALL + response(report)).sum()
            }
            Order::Change { change: Change::Harvested { bytes, .. } | Change::Integrated { bytes, .. }, .. } => {
                bytes + SMALL
            }
            Order::Change { .. } => SMALL,
        }
    }
}
