//! Events in words.

use mosaic_lifecycle::human_bytes;
use mosaic_record::{
    CheckResult, Distrusted, Harvest, Integration, LeftOut, Output, ProjectCheckout, ProjectHarvest, RunEvent,
    StepState, Work,
};

use super::text::harmless;

/// One line for an event.
#[must_use]
pub(crate) fn describe(event: &RunEvent) -> String {
    match event {
        RunEvent::Queued { spec, .. } => format!("queued: task {} for adapter {}", spec.task_id, spec.adapter),
        RunEvent::Claimed { epoch, .. } => format!("claimed, epoch {epoch}"),
        RunEvent::Preparing { .. } => "preparing".to_owned(),
        RunEvent::Step { step, state, facts, .. } => match (&facts.waits_for, state) {
            (Some(what), _) => format!("waiting for {}", harmless(what)),
            (None, StepState::Done) => {
                let checkouts = facts.checkouts.iter().map(|found| format!("\n  {}", checkout(found)));
                format!("prepared {step}{}", checkouts.collect::<String>())
            }
            (None, StepState::Undone) => format!("undid {step}"),
        },
        RunEvent::Refused { reason, step, message } => format!("refused at {step}: {reason}: {}", harmless(message)),
        RunEvent::CancelRequested {} => "stop requested".to_owned(),
        RunEvent::Cancelled {} => "cancelled before it ran".to_owned(),
        RunEvent::Running { sandbox, containment } => format!("running in {} ({sandbox})", containment.backend),
        RunEvent::Activity(activity) => {
            format!("first output of the model after {} ms, seen by {}", activity.latency_ms, activity.source)
        }
        RunEvent::Output(output) => format!("output so far: {}", amounts(output)),
        RunEvent::TurnDone {} => "turn done".to_owned(),
        RunEvent::Ending { reason } => format!("ending: {reason}"),
        RunEvent::Lost {} => "lost: nobody knows what happened to it".to_owned(),
        RunEvent::Ended(outcome) => match outcome.reason {
            Some(reason) => format!("{}: {reason}; output: {}", outcome.status, amounts(&outcome.output)),
            None => format!("{}; output: {}", outcome.status, amounts(&outcome.output)),
        },
        RunEvent::Harvested { harvest: found, .. } => format!("harvest {}", harvest(found)),
        RunEvent::Integrated { integration: found } => format!("applied: {}", integration(found)),
        RunEvent::Kept { kept: true } => "kept: nothing of it is pruned".to_owned(),
        RunEvent::Kept { kept: false } => "no longer kept".to_owned(),
        RunEvent::Pruned(pruned) => format!("pruned: {}, {}", pruned.part, human_bytes(pruned.freed_bytes)),
    }
}

/// A line for what became of a clone, and one for each thing in it that was not trusted.
#[must_use]
pub(crate) fn checkout(found: &ProjectCheckout) -> String {
    let ProjectCheckout { project, verdict, reason, detail, branch, tip, distrusted: suspect, .. } = found;
    let mut text = format!("{project}: {verdict}");
    match (reason, branch, tip) {
        (Some(reason), ..) => text.push_str(&format!(", {reason}: {}", detail.as_deref().unwrap_or_default())),
        (None, Some(branch), Some(tip)) => text.push_str(&format!(", {branch} at {tip}")),
        (None, ..) => {}
    }
    let mut text = harmless(&text).to_string();
    suspect.iter().for_each(|found| text.push_str(&format!("\n    {}", distrusted(found))));
    text
}

/// The state of a harvest, and a line for each thing that there is to tell of it.
#[must_use]
pub(crate) fn harvest(found: &Harvest) -> String {
    let mut text = found.state.to_string();
    let mut tell = |line: &str| text.push_str(&format!("\n  {}", harmless(line)));
    for ProjectHarvest { project, work, failure, detail, distrusted: suspect } in &found.projects {
        if let Some(failure) = failure {
            tell(&format!("{project}: {failure}: {}", detail.as_deref().unwrap_or_default()));
        }
        if let Some(work) = work {
            tell(&format!("{project}: {}, commit {}", amount(work), work.commit));
            work.left_out.iter().for_each(|left| tell(&format!("  {}", left_out(left))));
        }
        suspect.iter().for_each(|found| tell(&format!("  {}", distrusted(found))));
    }
    text
}

/// How much has changed.
#[must_use]
pub(crate) fn amount(work: &Work) -> String {
    let Work { files, added, removed, flags, .. } = work;
    let flags = if *flags > 0 { format!(", {flags} to look at") } else { String::new() };
    format!("{files} file{} changed, +{added} -{removed}{flags}", if *files == 1 { "" } else { "s" })
}

/// One line for what a harvest has not taken.
#[must_use]
pub(crate) fn left_out(left: &LeftOut) -> String {
    let LeftOut { reason, count, first } = left;
    format!("left out, {reason}: {count}, the first is {}", harmless(first))
}

/// One line for something in a clone that was not trusted.
#[must_use]
pub(crate) fn distrusted(found: &Distrusted) -> String {
    format!("not trusted: {}: {}", found.what, harmless(&found.at))
}

fn amounts(output: &Output) -> String {
    let mut text = format!("{} bytes, diagnostics {} bytes", output.stdout_bytes, output.stderr_bytes);
    if output.dropped > 0 {
        text.push_str(&format!(", {} bytes dropped", output.dropped));
    }
    text
}

/// Work that was put onto a branch, and what checks said of it, a line each.
pub(crate) fn integration(found: &Integration) -> String {
    let onto = found.branch.as_deref().map_or_else(|| "its base".into(), harmless);
    let mut text = format!("{}: {} on {onto}", found.project, found.tip);
    if found.checks.iter().any(|check| !check.passed) {
        text.push_str("; kept back by a check");
    }
    for CheckResult { name, run_id, passed } in &found.checks {
        let said = if *passed { "passed" } else { "failed" };
        text.push_str(&format!("\n  check {name} {said}: {run_id}"));
    }
    text
}
