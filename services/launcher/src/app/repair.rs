use mosaic_ids::RunId;
use mosaic_proto::broker::v1::run::State;
use mosaic_rpc::RpcError;

use super::{App, projection};

/// What a repair has done.
#[derive(Debug, Clone, Default)]
pub struct Repaired {
    /// Runs whose files were looked at.
    pub checked: usize,
    /// Runs whose files were written.
    pub written: Vec<RunId>,
}

impl App {
    /// Writes the files of every terminal run that are missing, from what the broker has.
    ///
    /// # Errors
    /// What the broker answers, or `internal` when the files can't be written.
    pub async fn repair(&self) -> Result<Repaired, RpcError> {
        let terminal = [State::Succeeded, State::Failed, State::Cancelled, State::Lost, State::Refused];
        let mut repaired = Repaired::default();
        for view in self.inner.broker.list(&terminal).await? {
            if !view.is_over() {
                // Its files are written after its harvest.
                continue;
            }
            repaired.checked += 1;
            // One that is in hand is just being written, or removed.
            let Some(_ticket) = self.inner.registry.enter(&view.run_id) else { continue };
            if projection::is_incomplete(&self.inner.root, &view.run_id)
                && projection::write_run(&self.inner.broker, &self.inner.root, &view.run_id).await?
            {
                repaired.written.push(view.run_id);
            }
        }
        Ok(repaired)
    }
}
