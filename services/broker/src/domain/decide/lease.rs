use mosaic_ids::RequestId;
use mosaic_record::RunEvent;

use super::super::{Denial, LeaseChange};
use super::{Decision, Plan};

/// Grants the run to `holder` under the next epoch. A terminal run whose work is harvested, or that has none, is returned
/// without a grant.
pub(super) fn claim(plan: Plan<'_>, holder: &RequestId, live: bool) -> Result<Decision, Denial> {
    if plan.run.record.status.is_terminal() && !plan.run.record.awaits_harvest() {
        return Ok(plan.done());
    }
    match &plan.run.holder {
        Some(other) if live && other != holder => {
            Err(Denial::Superseded { run_id: plan.run.id().clone(), holder: other.clone(), epoch: plan.run.epoch })
        }
        _ => {
            let event = RunEvent::Claimed { holder: holder.clone(), epoch: plan.run.epoch + 1 };
            Ok(plan.record(&event)?.lease(LeaseChange::Renew).done())
        }
    }
}

/// A full term from now, also for a run that is terminal: its holder has work to finish.
pub(super) fn renew(plan: Plan<'_>, epoch: i64) -> Result<Decision, Denial> {
    plan.fenced(epoch)?;
    plan.held(epoch)?;
    Ok(plan.lease(LeaseChange::Renew).done())
}

/// Gives the lease back; again is no error.
pub(super) fn release(mut plan: Plan<'_>, epoch: i64) -> Result<Decision, Denial> {
    plan.fenced(epoch)?;
    plan.save = plan.run.holder.take().is_some();
    Ok(plan.lease(LeaseChange::Drop).done())
}
