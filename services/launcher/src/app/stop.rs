use std::time::Duration;

use mosaic_ids::RunId;
use mosaic_record::Actor;
use mosaic_rpc::RpcError;

use super::App;
use super::projection;

/// How often the broker is asked about a run that another host has in hand.
const POLL: Duration = Duration::from_millis(200);

impl App {
    /// Asks for the end of a run; says whether it was over already.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    pub async fn stop(&self, run: &RunId, actor: &Actor) -> Result<bool, RpcError> {
        let before = self.inner.broker.get(run).await?.0;
        if before.status.is_terminal() {
            return Ok(true);
        }
        let after = self.inner.broker.cancel(run, actor).await?;
        if !self.inner.registry.stop(run) {
            // In nobody's hand: whoever takes it sees the wish, or the record that is to be written.
            self.take_in_hand(&after.run_id, None);
        }
        Ok(false)
    }

    /// Waits until a run is terminal, its files are written, and what it had for itself is free.
    ///
    /// # Errors
    /// What the broker answers.
    pub async fn wait(&self, run: &RunId) -> Result<(), RpcError> {
        loop {
            self.inner.registry.wait(run).await;
            let (view, ..) = self.inner.broker.get(run).await?;
            if view.status.is_terminal() {
                if projection::is_incomplete(&self.inner.root, run) {
                    projection::write_run(&self.inner.broker, &self.inner.root, run).await?;
                }
                return Ok(());
            }
            // Somebody waits for it: an earlier host has left it in the queue.
            self.take_in_hand(run, None);
            tokio::time::sleep(POLL).await;
        }
    }
}
