use mosaic_record::{Actor, RunEvent, RunStatus};

use super::super::{Denial, Report};
use super::{Decision, Plan};

/// Takes reports in the order of their numbers; one that was taken before is passed over.
///
/// The epoch alone fences them: the runner goes on reporting after its launcher has given the lease back. All of them are
/// taken or none.
pub(super) fn report(mut plan: Plan<'_>, epoch: i64, reports: &[Report]) -> Result<Decision, Denial> {
    plan.fenced(epoch)?;
    own_session(&plan)?;
    let first = reports.first().map_or(1, |report| report.number);
    for (report, expected) in reports.iter().zip(first..) {
        let accepted = plan.run.reported;
        if report.number != expected || report.number < 1 || report.number > accepted + 1 {
            return Err(Denial::ReportGap { run_id: plan.run.id().clone(), number: report.number, accepted });
        }
        if !report.event.is_report() {
            return Err(Denial::NotAReport { kind: report.event.kind() });
        }
        if report.number > accepted {
            // A runner's clock that is ahead dates nothing after its acceptance.
            let time = report.time.min(plan.now);
            plan = plan.record_at(time, &report.event)?;
        }
    }
    Ok(plan.done())
}

/// The runner speaks for itself or for the session of the run that it executes, and for nobody else.
fn own_session(plan: &Plan<'_>) -> Result<(), Denial> {
    match plan.actor {
        Actor::Service(name) if name.as_str() == "runner" => Ok(()),
        Actor::Session(name) if plan.run.record.session.as_ref() == Some(name) => Ok(()),
        actor => Err(Denial::NotItsSession { run_id: plan.run.id().clone(), actor: actor.clone() }),
    }
}

/// PREPARING or RUNNING to LOST, by the holder.
pub(super) fn lose(plan: Plan<'_>, epoch: i64) -> Result<Decision, Denial> {
    plan.fenced(epoch)?;
    if plan.run.record.status == RunStatus::Lost {
        return Ok(plan.done());
    }
    plan.held(epoch)?;
    Ok(plan.record(&RunEvent::Lost {})?.done())
}
