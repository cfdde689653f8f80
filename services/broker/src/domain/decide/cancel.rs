use mosaic_record::{RunEvent, RunStatus};

use super::super::Denial;
use super::{Decision, Plan};

/// Records the wish; a run that nobody works on ends at once. The first wish counts.
pub(super) fn cancel(mut plan: Plan<'_>, live: bool) -> Result<Decision, Denial> {
    if plan.run.record.status.is_terminal() {
        return Ok(plan.done());
    }
    if !plan.run.record.cancel_requested {
        plan = plan.record(&RunEvent::CancelRequested {})?;
    }
    if plan.run.record.status == RunStatus::Queued && !live {
        plan = plan.record(&RunEvent::Cancelled {})?;
    }
    Ok(plan.done())
}

/// QUEUED or PREPARING to CANCELLED, by the holder, after somebody has asked for it.
pub(super) fn confirm(plan: Plan<'_>, epoch: i64) -> Result<Decision, Denial> {
    plan.fenced(epoch)?;
    if plan.run.record.status == RunStatus::Cancelled {
        return Ok(plan.done());
    }
    plan.held(epoch)?;
    if !plan.run.record.cancel_requested {
        return Err(Denial::NotAsked { run_id: plan.run.id().clone() });
    }
    Ok(plan.record(&RunEvent::Cancelled {})?.done())
}
