use mosaic_record::{Pruned, RunEvent, RunPart};

use super::super::Denial;
use super::{Decision, Plan};

/// Keeps the run or no longer, in every state; what is already so is acknowledged.
pub(super) fn keep(plan: Plan<'_>, kept: bool) -> Result<Decision, Denial> {
    if plan.run.record.kept == kept {
        return Ok(plan.done());
    }
    if plan.run.record.is_pruned(RunPart::Record) {
        return Err(Denial::NothingToKeep { run_id: plan.run.id().clone() });
    }
    Ok(plan.record(&RunEvent::Kept { kept })?.done())
}

/// Records that a part of a terminal run is removed; one that is gone already is acknowledged.
pub(super) fn prune(plan: Plan<'_>, pruned: &Pruned) -> Result<Decision, Denial> {
    if plan.run.record.is_pruned(pruned.part) {
        return Ok(plan.done());
    }
    if plan.run.record.kept {
        return Err(Denial::Kept { run_id: plan.run.id().clone() });
    }
    if plan.run.record.awaits_harvest() {
        return Err(Denial::HarvestPending { run_id: plan.run.id().clone() });
    }
    Ok(plan.record(&RunEvent::Pruned(pruned.clone()))?.done())
}
