use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mosaic_ids::RunId;
use mosaic_lifecycle::Clock;
use uuid::Uuid;

use super::known::{Damage, Known};
use super::{Random, WriteError, Written};
use crate::domain::{Change, Command, Decision, Event, Head, Order, RecordedStep, Run, Situation, Staged, decide};

/// What one command of a batch is answered once the batch is committed.
pub(super) type Answer = Result<Written, WriteError>;

/// Commands of one transaction, each decided against what those before it left. Nothing of it is written yet.
pub(super) struct Batch<'a> {
    pub(super) known: Known,
    pub(super) head: Head,
    pub(super) leases: Staged<'a>,
    pub(super) clock: &'a dyn Clock,
    /// Monotonic time of the batch.
    pub(super) now: Duration,
    pub(super) random: &'a mut Random,
    pub(super) events: Vec<Event>,
    pub(super) changed: HashMap<RunId, Arc<Run>>,
}

/// What a batch comes to.
pub(super) struct Outcome {
    /// Everything that is known of its runs, once it is on disk.
    pub(super) known: Known,
    /// The end of the chain.
    pub(super) head: Head,
    /// Changes of leases.
    pub(super) leases: HashMap<RunId, Option<Duration>>,
    /// What is to be appended.
    pub(super) events: Vec<Event>,
    /// Runs that are to be written, each once.
    pub(super) runs: Vec<Arc<Run>>,
}

impl Batch<'_> {
    /// Decides a command.
    pub(super) fn command(&mut self, command: &Command) -> Answer {
        let situation = self.situation(command).map_err(WriteError::Damaged)?;
        let decision = decide(situation, command).map_err(WriteError::Denied)?;
        Ok(self.carry_out(decision, command))
    }

    /// What is to be put on disk.
    pub(super) fn outcome(self) -> Outcome {
        Outcome {
            known: self.known,
            head: self.head,
            leases: self.leases.into_changes(),
            events: self.events,
            runs: self.changed.into_values().collect(),
        }
    }

    fn situation(&mut self, command: &Command) -> Result<Situation, Damage> {
        let (run, recorded_step) = match &command.order {
            Order::Create(new) => (self.known.run_of(&new.request_id)?, None),
            Order::Change { run_id, change } => (self.known.run(run_id)?, self.known.recorded_step(run_id, change)?),
        };
        Ok(Situation {
            lease_live: run.as_ref().is_some_and(|run| self.leases.is_live(run.id(), self.now)),
            run,
            recorded_step,
            next_sequence: self.head.sequence + 1,
            now: self.clock.now(),
            random: (self.random)(),
        })
    }

    fn carry_out(&mut self, decision: Decision, command: &Command) -> Written {
        let Decision { run, drafts, save, lease, sequence } = decision;
        let run = Arc::new(run);
        let changed = !drafts.is_empty();
        for draft in drafts {
            let id = event_id(self.clock, self.random);
            self.events.push(self.head.seal(id, draft));
        }
        if changed || save {
            self.known.changed(&run);
            self.changed.insert(run.id().clone(), Arc::clone(&run));
        }
        if let (true, Order::Change { change: Change::Step { epoch, step, state, .. }, .. }) = (changed, &command.order)
        {
            let step = RecordedStep { epoch: *epoch, step: step.clone(), state: *state, sequence };
            self.known.stepped(run.id(), step);
        }
        self.leases.change(run.id(), lease, self.now);
        Written { run, changed, sequence }
    }
}

/// Id of a new event.
pub(super) fn event_id(clock: &dyn Clock, random: &mut Random) -> Uuid {
    let millis = u64::try_from(clock.now().as_millisecond()).unwrap_or(0);
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&random().to_be_bytes());
    bytes[8..].copy_from_slice(&random().to_be_bytes()[..2]);
    uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
}
