//! The work of a run that is over: taken out of its clones and recorded, before its workspace is anybody else's.

use std::sync::Arc;

use jiff::Timestamp;
use mosaic_ids::RunId;
use mosaic_record::{Harvest, ProjectHarvest, RunRecord};
use mosaic_rpc::RpcError;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::prepare::Places;
use super::supervise::GivenUp;
use super::{App, Checkouts};
use crate::peers::persist;

impl App {
    /// Harvests a run that awaits it. Its workspace is its own, and no process of its sandbox is alive. What a launcher that is
    /// ended does not finish, the next one begins anew.
    pub(super) async fn harvest(&self, run: &RunId, epoch: i64) -> Result<(), GivenUp> {
        let (_, record, spec) = persist(|| self.inner.broker.get(run)).await?;
        if !record.awaits_harvest() {
            return Ok(());
        }
        let places = Places { run_id: run.clone(), root: self.inner.root.clone(), spec };
        let span = tracing::info_span!("harvest", otel.name = "mosaic.launcher.harvest", run.id = %run);
        self.take_out(places, record, epoch).instrument(span).await
    }

    async fn take_out(&self, places: Places, record: RunRecord, epoch: i64) -> Result<(), GivenUp> {
        // Whoever has the run no longer begins with no further clone.
        let ending = self.inner.work.hard().child_token();
        let _ends_with_this_call = ending.clone().drop_guard();
        let (checkouts, run) = (Arc::clone(&self.inner.checkouts), places.run_id.clone());
        let span = tracing::Span::current();
        let work = move || span.in_scope(|| projects(&checkouts, &places, &record, &ending));
        let taken = tokio::task::spawn_blocking(work).await.map_err(|panic| RpcError::internal(&panic))?;
        let harvest = Harvest::of(taken.ok_or(GivenUp::Ending)?);
        persist(|| self.inner.broker.record_harvest(&run, epoch, &harvest)).await?;
        tracing::info!(harvest.state = %harvest.state, "Harvested a run");
        Ok(())
    }
}

/// Takes out the work of every project; `None` when that is to end.
fn projects(
    checkouts: &Checkouts,
    places: &Places,
    record: &RunRecord,
    ending: &CancellationToken,
) -> Option<Vec<ProjectHarvest>> {
    let ended = record.finished_at.unwrap_or(Timestamp::UNIX_EPOCH);
    let take = |checkout| checkouts.harvest(places, checkout, ended, || !ending.is_cancelled());
    record.checkouts.iter().map(take).inspect(tell).collect()
}

fn tell(harvest: &Option<ProjectHarvest>) {
    let Some(ProjectHarvest { project, failure, detail, .. }) = harvest else { return };
    match failure {
        None => tracing::info!(project.id = %project, "Took the work out of a clone"),
        Some(failure) => {
            let detail = detail.as_deref().unwrap_or_default();
            tracing::warn!(project.id = %project, %failure, detail, "Could not take the work out of a clone");
        }
    }
}
