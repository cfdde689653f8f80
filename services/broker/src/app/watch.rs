//! Watching: each watcher has a cursor and reads pages from the database.
//!
//! The writer appends in the order of the sequence and tells the last committed one only after the commit, so a watcher
//! that reads everything from its cursor on, and then waits until more is committed, misses nothing and repeats nothing.
//! A slow one costs the broker one page.

use futures::StreamExt as _;
use mosaic_ids::RunId;
use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;

use super::{AppError, EventStream};
use crate::domain::{Event, RunSummary};
use crate::store::{EventPage, PageLimits, Readers};

/// What a watcher reads from.
pub(super) struct Watcher {
    readers: Readers,
    committed: Receiver<i64>,
    stopping: CancellationToken,
}

impl Watcher {
    pub(super) fn new(readers: Readers, committed: Receiver<i64>, stopping: CancellationToken) -> Self {
        Self { readers, committed, stopping }
    }

    /// Returns once an event with the sequence `next` or a later one is committed.
    async fn committed(&mut self, next: i64) -> Result<(), AppError> {
        let committed = self.stopping.run_until_cancelled(self.committed.wait_for(|&last| last >= next)).await;
        match committed {
            Some(Ok(_)) => Ok(()),
            Some(Err(_writer_ended)) => Err(AppError::Stopping),
            None => Err(AppError::Stopping),
        }
    }

    /// The next page of the whole ledger. `next` is 0 for as long as nothing was sent: then it becomes the first event from
    /// which on none was removed.
    async fn page(&self, next: &mut i64) -> Result<EventPage, AppError> {
        if *next > 0 {
            return Ok(self.readers.events(*next, PageLimits::DEFAULT).await?);
        }
        let mut snapshot = self.readers.snapshot().await?;
        *next = snapshot.first_whole().await?.unwrap_or(1);
        Ok(snapshot.events(*next, PageLimits::DEFAULT).await?)
    }

    /// What there is instead of `from`, when the next event that was found is `found`.
    async fn out_of_range(&self, from: i64, found: i64) -> Result<AppError, AppError> {
        let earliest = self.readers.snapshot().await?.first_whole().await?;
        Ok(AppError::OutOfRange { from, earliest: earliest.unwrap_or(found).max(found) })
    }

    /// A run and the next page of its events, as of one moment.
    async fn of_run(&self, run_id: &RunId, next: i64) -> Result<(RunSummary, EventPage), AppError> {
        let mut snapshot = self.readers.snapshot().await?;
        let run = snapshot.summary(run_id).await?.ok_or_else(|| AppError::not_found(run_id))?;
        Ok((run, snapshot.events_of(run_id.as_str(), next, PageLimits::DEFAULT).await?))
    }
}

/// Every event from `from` on; 0 is the first from which on none was removed.
pub(super) async fn events(mut watcher: Watcher, from: i64) -> Result<EventStream, AppError> {
    if from > 0
        && let Some(earliest) = watcher.readers.snapshot().await?.first_whole().await?
        && from < earliest
    {
        return Err(AppError::OutOfRange { from, earliest });
    }
    let stream = async_stream::try_stream! {
        let mut next = from;
        loop {
            watcher.committed(next.max(1)).await?;
            let page = watcher.page(&mut next).await?;
            for event in in_order(page) {
                let event = event?;
                if event.sequence != next {
                    // The ledger was cut past this watcher.
                    Err(watcher.out_of_range(next, event.sequence).await?)?;
                }
                next = event.sequence + 1;
                yield event;
            }
        }
    };
    Ok(stream.boxed())
}

/// The events of one run from `from` on, up to the one that made it terminal, or to its harvest: what is kept and removed of
/// it afterwards is told to nobody who watches it, however late they came.
pub(super) async fn run(mut watcher: Watcher, run_id: RunId, from: i64) -> Result<EventStream, AppError> {
    watcher.readers.summary(&run_id).await?.ok_or_else(|| AppError::not_found(&run_id))?;
    let stream = async_stream::try_stream! {
        let mut next = from;
        let mut committed = 0;
        loop {
            watcher.committed(committed + 1).await?;
            // Whatever is committed from here on wakes the next wait.
            committed = *watcher.committed.borrow();
            let (run, page) = watcher.of_run(&run_id, next).await?;
            let last = run.end_sequence.unwrap_or(run.last_sequence);
            if last < next {
                if run.end_sequence.is_some() {
                    break;
                }
                continue;
            }
            committed = 0;
            if page.first().is_none_or(|first| first.sequence > last) {
                Err(AppError::Damaged(format!("run `{run_id}` has lost events from {next} on").into()))?;
            }
            for event in in_order(page).take_while(|event| event.as_ref().map_or(true, |event| event.sequence <= last)) {
                let event = event?;
                next = event.sequence + 1;
                yield event;
            }
        }
    };
    Ok(stream.boxed())
}

fn in_order(page: EventPage) -> impl Iterator<Item = Result<Event, AppError>> {
    page.into_iter().map(|stored| stored.event.map_err(AppError::from))
}
