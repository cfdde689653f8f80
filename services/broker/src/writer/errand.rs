//! What the writer does now and then, each in a transaction of its own, between two batches.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mosaic_ids::Name;
use mosaic_record::{Actor, LedgerEvent};
use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::{Task, WriteError, Writer, batch, opened};
use crate::domain::{CutKey, CutPlan, Denial, Draft, Recorded, from_nanos, to_nanos};
use crate::store::StoreError;

/// Unused pages that are given back at once: others write again after a few milliseconds.
const PAGES: u32 = 256;

/// An errand, and who waits for its end.
#[derive(Debug)]
pub(super) enum Errand {
    PruneSession { actor: Actor, session: Name, freed_bytes: u64, answer: Answer<()> },
    Cut { actor: Actor, plan: Box<CutPlan>, key: Arc<CutKey>, answer: Answer<Recorded> },
    Shrink { answer: Answer<i64> },
}

type Answer<T> = oneshot::Sender<Result<T, WriteError>>;

impl Writer {
    /// Records that a session is removed.
    ///
    /// # Errors
    /// When a run that is not terminal uses it, or see [`WriteError`].
    pub(crate) async fn prune_session(&self, actor: Actor, session: Name, freed_bytes: u64) -> Result<(), WriteError> {
        self.send(|answer| Errand::PruneSession { actor, session, freed_bytes, answer }).await
    }

    /// Cuts the ledger as planned, and records the checkpoint that `key` signs.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(crate) async fn cut(&self, actor: Actor, plan: CutPlan, key: Arc<CutKey>) -> Result<Recorded, WriteError> {
        self.send(|answer| Errand::Cut { actor, plan: Box::new(plan), key, answer }).await
    }

    /// Gives some of the space that nothing uses any more back to the file system. Returns how many pages are left.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(crate) async fn shrink(&self) -> Result<i64, WriteError> {
        self.send(|answer| Errand::Shrink { answer }).await
    }

    async fn send<T>(&self, errand: impl FnOnce(Answer<T>) -> Errand) -> Result<T, WriteError> {
        let (answer, answered) = oneshot::channel();
        self.errands.send(errand(answer)).await.map_err(|_ended| WriteError::Unavailable)?;
        answered.await.map_err(|_dropped| WriteError::Unavailable)?
    }
}

impl Task {
    /// Runs an errand to its end, also when nobody waits for it any more.
    pub(super) async fn run_errand(&mut self, errand: Errand) {
        match errand {
            Errand::PruneSession { actor, session, freed_bytes, answer } => {
                let written = self.prune_session(actor, session, freed_bytes).await;
                let _gone = answer.send(self.told(written).and_then(|decided| decided.map_err(WriteError::Denied)));
            }
            Errand::Cut { actor, plan, key, answer } => {
                let span = tracing::info_span!("mosaic.broker.cut", cut.events = plan.events);
                let cut = self.cut(actor, &plan, &key).instrument(span).await;
                let _gone = answer.send(self.told(cut));
            }
            Errand::Shrink { answer } => {
                let shrunk = self.shrink().await;
                let _gone = answer.send(self.told(shrunk));
            }
        }
    }

    async fn prune_session(
        &mut self,
        actor: Actor,
        session: Name,
        freed_bytes: u64,
    ) -> Result<Result<(), Denial>, StoreError> {
        let connection = opened(&self.world.store, &mut self.connection, &mut self.head).await?;
        let mut transaction = connection.begin().await?;
        if let Some(run_id) = transaction.live_run_of(&session).await? {
            return Ok(Err(Denial::SessionLive { session, run_id }));
        }
        let event = LedgerEvent::SessionPruned { session, freed_bytes };
        let mut head = self.head.clone();
        let now = from_nanos(to_nanos(self.world.clock.now()));
        let id = batch::event_id(self.world.clock.as_ref(), &mut self.world.random);
        transaction.append(vec![head.seal(id, Draft::of_ledger(now, actor, &event))]).await?;
        transaction.commit().await?;
        self.head = head;
        self.announce();
        Ok(Ok(()))
    }

    async fn cut(&mut self, actor: Actor, plan: &CutPlan, key: &CutKey) -> Result<Recorded, StoreError> {
        let connection = opened(&self.world.store, &mut self.connection, &mut self.head).await?;
        let mut head = self.head.clone();
        let time = from_nanos(to_nanos(self.world.clock.now()));
        let checkpoint = key.sign(plan, time);
        let draft = Draft::of_ledger(time, actor, &LedgerEvent::Checkpoint(checkpoint.clone()));
        let id = batch::event_id(self.world.clock.as_ref(), &mut self.world.random);
        let mut transaction = connection.begin().await?;
        transaction.cut(plan).await?;
        transaction.append(vec![head.seal(id, draft)]).await?;
        transaction.commit().await?;
        let recorded = Recorded { checkpoint, time, sequence: head.sequence, hash: head.hash.clone() };
        self.head = head;
        self.announce();
        self.keep_wal_bounded().await;
        Ok(recorded)
    }

    async fn shrink(&mut self) -> Result<i64, StoreError> {
        let connection = opened(&self.world.store, &mut self.connection, &mut self.head).await?;
        let left = connection.shrink(PAGES).await?;
        if left == 0 {
            connection.empty_wal().await?;
        }
        Ok(left)
    }

    /// What was written is on disk, whatever becomes of this.
    async fn keep_wal_bounded(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        if let Err(error) = connection.keep_wal_bounded().await {
            tracing::warn!(error = &error as &dyn std::error::Error, "Could not empty the write-ahead log");
        }
    }

    /// An event is on disk.
    fn announce(&self) {
        self.counts.commits.fetch_add(1, Ordering::Relaxed);
        self.counts.events.fetch_add(1, Ordering::Relaxed);
        self.committed.send_replace(self.head.sequence);
    }

    /// What callers are told of an errand. After a failure the database is opened anew.
    fn told<T>(&mut self, result: Result<T, StoreError>) -> Result<T, WriteError> {
        result.map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "Could not write to the ledger");
            self.connection = None;
            self.kept.forget();
            if error.is_damage() { WriteError::Damaged(Arc::new(error)) } else { WriteError::Unavailable }
        })
    }
}
