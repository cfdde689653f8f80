//! What the broker decides, as pure functions: no database, no clock, no task.
//!
//! [`decide`] is given a command and what is known about its run, and returns the events to append or a [`Denial`].
//! [`Head::seal`] puts those events into the chain. [`verify`] proves both afterwards.

mod chain;
mod checkpoint;
mod command;
mod decide;
mod denial;
mod event;
mod lease;
mod run;
mod verify;

pub(crate) use chain::{Head, raw_hash};
pub(crate) use checkpoint::{CutKey, CutPlan, Recorded, RetainedWalk};
pub(crate) use command::{Change, Command, NewRun, Order, Report};
pub(crate) use decide::{Decision, RecordedStep, Situation, decide};
pub(crate) use denial::{Denial, DenialKind};
pub(crate) use event::{Draft, Event, from_nanos, is_of_run, to_nanos};
pub(crate) use lease::{LeaseChange, Leases, Staged};
pub(crate) use run::{Run, RunFilter, RunSummary, request_digest};
pub(crate) use verify::{ChainWalk, Fault, Faults, RunWalk};
