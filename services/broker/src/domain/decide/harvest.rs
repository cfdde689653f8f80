use mosaic_record::{Harvest, Integration, RunEvent};

use super::super::Denial;
use super::{Decision, Plan};

/// Records what became of the work in the clones, by the holder; the same again is acknowledged.
pub(super) fn harvested(plan: Plan<'_>, epoch: i64, harvest: &Harvest) -> Result<Decision, Denial> {
    plan.fenced(epoch)?;
    // A run that is harvested gets no new epoch, so this one harvested it.
    if plan.run.record.harvest.as_ref() == Some(harvest) && !plan.run.record.awaits_harvest() {
        return Ok(plan.done());
    }
    plan.held(epoch)?;
    let expected = plan.run.record.checkouts.iter().map(|checkout| &checkout.project);
    if plan.run.record.awaits_harvest() && !expected.eq(harvest.projects.iter().map(|project| &project.project)) {
        return Err(Denial::OtherProjects { run_id: plan.run.id().clone() });
    }
    Ok(plan.record(&RunEvent::Harvested { epoch, harvest: harvest.clone() })?.done())
}

/// Records that work was put onto a branch; what is equal to the last one is acknowledged.
pub(super) fn integrated(plan: Plan<'_>, integration: &Integration) -> Result<Decision, Denial> {
    if plan.run.record.integrations.last() == Some(integration) {
        return Ok(plan.done());
    }
    Ok(plan.record(&RunEvent::Integrated { integration: integration.clone() })?.done())
}
