//! Removing runs from the ledger: planned and proven on what readers see, so that the writer is held only to delete.

use std::collections::HashSet;

use mosaic_ids::{Name, RunId};
use mosaic_record::Actor;

use super::{AppError, Broker};
use crate::domain::{CutPlan, Recorded, RetainedWalk, is_of_run};
use crate::store::{RunToCut, Snapshot};

/// Most runs of one transaction.
const RUNS: i64 = 2048;

/// Events of one transaction, beyond its first run.
const EVENTS: i64 = 4096;

/// Events on a page.
const PAGE: i64 = 4096;

/// What a cut came to, or would come to.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    /// The checkpoint in force; none in a ledger that was never cut.
    pub(crate) checkpoint: Option<Recorded>,
    /// Events that went.
    pub(crate) events: i64,
    /// Runs that went.
    pub(crate) runs: i64,
}

impl Broker {
    /// Records that a named session is removed.
    ///
    /// # Errors
    /// When a run that is not terminal uses it.
    pub(crate) async fn prune_session(&self, actor: Actor, session: Name, freed_bytes: u64) -> Result<(), AppError> {
        Ok(self.writer.prune_session(actor, session, freed_bytes).await?)
    }

    /// What [`cut`](Self::cut) would remove.
    ///
    /// # Errors
    /// When the ledger can't be read.
    pub(crate) async fn would_cut(&self) -> Result<Cut, AppError> {
        let mut snapshot = self.readers.snapshot().await?;
        let checkpoint = newest(&mut snapshot).await?;
        let (runs, events) = snapshot.size_of_cut().await?;
        Ok(Cut { checkpoint, events: if runs > 0 { events } else { 0 }, runs })
    }

    /// Removes every run whose record is pruned, some at a time, so that others write in between; each time leaves a
    /// checkpoint that all the rest is proven from. Then gives the space back.
    ///
    /// # Errors
    /// When the ledger is not intact: what would prove the fault might go. When it can't be read or written.
    pub(crate) async fn cut(&self, actor: Actor) -> Result<Cut, AppError> {
        let cut = async {
            let _turn = self.cutting.lock().await;
            let mut done = Cut { events: 0, ..self.would_cut().await? };
            if std::mem::take(&mut done.runs) > 0 {
                self.cut_all(actor, &mut done).await?;
            }
            self.shrink().await?;
            Ok(done)
        };
        self.stopping.run_until_cancelled(cut).await.ok_or(AppError::Stopping)?
    }

    /// Gives back what is unused, as far as that leads anywhere.
    async fn shrink(&self) -> Result<(), AppError> {
        let mut unused = i64::MAX;
        loop {
            let left = self.writer.shrink().await?;
            if left == 0 || left >= unused {
                return Ok(());
            }
            unused = left;
        }
    }

    async fn cut_all(&self, actor: Actor, done: &mut Cut) -> Result<(), AppError> {
        if !self.verify().await?.faults.is_empty() {
            return Err(AppError::NotIntact);
        }
        while let Some(plan) = plan(&mut self.readers.snapshot().await?).await? {
            let (events, runs) = (plan.events, i64::try_from(plan.runs.len()).unwrap_or(i64::MAX));
            let recorded = self.writer.cut(actor.clone(), plan, self.key.clone()).await?;
            let sequence = recorded.checkpoint.sequence;
            tracing::info!(cut.events = events, cut.runs = runs, cut.sequence = sequence, "Cut the ledger");
            done.checkpoint = Some(recorded);
            done.events += events;
            done.runs += runs;
        }
        Ok(())
    }
}

async fn newest(snapshot: &mut Snapshot) -> Result<Option<Recorded>, AppError> {
    let newest = snapshot.newest_checkpoint().await?.map(|stored| stored.event).transpose()?;
    newest.map(|event| Recorded::of(&event)).transpose().map_err(|forged| AppError::Damaged(forged.into()))
}

/// The next cut; none when nothing may go.
async fn plan(snapshot: &mut Snapshot) -> Result<Option<CutPlan>, AppError> {
    let previous = newest(snapshot).await?;
    let runs = some_of(snapshot.runs_to_cut(RUNS).await?);
    let Some(last) = runs.last() else { return Ok(None) };
    let sequence = last.last_sequence;
    let going: HashSet<&str> = runs.iter().map(|run| run.run_id.as_str()).collect();
    let mut retained = RetainedWalk::default();
    let (mut after, mut events, mut hash) = (0, 0, None);
    while after < sequence {
        let page = snapshot.lines(after, sequence, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.sequence;
        hash = Some(last.hash()?);
        for line in &page {
            if is_of_run(&line.subject) && !going.contains(line.subject.as_str()) {
                retained.event(line.sequence, &line.hash()?);
            } else {
                events += 1;
            }
        }
        tokio::task::yield_now().await;
    }
    let lost = || AppError::Damaged(format!("event {sequence} is missing").into());
    let hash = hash.filter(|_| after == sequence).ok_or_else(lost)?;
    let run_id = |run: &RunToCut| run.run_id.parse::<RunId>().map_err(|error| AppError::Damaged(error.into()));
    let before = previous.as_ref().map(|recorded| &recorded.checkpoint);
    Ok(Some(CutPlan {
        runs: runs.iter().map(run_id).collect::<Result<_, _>>()?,
        sequence,
        hash,
        retained: retained.finish(),
        events,
        events_before: before.map_or(0, |checkpoint| checkpoint.removed_events),
        runs_before: before.map_or(0, |checkpoint| checkpoint.removed_runs),
        previous: previous.map(|recorded| recorded.hash),
    }))
}

/// As many of the first runs as go at once; at least one.
fn some_of(mut runs: Vec<RunToCut>) -> Vec<RunToCut> {
    let mut events = 0;
    let fits = |run: &RunToCut| {
        let first = events == 0;
        events += run.events;
        first || events <= EVENTS
    };
    let some = runs.iter().map(fits).take_while(|&fits| fits).count();
    runs.truncate(some);
    runs
}
