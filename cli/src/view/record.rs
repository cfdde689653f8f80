//! A record for people.

use std::fmt::Write as _;
use std::time::Duration;

use mosaic_lifecycle::human_bytes;
use mosaic_record::{ProjectHarvest, RunRecord, RunStatus};

use super::text::{elapsed, harmless};

/// How a run ended, in a few lines: what somebody who followed it wants to know at the end.
#[must_use]
pub(crate) fn summary(record: &RunRecord) -> String {
    let mut text = String::new();
    let reason = record.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    line(&mut text, "run", &record.run_id);
    line(&mut text, "status", format_args!("{}{reason}", record.status));
    if record.status == RunStatus::Refused
        && let Some(step) = &record.step
    {
        line(&mut text, "step", step);
    }
    for warning in &record.warnings {
        line(&mut text, "warning", harmless(warning));
    }
    for note in &record.notes {
        line(&mut text, "note", note);
    }
    if let Some(ms) = record.duration_ms {
        line(&mut text, "took", elapsed(Duration::from_millis(ms)));
    }
    if let Some(activity) = &record.activity {
        line(&mut text, "activity", format_args!("after {} ms, seen by {}", activity.latency_ms, activity.source));
    }
    if record.status != RunStatus::Succeeded && record.output.as_ref().is_some_and(|output| output.stderr_bytes > 0) {
        line(
            &mut text,
            "see",
            format_args!("mosaic watch {}, for what the adapter wrote to standard error", record.run_id),
        );
    }
    if record.reason.as_deref() == Some("expect-mismatch") {
        line(&mut text, "expected", quoted(record.expected_exact.as_deref().unwrap_or_default()));
        line(&mut text, "response", quoted(record.response.as_deref().unwrap_or_default()));
    }
    text
}

/// The commands that show what a run has changed, a line each; nothing when it has changed nothing.
#[must_use]
pub(crate) fn patches(record: &RunRecord) -> String {
    let mut text = String::new();
    let Some(harvest) = &record.harvest else { return text };
    for ProjectHarvest { project, work, .. } in &harvest.projects {
        if let Some(work) = work.as_ref().filter(|work| work.files > 0) {
            let which = if harvest.projects.len() > 1 { format!(" --project {project}") } else { String::new() };
            let changed = super::describe::amount(work);
            line(&mut text, "changed", format_args!("{project}: {changed}; mosaic patch {}{which}", record.run_id));
        }
    }
    text
}

/// The whole record.
#[must_use]
pub(crate) fn details(record: &RunRecord) -> String {
    let mut text = summary(record);
    line(&mut text, "task", &record.task_id);
    optional(&mut text, "mission", record.mission_id.as_ref());
    line(&mut text, "by", &record.requested_by);
    optional(&mut text, "retries", record.retried_from.as_ref());
    line(
        &mut text,
        "adapter",
        format_args!("{}{}", record.adapter, if record.synthetic { " (synthetic)" } else { "" }),
    );
    if let (Some(provider), Some(model)) = (&record.provider, &record.model) {
        line(&mut text, "model", format_args!("{provider}/{}", harmless(model)));
    }
    let tools = record.tools.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    line(&mut text, "tools", if tools.is_empty() { "none" } else { &tools });
    optional(&mut text, "workspace", record.workspace.as_ref());
    optional(&mut text, "", record.workspace_root.as_ref());
    for checkout in &record.checkouts {
        line(&mut text, "checkout", super::describe::checkout(checkout));
    }
    if let Some(harvest) = &record.harvest {
        line(&mut text, "harvest", super::describe::harvest(harvest));
    }
    for integration in &record.integrations {
        line(&mut text, "applied", super::describe::integration(integration));
    }
    optional(&mut text, "session", record.session.as_ref());
    line(&mut text, "backend", record.backend);
    if let Some(containment) = &record.sandbox {
        let yes = |what: &str, value: bool| if value { format!("{what}, ") } else { format!("no {what}, ") };
        let parts = yes("own root", containment.own_root)
            + &yes("network cut off", containment.no_network)
            + &yes("system call filter", containment.syscall_filter);
        let whether = if record.containment == Some(true) { "yes" } else { "NO" };
        line(&mut text, "contained", format_args!("{whether}: {parts}uid {}", containment.uid));
        let limits: Vec<String> = containment.limits.iter().map(|(key, by)| format!("{key} by {by}")).collect();
        line(&mut text, "limits", limits.join(", "));
    }
    line(&mut text, "created", record.created_at);
    optional(&mut text, "started", record.started_at.as_ref());
    optional(&mut text, "finished", record.finished_at.as_ref());
    optional(&mut text, "exit code", record.exit_code.as_ref());
    optional(&mut text, "signal", record.signal.as_ref());
    if let Some(output) = &record.output {
        let (stdout, stderr, dropped) = (output.stdout_bytes, output.stderr_bytes, output.dropped);
        line(&mut text, "output", format_args!("{stdout} bytes, diagnostics {stderr} bytes, dropped {dropped} bytes"));
    }
    retention(&mut text, record);
    optional(&mut text, "trace", record.trace_id.as_ref());
    optional(&mut text, "bundle", record.bundle_digest.as_ref());
    block(&mut text, "request", &record.request);
    if let Some(response) = &record.response {
        block(&mut text, if record.response_truncated { "response (its beginning)" } else { "response" }, response);
    }
    text
}

/// What is kept, and what is gone.
fn retention(text: &mut String, record: &RunRecord) {
    if record.kept {
        line(text, "kept", "yes, nothing of it is pruned");
    }
    for pruned in &record.pruned {
        let freed = human_bytes(pruned.freed_bytes);
        match &pruned.archive {
            Some(archive) => {
                line(text, "pruned", format_args!("{}, {freed}; archived as {}", pruned.part, harmless(&archive.name)));
                line(text, "", format_args!("{} sha256:{}", human_bytes(archive.size_bytes), archive.digest));
            }
            None => line(text, "pruned", format_args!("{}, {freed}", pruned.part)),
        }
    }
}

pub(crate) fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let value = value.to_string();
    let mut lines = value.lines();
    writeln!(text, "{name:<10} {}", lines.next().unwrap_or_default()).expect("a string takes all");
    for rest in lines {
        writeln!(text, "{:<10} {rest}", "").expect("a string takes all");
    }
}

fn optional(text: &mut String, name: &str, value: Option<&impl std::fmt::Display>) {
    if let Some(value) = value {
        line(text, name, value);
    }
}

fn block(text: &mut String, name: &str, value: &str) {
    writeln!(text, "\n{name}:").expect("a string takes all");
    for line in harmless(value).lines() {
        writeln!(text, "  {line}").expect("a string takes all");
    }
}

/// A text on one line, shortened.
fn quoted(text: &str) -> String {
    const SHOWN: usize = 200;
    let short: String = text.chars().take(SHOWN).collect();
    let more = if text.chars().nth(SHOWN).is_some() { "..." } else { "" };
    format!("{short:?}{more}")
}
