use mosaic_ids::{Name, RunId};
use mosaic_record::{Actor, Archive, Refusal, RunPart};
use mosaic_rpc::{Reason, RpcError};
use tokio::sync::mpsc;

use super::archive::{Bounds, archive};
use super::removal::Removal;
use super::{Fate, Order, Pruned, Sum, Told, policy};
use crate::app::locks::Claim;
use crate::app::{App, projection};
use crate::domain::disk::reserve;
use crate::domain::retention::{Planned, What};

/// Who holds a session while it is removed. No run has this id: those of runs have a time in them.
const HOLDER: &str = "r-prune";

impl App {
    /// Prunes in a task of its own, which tells `listener` what it does.
    pub fn spawn_prune(&self, order: Order, listener: mpsc::Sender<Told>) {
        let app = self.clone();
        self.inner.work.spawn("prune", async move {
            let told = app.prune(&order, Some(&listener)).await.map_or_else(Told::Error, Told::Sum);
            let _gone_away = listener.send(told).await;
        });
    }

    /// Removes what the rules say, one after another, and tells `listener` of each; ends early when that is gone, or the
    /// launcher ends. One at a time: a second one waits for the first.
    ///
    /// # Errors
    /// `invalid-request` when there is no rule to go by; what the broker answers.
    pub async fn prune(&self, order: &Order, listener: Option<&mpsc::Sender<Told>>) -> Result<Sum, RpcError> {
        let policy = policy(&self.inner.config.retention, order);
        if !policy.has_rules() {
            let message = "no retention rule is configured for what is asked for\n\
                           hint: add one to `retention` in the configuration, or name an age with `--older-than`";
            return Err(RpcError::invalid(message));
        }
        let _alone = self.inner.pruning.lock().await;
        if !order.dry_run {
            self.finish_removals().await?;
        }
        let (mut sum, mut records) = (Sum::default(), false);
        for planned in self.plan(&policy).await? {
            if self.inner.work.soft().is_cancelled() {
                break;
            }
            let fate = if order.dry_run { Fate::WouldGo } else { self.remove(&planned, order.actor.as_ref()).await };
            records |= matches!((&planned.what, &fate), (What::Record(_), Fate::Gone { .. }));
            sum.count(&planned, &fate);
            if let Some(listener) = listener
                && listener.send(Told::Item(Pruned { planned, fate })).await.is_err()
            {
                break;
            }
        }
        if records {
            let cut = self.inner.retention.cut(order.actor.as_ref()).await?;
            (sum.cut_events, sum.cut_runs) = (cut.events, cut.runs);
        }
        Ok(sum)
    }

    async fn remove(&self, planned: &Planned, actor: Option<&Actor>) -> Fate {
        let removed = match &planned.what {
            What::Output(run) => self.remove_of_run(run, RunPart::Output, planned.bytes, actor).await,
            What::Record(run) => self.remove_of_run(run, RunPart::Record, planned.bytes, actor).await,
            What::Workspace(run) => self.remove_of_run(run, RunPart::Workspace, planned.bytes, actor).await,
            What::Session(name) => self.remove_session(name, planned.bytes, actor).await,
        };
        match removed {
            Ok(archive) => {
                tracing::info!(what = ?planned.what, why = %planned.why, bytes = planned.bytes, "Pruned");
                Fate::Gone { archive }
            }
            Err(NotRemoved::Left(why)) => Fate::Left(why),
            Err(NotRemoved::Failed(why)) => {
                tracing::warn!(what = ?planned.what, why, "Could not prune");
                Fate::Failed(why)
            }
        }
    }

    /// Removes a part of a run: archived, then recorded, then gone.
    async fn remove_of_run(
        &self,
        run: &RunId,
        part: RunPart,
        bytes: u64,
        actor: Option<&Actor>,
    ) -> Result<Option<Archive>, NotRemoved> {
        let Some(_ticket) = self.inner.registry.enter(run) else {
            return Err(NotRemoved::Left("it is being worked on".to_owned()));
        };
        // What was planned from may have changed meanwhile.
        let (_, record, _) = self.inner.broker.get(run).await?;
        if record.kept {
            return Err(NotRemoved::Left("it is kept by hand".to_owned()));
        }
        if record.awaits_harvest() {
            return Err(NotRemoved::Left("the work in its clones is not harvested yet".to_owned()));
        }
        let mut kept_in = None;
        if !record.is_pruned(part) {
            let removal = Removal::new(&self.inner.root);
            blocking({
                let (removal, run) = (removal.clone(), run.clone());
                move || removal.note(&run, part)
            })
            .await?;
            if part == RunPart::Workspace {
                kept_in = self.archive(run).await.inspect_err(|_| removal.forget(run, part))?;
            }
            let recorded = self.inner.retention.prune_run(run, part, bytes, kept_in.as_ref(), actor).await;
            if let Err(error) = recorded {
                // Only an answer says that nothing was recorded; without one, the next look at the note finds out.
                if !matches!(error.reason, Reason::Unavailable | Reason::Internal) {
                    removal.forget(run, part);
                }
                return Err(error.into());
            }
        }
        self.finish_removal(run, part).await?;
        Ok(kept_in)
    }

    /// Removes the files of a part of a run whose removal is recorded, and shows that in the files that stay.
    pub(super) async fn finish_removal(&self, run: &RunId, part: RunPart) -> Result<(), NotRemoved> {
        let (removal, of) = (Removal::new(&self.inner.root), run.clone());
        blocking(move || removal.of_run(&of, part))
            .await?
            .map_err(|error| NotRemoved::Failed(format!("its removal is recorded, but something is left: {error}")))?;
        if part != RunPart::Record
            && let Err(error) = projection::write_run(&self.inner.broker, &self.inner.root, run).await
        {
            tracing::warn!(run.id = %run, %error, "Could not write the files of a run anew");
        }
        Ok(())
    }

    /// Archives what is in the workspace of a run; `None` when nothing is.
    async fn archive(&self, run: &RunId) -> Result<Option<Archive>, NotRemoved> {
        let (directory, workspace) = (self.inner.root.run(run), self.inner.root.run_workspace(run));
        let mark = self.inner.config.retention.disk_low_bytes;
        let bounds = Bounds { reserve: reserve(mark), stop: self.inner.work.soft().clone() };
        let archived = blocking(move || {
            let empty = std::fs::read_dir(&workspace).is_ok_and(|mut entries| entries.next().is_none());
            if empty { Ok(None) } else { archive(&directory, &workspace, &bounds).map(Some) }
        });
        archived.await?.map_err(|error| NotRemoved::Failed(format!("it can't be archived, so it stays: {error}")))
    }

    /// Removes a session that nobody uses, held meanwhile as a run would hold it.
    async fn remove_session(
        &self,
        name: &Name,
        bytes: u64,
        actor: Option<&Actor>,
    ) -> Result<Option<Archive>, NotRemoved> {
        let holder: RunId = HOLDER.parse().expect("an id");
        let held = self.inner.locks.try_take(&holder, &[Claim::Session(name.clone())]);
        let _held = held.map_err(|busy| NotRemoved::Left(busy.to_string()))?;
        self.inner.retention.prune_session(name, bytes, actor).await?;
        let (removal, of) = (Removal::new(&self.inner.root), name.clone());
        blocking(move || removal.of_session(&of)).await?.map_err(|error| NotRemoved::Failed(error.to_string()))?;
        Ok(None)
    }
}

/// Why something was not removed.
#[derive(Debug)]
pub(super) enum NotRemoved {
    /// It is not to go.
    Left(String),
    /// It could not go.
    Failed(String),
}

impl From<RpcError> for NotRemoved {
    fn from(error: RpcError) -> Self {
        match error.reason {
            Reason::Refusal(Refusal::NotPermitted | Refusal::SessionLive | Refusal::InvalidRequest) => {
                Self::Left(error.message)
            }
            Reason::NotFound => Self::Left("the ledger does not have it any more".to_owned()),
            _ => Self::Failed(error.message),
        }
    }
}

impl Sum {
    fn count(&mut self, planned: &Planned, fate: &Fate) {
        match fate {
            Fate::WouldGo => {
                self.items += 1;
                self.freed = self.freed.saturating_add(planned.bytes);
            }
            Fate::Gone { archive } => {
                self.items += 1;
                self.freed = self.freed.saturating_add(planned.bytes);
                self.archived = self.archived.saturating_add(archive.as_ref().map_or(0, |archive| archive.size_bytes));
            }
            Fate::Left(_) => self.left += 1,
            Fate::Failed(_) => self.failed += 1,
        }
    }
}

/// Does what blocks on the file system where no other call waits for it.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, RpcError> {
    tokio::task::spawn_blocking(work).await.map_err(|panic| RpcError::internal(&panic))
}
