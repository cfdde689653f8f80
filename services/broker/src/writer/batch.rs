use std::collections::HashMap;
use std::time::Duration;

use mosaic_ids::RunId;
use mosaic_lifecycle::Clock;
use uuid::Uuid;

use super::{Random, WriteError, Written};
use crate::domain::{Change, Command, Decision, Head, Order, Run, Situation, Staged, decide};
use crate::store::{StoreError, WriteBatch};

/// What one command of a batch is answered once the batch is committed.
pub(super) type Answer = Result<Written, WriteError>;

/// Commands of one transaction, each decided against what those before it left.
pub(super) struct Batch<'a> {
    pub(super) store: WriteBatch<'a>,
    pub(super) head: Head,
    pub(super) leases: Staged<'a>,
    pub(super) clock: &'a dyn Clock,
    /// Monotonic time of the batch.
    pub(super) now: Duration,
    pub(super) random: &'a mut Random,
}

impl Batch<'_> {
    /// Decides a command and writes what follows from it.
    ///
    /// # Errors
    /// When the database fails, and with it the whole batch. Everything that concerns this command alone is its answer.
    pub(super) async fn command(&mut self, command: &Command) -> Result<Answer, StoreError> {
        let situation = match self.situation(command).await {
            Ok(situation) => situation,
            Err(damage) if damage.is_damage() => return Ok(Err(WriteError::Damaged(damage))),
            Err(failure) => return Err(failure),
        };
        match decide(situation, command) {
            Err(denial) => Ok(Err(WriteError::Denied(denial))),
            Ok(decision) => self.write(decision).await.map(Ok),
        }
    }

    /// Puts the batch on disk. Returns what is to be kept in memory from now on.
    pub(super) async fn commit(self) -> Result<(Head, HashMap<RunId, Option<Duration>>), StoreError> {
        self.store.commit().await?;
        Ok((self.head, self.leases.into_changes()))
    }

    async fn situation(&mut self, command: &Command) -> Result<Situation, StoreError> {
        let run = match &command.order {
            Order::Create(new) => self.store.find_by_request(&new.request_id).await?,
            Order::Change { run_id, .. } => self.store.find(run_id).await?,
        };
        let lease_live = run.as_ref().is_some_and(|run: &Run| self.leases.is_live(run.id(), self.now));
        let recorded_step = match &command.order {
            Order::Change { run_id, change: Change::Step { epoch, step, state, .. } } => {
                self.store.recorded_step(run_id, (*epoch, step, *state)).await?
            }
            _ => None,
        };
        Ok(Situation {
            run,
            lease_live,
            recorded_step,
            next_sequence: self.head.sequence + 1,
            now: self.clock.now(),
            random: (self.random)(),
        })
    }

    async fn write(&mut self, decision: Decision) -> Result<Written, StoreError> {
        let Decision { run, drafts, save, lease, sequence } = decision;
        let changed = !drafts.is_empty();
        for draft in drafts {
            let id = self.event_id();
            let event = self.head.seal(id, draft);
            self.store.append(&event).await?;
        }
        if changed || save {
            self.store.save(&run).await?;
        }
        self.leases.change(run.id(), lease, self.now);
        Ok(Written { run, changed, sequence })
    }

    fn event_id(&mut self) -> Uuid {
        let millis = u64::try_from(self.clock.now().as_millisecond()).unwrap_or(0);
        let mut random = [0; 10];
        random[..8].copy_from_slice(&(self.random)().to_be_bytes());
        random[8..].copy_from_slice(&(self.random)().to_be_bytes()[..2]);
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }
}
