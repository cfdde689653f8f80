//! One decision a command: what to append, or why not.

mod cancel;
mod create;
mod harvest;
mod lease;
mod prepare;
mod report;
mod retention;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use mosaic_record::{Actor, EventMeta, RunEvent, StepState};

use super::{Change, Command, Denial, Draft, LeaseChange, Order, Run};

/// What is known when a command is decided.
#[derive(Debug)]
pub(crate) struct Situation {
    /// The run: for a creation the one that the same request made before.
    pub(crate) run: Option<Run>,
    /// True while the lease has not expired; of meaning only for a run that has a holder.
    pub(crate) lease_live: bool,
    /// For a step: sequence of the event that recorded the same one before.
    pub(crate) recorded_step: Option<i64>,
    /// Sequence of the next event of the ledger.
    pub(crate) next_sequence: i64,
    /// The broker's wall clock.
    pub(crate) now: Timestamp,
    /// Makes the id of a new run unique.
    pub(crate) random: u64,
}

/// A step that is in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedStep {
    pub(crate) epoch: i64,
    pub(crate) step: String,
    pub(crate) state: StepState,
    /// Sequence of its event.
    pub(crate) sequence: i64,
}

impl RecordedStep {
    /// True when `change` is this step.
    pub(crate) fn is(&self, change: &Change) -> bool {
        match change {
            Change::Step { epoch, step, state, .. } => (*epoch, step, *state) == (self.epoch, &self.step, self.state),
            _ => false,
        }
    }
}

/// What a command leads to. Without drafts and `save` nothing is written.
#[derive(Debug, PartialEq)]
pub(crate) struct Decision {
    /// The run afterwards.
    pub(crate) run: Run,
    /// What to append.
    pub(crate) drafts: Vec<Draft>,
    /// True when the run changed without an event.
    pub(crate) save: bool,
    /// What becomes of the lease.
    pub(crate) lease: LeaseChange,
    /// Sequence of the event that carried the command out, now or when it was given before.
    pub(crate) sequence: i64,
}

/// Decides `command` in `situation`.
///
/// # Errors
/// A denial, when nothing is to be written and nothing was.
pub(crate) fn decide(situation: Situation, command: &Command) -> Result<Decision, Denial> {
    let actor = &command.actor;
    let (run_id, change) = match &command.order {
        Order::Create(new) => return create::create(situation, actor, new),
        Order::Change { run_id, change } => (run_id, change),
    };
    let Situation { run, lease_live, recorded_step, next_sequence, now, random: _ } = situation;
    let run = run.ok_or_else(|| Denial::NotFound { run_id: run_id.clone() })?;
    let live = lease_live && run.holder.is_some();
    let plan = Plan::new(run, actor, now, next_sequence);
    match change {
        Change::Claim { holder } => lease::claim(plan, holder, live),
        Change::Renew { epoch } => lease::renew(plan, *epoch),
        Change::Release { epoch } => lease::release(plan, *epoch),
        Change::Prepare { epoch } => prepare::prepare(plan, *epoch),
        Change::Step { epoch, step, state, facts } => {
            let event = RunEvent::Step { epoch: *epoch, step: step.clone(), state: *state, facts: facts.clone() };
            prepare::step(plan, *epoch, &event, recorded_step)
        }
        Change::Refuse { epoch, reason, step, message } => {
            let event = RunEvent::Refused { reason: *reason, step: step.clone(), message: message.clone() };
            prepare::refuse(plan, *epoch, &event)
        }
        Change::Cancel => cancel::cancel(plan, live),
        Change::ConfirmCancel { epoch } => cancel::confirm(plan, *epoch),
        Change::Lose { epoch } => report::lose(plan, *epoch),
        Change::Report { epoch, reports } => report::report(plan, *epoch, reports),
        Change::Integrated { integration, .. } => harvest::integrated(plan, integration),
        Change::Harvested { epoch, harvest, .. } => harvest::harvested(plan, *epoch, harvest),
        Change::Keep { kept } => retention::keep(plan, *kept),
        Change::Prune(pruned) => retention::prune(plan, pruned),
    }
}

/// A decision in the making: events are folded into the run as they are recorded.
struct Plan<'a> {
    run: Run,
    actor: &'a Actor,
    now: Timestamp,
    next_sequence: i64,
    drafts: Vec<Draft>,
    lease: LeaseChange,
    save: bool,
}

impl<'a> Plan<'a> {
    fn new(run: Run, actor: &'a Actor, now: Timestamp, next_sequence: i64) -> Self {
        Self { run, actor, now, next_sequence, drafts: Vec::new(), lease: LeaseChange::Keep, save: false }
    }

    /// Records `event` as of now.
    fn record(self, event: &RunEvent) -> Result<Self, Denial> {
        let now = self.now;
        self.record_at(now, event)
    }

    /// Records `event` as of `time`, if the state of the run allows it. A clock that was set back, the broker's or a
    /// runner's, dates nothing before the start of the run: no time that it took is negative.
    fn record_at(mut self, time: Timestamp, event: &RunEvent) -> Result<Self, Denial> {
        let run_id = self.run.id().clone();
        let earliest = self.run.record.started_at.unwrap_or(self.run.record.created_at);
        let time = super::from_nanos(super::to_nanos(time)).max(earliest);
        let meta = EventMeta { time, actor: self.actor.clone(), trace_id: self.run.record.trace_id.clone() };
        let sequence = self.next_sequence;
        self.run = self
            .run
            .then(&meta, event, sequence)
            .map_err(|source| Denial::Illegal { run_id: run_id.clone(), source })?;
        self.drafts.push(Draft {
            time: meta.time,
            kind: event.kind(),
            actor: meta.actor,
            subject: run_id.into(),
            payload: serde_json::to_string(event).expect("an event has string keys and no failing type"),
            trace_id: meta.trace_id,
        });
        self.next_sequence += 1;
        Ok(self)
    }

    /// The writer works under the epoch in force.
    fn fenced(&self, epoch: i64) -> Result<(), Denial> {
        let in_force = self.run.epoch;
        let run_id = || self.run.id().clone();
        if epoch == in_force && epoch > 0 {
            Ok(())
        } else {
            Err(Denial::StaleEpoch { run_id: run_id(), epoch, in_force })
        }
    }

    /// The writer has not given its lease back.
    ///
    /// An expired lease that nobody has claimed is still its holder's: nothing can have happened meanwhile.
    fn held(&self, epoch: i64) -> Result<(), Denial> {
        if self.run.holder.is_some() { Ok(()) } else { Err(Denial::Released { run_id: self.run.id().clone(), epoch }) }
    }

    fn lease(mut self, lease: LeaseChange) -> Self {
        self.lease = lease;
        self
    }

    fn done(self) -> Decision {
        let sequence = self.run.last_sequence;
        Decision { run: self.run, drafts: self.drafts, save: self.save, lease: self.lease, sequence }
    }
}
