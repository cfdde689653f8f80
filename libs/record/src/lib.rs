//! The run record: its closed lists, its events and how it is folded from them.
//!
//! Invariants:
//! - A record is a pure function of the run's events ([`RunRecord::fold`]); whatever is stored beside the events is a
//!   projection and can be rebuilt.
//! - Every list that people and programs branch on is closed and lives here once ([`Refusal`], [`EndReason`], [`Note`],
//!   [`RunStatus`], [`Tool`], [`Backend`]); kebab-case for people and JSON, UPPER_SNAKE on the wire, both derived from one
//!   spelling.

mod actor;
mod closed_list;
mod event;
mod handoff;
mod harvest;
mod ledger_event;
mod limits;
mod lists;
mod run_record;
mod spec;

pub use actor::{Actor, InvalidActor};
pub use closed_list::UnknownValue;
pub use event::{EventMeta, Outcome, RunEvent, StepFacts, StepState};
pub use handoff::{FileChange, Flagged, Handoff, LeftOutEntry, Tip};
pub use harvest::{CheckResult, Distrusted, Harvest, HarvestFile, Integration, LeftOut, ProjectHarvest, Work};
pub use ledger_event::{AnyEvent, Checkpoint, LedgerEvent};
pub use limits::{LIMITS, Limit, Limits, OverCap};
pub use lists::{
    ActivitySource, Backend, CheckoutVerdict, Distrust, EndReason, Enforcement, Environment, HarvestFailure,
    HarvestState, KeptReason, LeftOutReason, Note, Refusal, ReviewFlag, RunPart, RunStatus, Tool, WorkspaceMode,
};
pub use run_record::{Activity, Archive, Containment, IllegalEvent, Output, ProjectCheckout, Pruned, RunRecord};
pub use spec::{CheckSpec, Document, Project, RunSpec, Workspace};

/// Longest response that a record shows, in bytes; all of it is in `stdout.txt`.
pub const RESPONSE_SHOWN_BYTES: usize = 1024 * 1024;
