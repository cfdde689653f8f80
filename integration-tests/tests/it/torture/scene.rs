//! What the scenes share: runs that are launched, seen going, and seen over.

use std::path::Path;
use std::time::Duration;

use mosaic_integration_tests::{Operator, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::SOON;

/// Launches a task under a name of its own.
#[track_caller]
pub(super) fn launch(operator: &Operator, name: &str, task: &Value) -> String {
    operator.launch(name, task).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Waits until the adapter of a run is running.
#[track_caller]
pub(super) fn until_running(operator: &Operator, run: &str) {
    wait_for(&format!("{run} to run"), SOON, || (operator.record(run).ok()?["status"] == "running").then_some(()));
}

/// Waits until a run is over, and returns its record.
#[track_caller]
pub(super) fn until_over(operator: &Operator, run: &str, limit: Duration) -> Value {
    wait_for(&format!("the end of {run}"), limit, || {
        operator.record(run).ok().filter(|record| !record["finishedAt"].is_null())
    })
}

/// How a run ended: status, and reason if there is one.
pub(super) fn ending(record: &Value) -> (&str, &str) {
    (record["status"].as_str().unwrap_or_default(), record["reason"].as_str().unwrap_or_default())
}

/// Kinds of a run's events, in order.
pub(super) fn kinds(operator: &Operator, run: &str) -> Vec<String> {
    operator.events(run).expect("events").into_iter().map(|event| event.kind).collect()
}

/// Kills every process in the sandbox of a run, as somebody outside would.
pub(super) fn kill_sandbox(data: &Path, run: &str) {
    let private = format!("{}/runs/{run}/private", data.display());
    let entries = std::fs::read_dir("/proc").expect("/proc is there");
    for pid in entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok()) {
        let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        if mounts.contains(&private) {
            let _gone_already = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}
