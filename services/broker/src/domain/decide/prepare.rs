use mosaic_record::{RunEvent, RunStatus};

use super::super::Denial;
use super::{Decision, Plan};

/// QUEUED to PREPARING. A preparation that another epoch began can't be continued, only undone and refused.
pub(super) fn prepare(plan: Plan<'_>, epoch: i64) -> Result<Decision, Denial> {
    plan.fenced(epoch)?;
    plan.held(epoch)?;
    match plan.run.prepared_epoch {
        Some(prepared) if plan.run.record.status == RunStatus::Preparing && prepared == epoch => Ok(plan.done()),
        Some(prepared) if plan.run.record.status == RunStatus::Preparing => {
            Err(Denial::PreparedBefore { run_id: plan.run.id().clone(), prepared, epoch })
        }
        _ => Ok(plan.record(&RunEvent::Preparing { epoch })?.done()),
    }
}

/// One step, taken or undone; the same one again is acknowledged with its sequence.
pub(super) fn step(plan: Plan<'_>, epoch: i64, event: &RunEvent, recorded: Option<i64>) -> Result<Decision, Denial> {
    plan.fenced(epoch)?;
    if let Some(sequence) = recorded {
        return Ok(Decision { sequence, ..plan.done() });
    }
    plan.held(epoch)?;
    Ok(plan.record(event)?.done())
}

/// QUEUED or PREPARING to REFUSED; the first refusal counts.
pub(super) fn refuse(plan: Plan<'_>, epoch: i64, event: &RunEvent) -> Result<Decision, Denial> {
    plan.fenced(epoch)?;
    // A terminal run gets no new epoch, so this one refused it.
    if plan.run.record.status == RunStatus::Refused {
        return Ok(plan.done());
    }
    plan.held(epoch)?;
    Ok(plan.record(event)?.done())
}
