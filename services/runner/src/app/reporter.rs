use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument as _;

use super::{App, Execution};
use crate::broker::{BATCH, ReportError};
use crate::store::Entry;

/// How long the first pause after a failed delivery is, and how long a pause gets.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long an execution whose lease is over may wait for its adoption: a launcher that takes over has claimed the run, and
/// so made the lower epoch stale, before it says so here with its StartRun. That takes it one call to the broker, and one
/// to this runner; ten seconds are ample for both on a busy host, and short enough for a run that nobody adopts.
const ADOPTION_LIMIT: Duration = Duration::from_secs(10);

/// Failed deliveries after which the log says so, once an outage.
const LOGGED_AFTER: u32 = 5;

impl App {
    /// Delivers the reports of an execution, in order, until the last one is accepted or the lease is over.
    pub(super) fn spawn_reporter(&self, execution: Arc<Execution>) {
        let app = self.clone();
        let span = tracing::info_span!("report", otel.name = "mosaic.runner.report", run.id = %execution.run);
        let delivery = async move {
            let leaving = app.leaving.clone();
            let _left_on_disk = leaving.run_until_cancelled(app.deliver(&execution)).await;
        };
        self.reporters.spawn(delivery.instrument(span));
    }

    /// Puts a live execution under a higher epoch. Reports that wait go out under that.
    pub(super) fn adopt(&self, execution: &Arc<Execution>, epoch: i64) {
        execution.update(|status| status.epoch = status.epoch.max(epoch));
        self.remember_epoch(execution);
    }

    async fn deliver(&self, execution: &Arc<Execution>) {
        let mut spooled = execution.spooled();
        let mut accepted = 0;
        let mut failures = 0_u32;
        loop {
            spooled.wait_for(|last| *last > accepted).await.expect("the execution holds the sender");
            let entries = execution.with_spool(|spool| spool.after(accepted, BATCH).to_vec()).unwrap_or_default();
            let epoch = execution.status().epoch;
            match self.parts.broker.report(&execution.run, epoch, &entries).await {
                Ok(number) => {
                    failures = 0;
                    accepted = accepted.max(number);
                    if is_last(&entries, accepted) {
                        return self.settle(execution, true).await;
                    }
                }
                Err(ReportError::Stale) if is_adopted(execution, epoch).await => {}
                Err(error @ ReportError::Unavailable(_)) => {
                    failures += 1;
                    if failures == LOGGED_AFTER {
                        tracing::warn!(run.id = %execution.run, %error, "Reports wait for the broker");
                    }
                    tokio::time::sleep(pause(failures)).await;
                }
                Err(error) => {
                    tracing::warn!(run.id = %execution.run, run.epoch = epoch, %error, "Ending an execution");
                    execution.revoke();
                    return self.settle(execution, false).await;
                }
            }
        }
    }

    /// Nothing more will be delivered: what is on disk of the execution is removed once its sandbox is gone. One whose
    /// lease is over is forgotten, so that its new holder learns that nobody can tell how it ended.
    async fn settle(&self, execution: &Arc<Execution>, reported: bool) {
        execution.ended().await;
        if reported {
            execution.update(|status| status.reported = true);
        }
        let directory = self.parts.root.execution(&execution.run);
        let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(directory)).await;
        if let Ok(Err(error)) = removed
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(run.id = %execution.run, %error, "Could not remove what was kept of an execution");
        }
        if reported {
            self.registry.settle(&execution.run);
        } else {
            self.registry.forget(execution);
        }
    }
}

/// True when the execution works under a higher epoch than `epoch`, now or soon.
async fn is_adopted(execution: &Execution, epoch: i64) -> bool {
    tokio::time::timeout(ADOPTION_LIMIT, execution.adopted_above(epoch)).await.is_ok()
}

/// True when the terminal report is among `entries` and was accepted.
fn is_last(entries: &[Entry], accepted: i64) -> bool {
    entries
        .last()
        .is_some_and(|entry| entry.number <= accepted && matches!(entry.event, mosaic_record::RunEvent::Ended(_)))
}

/// How long to wait after `failures` failures in a row.
fn pause(failures: u32) -> Duration {
    backoff(FIRST_PAUSE, LONGEST_PAUSE, failures)
}

/// The pause after `failures` failures in a row: `first`, then twice as long each time, at most `longest`.
pub(super) fn backoff(first: Duration, longest: Duration, failures: u32) -> Duration {
    first.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound() {
        let pauses: Vec<u128> = [1, 2, 3, 8, 1000].map(|failures| pause(failures).as_millis()).to_vec();
        assert_eq!(pauses, [50, 100, 200, 5000, 5000]);
    }
}
