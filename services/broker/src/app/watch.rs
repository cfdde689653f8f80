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
use crate::domain::Event;
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

    /// Fails when `from` was cut off.
    async fn check_range(&self, from: i64) -> Result<(), AppError> {
        match self.readers.earliest().await? {
            Some(earliest) if from < earliest => Err(AppError::OutOfRange { from, earliest }),
            _ => Ok(()),
        }
    }
}

/// Every event from `from` on; 0 is the first that is there.
pub(super) async fn events(mut watcher: Watcher, from: i64) -> Result<EventStream, AppError> {
    if from > 0 {
        watcher.check_range(from).await?;
    }
    let stream = async_stream::try_stream! {
        let mut next = from;
        loop {
            watcher.committed(next.max(1)).await?;
            let page = watcher.readers.events(next, PageLimits::DEFAULT).await?;
            for event in in_order(page) {
                let event = event?;
                if next > 0 && event.sequence != next {
                    Err(AppError::OutOfRange { from: next, earliest: event.sequence })?;
                }
                next = event.sequence + 1;
                yield event;
            }
        }
    };
    Ok(stream.boxed())
}

/// The events of one run from `from` on, up to the last one of a terminal run.
pub(super) async fn run(mut watcher: Watcher, run_id: RunId, from: i64) -> Result<EventStream, AppError> {
    let summary = watcher.readers.summary(&run_id).await?.ok_or_else(|| AppError::not_found(&run_id))?;
    watcher.check_range(from.max(summary.first_sequence)).await?;
    let stream = async_stream::try_stream! {
        let mut next = from.max(summary.first_sequence);
        let mut committed = 0;
        loop {
            watcher.committed(committed + 1).await?;
            // Whatever is committed from here on wakes the next wait.
            committed = *watcher.committed.borrow();
            let now = watcher.readers.summary(&run_id).await?.ok_or_else(|| AppError::not_found(&run_id))?;
            if now.last_sequence < next {
                if now.status.is_terminal() {
                    break;
                }
                continue;
            }
            committed = 0;
            let page = watcher.readers.events_of(&run_id, next, PageLimits::DEFAULT).await?;
            if page.is_empty() {
                Err(AppError::Damaged(format!("run `{run_id}` has lost events from {next} on").into()))?;
            }
            for event in in_order(page) {
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
