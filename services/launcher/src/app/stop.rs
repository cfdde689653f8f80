use std::time::Duration;

use mosaic_ids::RunId;
use mosaic_record::Actor;
use mosaic_rpc::{Reason, RpcError};

use super::{App, projection};
use crate::peers::persist;

/// How often the broker is asked about a run that another host has in hand.
const POLL: Duration = Duration::from_millis(200);

/// How long a stop waits for the broker, and then for the runner.
const BROKER_PATIENCE: Duration = Duration::from_secs(1);

/// What became of a wish that a run should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopping {
    /// The run was over before.
    AlreadyOver,
    /// The wish is recorded, and the run ends.
    Recorded,
    /// The run ends; the wish is recorded once the broker answers again.
    Unrecorded,
}

impl App {
    /// Asks for the end of a run. A broker that does not answer is in nobody's way: what runs here ends, and the wish is
    /// recorded once the broker is back.
    ///
    /// # Errors
    /// What the broker answers; `unavailable` when it does not, and nothing is known of the run here.
    pub async fn stop(&self, run: &RunId, actor: &Actor) -> Result<Stopping, RpcError> {
        match tokio::time::timeout(BROKER_PATIENCE, self.stop_recorded(run, actor)).await {
            Ok(Err(error)) if error.reason == Reason::Unavailable => {}
            Ok(answer) => return answer,
            Err(_elapsed) => {}
        }
        let known = tokio::time::timeout(BROKER_PATIENCE, self.inner.runner.stop(run)).await;
        if !self.inner.registry.has(run) && !matches!(known, Ok(Ok(true))) {
            let message = format!("the broker does not answer, and nothing is known of `{run}` without it; try again");
            return Err(RpcError::unavailable(message).with("run_id", run));
        }
        // On disk before it is acknowledged.
        self.inner.marks.stop(run, actor);
        self.inner.registry.stop(run);
        self.record_wish(run, actor.clone());
        Ok(Stopping::Unrecorded)
    }

    async fn stop_recorded(&self, run: &RunId, actor: &Actor) -> Result<Stopping, RpcError> {
        if self.inner.broker.get(run).await?.0.status.is_terminal() {
            return Ok(Stopping::AlreadyOver);
        }
        if !self.inner.registry.has(run) {
            self.inner.marks.put(run);
        }
        self.inner.broker.cancel(run, actor).await?;
        if !self.inner.registry.stop(run) {
            // In nobody's hand: whoever takes it sees the wish, or the record that is to be written.
            self.take_in_hand(run, None);
        }
        Ok(Stopping::Recorded)
    }

    /// Records a wish as soon as the broker takes it.
    pub(super) fn record_wish(&self, run: &RunId, actor: Actor) {
        let (app, run) = (self.clone(), run.clone());
        self.inner.work.spawn("wish", async move {
            if let Err(error) = persist(|| app.inner.broker.cancel(&run, &actor)).await {
                return tracing::warn!(run.id = %run, %error, "Could not record that somebody wants a run to end");
            }
            // One that was in hand is seen through by whoever has it.
            app.take_in_hand(&run, None);
        });
    }

    /// Takes a run in hand that an earlier host has left in the queue, or has not harvested: somebody waits for it.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    pub async fn claim_left(&self, run: &RunId) -> Result<(), RpcError> {
        if !self.inner.registry.has(run) && !self.inner.broker.get(run).await?.0.is_over() {
            self.take_in_hand(run, None);
        }
        Ok(())
    }

    /// Waits until a run is terminal and harvested, its files are written, and what it had for itself is free.
    ///
    /// # Errors
    /// What the broker answers.
    pub async fn wait(&self, run: &RunId) -> Result<(), RpcError> {
        loop {
            self.inner.registry.wait(run).await;
            let (view, ..) = persist(|| self.inner.broker.get(run)).await?;
            if view.is_over() {
                // Whoever has it in hand meanwhile writes its files, or removes them.
                let Some(_ticket) = self.inner.registry.enter(run) else { continue };
                if projection::is_incomplete(&self.inner.root, run) {
                    projection::write_run(&self.inner.broker, &self.inner.root, run).await?;
                }
                return Ok(());
            }
            // Somebody waits for it: an earlier host has left it in the queue, or has not harvested it.
            self.take_in_hand(run, None);
            tokio::time::sleep(POLL).await;
        }
    }
}
