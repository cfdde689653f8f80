//! Removing without anybody asking: what an earlier launcher has begun, and what the rules say, at the start and every hour.

use std::time::Duration;

use mosaic_ids::RunId;
use mosaic_record::RunPart;
use mosaic_rpc::{Reason, RpcError};

use super::removal::{Removal, is_there};
use super::sweep::{NotRemoved, blocking};
use super::{Order, archive};
use crate::app::App;
use crate::peers::persist;

/// Time from one round to the next.
const ROUND: Duration = Duration::from_secs(3600);
/// How much longer it may take: many data roots on a machine are not to work at the same time.
const JITTER: Duration = Duration::from_secs(600);

impl App {
    /// Begins the rounds. What goes wrong in one is logged and tried again in the next.
    pub fn keep_house(&self) {
        let app = self.clone();
        self.inner.work.spawn("retention", async move { app.rounds().await });
    }

    async fn rounds(self) {
        let soft = self.inner.work.soft().clone();
        let begun = async {
            let _alone = self.inner.pruning.lock().await;
            persist(|| self.finish_removals()).await
        };
        if let Some(Err(error)) = soft.run_until_cancelled(begun).await {
            tracing::warn!(%error, "Could not finish what an earlier launcher was removing");
        }
        while self.inner.config.retention.has_rules() && !soft.is_cancelled() {
            let order = Order { dry_run: false, older_than: None, only: Vec::new(), actor: None };
            match self.prune(&order, None).await {
                Ok(sum) if sum.items + sum.failed == 0 => {}
                Ok(sum) => {
                    let (items, bytes, failed) = (sum.items, sum.freed, sum.failed);
                    tracing::info!(items, bytes, failed, "Pruned by the rules");
                }
                Err(error) => tracing::warn!(%error, "Could not prune by the rules"),
            }
            let pause = ROUND + rand::random_range(Duration::ZERO..JITTER);
            if soft.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    /// Removes what is recorded as removed and is still there.
    ///
    /// # Errors
    /// What the broker answers.
    pub(super) async fn finish_removals(&self) -> Result<(), RpcError> {
        let removal = Removal::new(&self.inner.root);
        let (noted, rest) = blocking(move || (removal.noted(), removal.rest_of_sessions())).await?;
        if let Err(error) = rest {
            tracing::warn!(%error, "Could not remove all of a session");
        }
        for (run, part) in noted {
            match self.inner.broker.get(&run).await {
                Ok((_, record, _)) if record.is_pruned(part) => self.finish(&run, part).await,
                // It was cut from the ledger, so that it was removed as a whole.
                Err(error) if error.reason == Reason::NotFound => {
                    Removal::new(&self.inner.root).forget(&run, part);
                    self.finish(&run, RunPart::Record).await;
                }
                // It was only begun. What was made for it goes, and the part stays.
                Ok((_, record, _)) => {
                    archive::remove_unrecorded(&self.inner.root.run(&run), &record);
                    Removal::new(&self.inner.root).forget(&run, part);
                }
                Err(error) => return Err(error),
            }
        }
        let mut uncut = false;
        for run in self.inner.retention.ended().await? {
            if run.record_pruned {
                uncut = true;
                if is_there(&self.inner.root.run(&run.run)) {
                    self.finish(&run.run, RunPart::Record).await;
                }
            }
        }
        if uncut {
            self.inner.retention.cut(None).await?;
        }
        Ok(())
    }

    async fn finish(&self, run: &RunId, part: RunPart) {
        // One that is in hand is being removed right now, or its files are being written; the next round looks again.
        let Some(_ticket) = self.inner.registry.enter(run) else { return };
        match self.finish_removal(run, part).await {
            Ok(()) => tracing::info!(run.id = %run, %part, "Finished a removal"),
            Err(NotRemoved::Left(why) | NotRemoved::Failed(why)) => {
                tracing::warn!(run.id = %run, %part, why, "Could not finish a removal");
            }
        }
    }
}
