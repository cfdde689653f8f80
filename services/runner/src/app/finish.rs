use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mosaic_record::{Outcome, Output, RunEvent, RunStatus};

use super::drive::Running;
use super::{App, Execution, State};
use crate::capture::{Capture, Captured};
use crate::domain::outcome::{Observed, OutOfMemory, outcome};
use crate::domain::response::{NEEDED_BYTES, Response, shown};
use crate::sandbox::Sandbox;
use crate::sandbox::cgroup::Usage;

/// How long the last bytes of a stream may take to be kept once the sandbox is gone: whoever could write is gone.
const CAPTURE_LIMIT: Duration = Duration::from_secs(30);

impl App {
    /// From the end of the sandbox's process to the terminal report.
    pub(super) async fn finish(&self, execution: &Arc<Execution>, mut running: Running) {
        let (elapsed, ended) = (running.started.elapsed(), self.parts.clock.now());
        // A run whose end nobody saw was over when it ended, not when that was found out.
        let duration = running.unseen_end.unwrap_or(elapsed);
        let ended = ended.checked_sub(elapsed.saturating_sub(duration)).unwrap_or(ended);
        execution.update(|status| status.state = State::Ending);
        let clean_up = Duration::from_secs(running.launch.limits.clean_up_seconds);
        let usage = end(execution, &mut running.sandbox, clean_up).await;
        let stdout = captured(&mut running.stdout).await;
        let stderr = captured(&mut running.stderr).await;
        let removal = self.remove_private(execution);

        let file = self.parts.root.run_stdout(&execution.run);
        let observed = observe(&running, usage, &stdout, &stderr, &file, duration);
        let outcome = outcome(observed);
        record_in_span(&outcome);
        tracing::info!(run.id = %execution.run, run.status = %outcome.status, "A run ended");
        execution.report(ended, RunEvent::Ended(Box::new(outcome)));
        if tokio::time::timeout(clean_up, removal).await.is_err() {
            tracing::warn!(run.id = %execution.run, "The private state of a run is still being removed");
        }
        execution.update(|status| status.state = State::Ended);
    }

    /// Removes the run's private state while its outcome is recorded: an agent decides how long that takes.
    fn remove_private(&self, execution: &Execution) -> tokio::task::JoinHandle<()> {
        let (path, run) = (self.parts.root.run_state(&execution.run), execution.run.clone());
        tokio::task::spawn_blocking(move || {
            if let Err(error) = mosaic_data_root::remove_tree(&path) {
                tracing::warn!(run.id = %run, %error, "Could not remove the private state of a run");
            }
        })
    }
}

/// Ends the sandbox; within the limit silently, beyond it with a line in the log, but never without proof.
async fn end(execution: &Execution, sandbox: &mut Sandbox, limit: Duration) -> Usage {
    let begun = Instant::now();
    loop {
        if let Ok(usage) = tokio::time::timeout(limit, sandbox.end()).await {
            return usage;
        }
        let elapsed_s = begun.elapsed().as_secs();
        tracing::error!(run.id = %execution.run, elapsed_s, "A sandbox is not gone yet");
    }
}

/// What is known of a stream. One that does not end although its writers are gone is given up as it is.
async fn captured(capture: &mut Capture) -> Option<Captured> {
    tokio::time::timeout(CAPTURE_LIMIT, capture.finished()).await.ok().flatten()
}

fn observe(
    running: &Running,
    usage: Usage,
    stdout: &Option<Captured>,
    stderr: &Option<Captured>,
    file: &Path,
    duration: Duration,
) -> Observed {
    let limits = &running.launch.limits;
    let mut warnings = Vec::new();
    for (name, captured) in [("standard output", stdout), ("standard error", stderr)] {
        match captured {
            None => warnings.push(format!("{name} did not end with the sandbox; what is kept may be incomplete")),
            Some(Captured { fault: Some(fault), .. }) => warnings.push(format!("{name} is not kept whole: {fault}")),
            Some(_) => {}
        }
    }
    let total = |captured: &Option<Captured>| captured.as_ref().map_or(0, |captured| captured.total);
    let dropped = |captured: &Option<Captured>| captured.as_ref().map_or(0, |captured| captured.dropped);
    let digest = |captured: &Option<Captured>| captured.as_ref().map(|captured| captured.digest.clone());
    Observed {
        turn: running.turn.result(),
        turn_marker: running.metadata.turn_marker,
        allows_empty_answer: running.metadata.allows_empty_answer,
        response: stdout.as_ref().map_or_else(|| shown(b"", 1), |captured| response(captured, file)),
        as_expected: stdout.as_ref().map_or(Some(false), |captured| captured.as_expected),
        output: Output {
            stdout_bytes: total(stdout),
            stderr_bytes: total(stderr),
            dropped: dropped(stdout) + dropped(stderr),
            stdout_digest: digest(stdout),
            stderr_digest: digest(stderr),
        },
        out_of_memory: (usage.oom_kills > 0).then_some(OutOfMemory {
            kills: usage.oom_kills,
            limit_bytes: limits.memory_bytes,
            peak_bytes: usage.peak_bytes,
        }),
        process_limit: (usage.refused_forks > 0).then_some(limits.processes),
        duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        warnings,
    }
}

fn response(captured: &Captured, file: &Path) -> Response {
    let mut beginning = Vec::new();
    let readable = captured.unbroken.min(NEEDED_BYTES as u64);
    let read = std::fs::File::open(file).and_then(|file| file.take(readable).read_to_end(&mut beginning));
    if let Err(error) = read {
        tracing::error!(%error, "Could not read the response");
    }
    shown(&beginning, captured.total - captured.trailing_newlines)
}

fn record_in_span(outcome: &Outcome) {
    let span = tracing::Span::current();
    span.record("run.status", outcome.status.as_str());
    if let Some(reason) = outcome.reason {
        span.record("run.reason", reason.as_str());
    }
    if outcome.status != RunStatus::Succeeded {
        span.record("otel.status_code", "ERROR");
    }
}
