//! Files and directories that are only there while something goes on.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Leftover;

/// What the directory of a run that is over may hold.
const OF_A_RUN: [&str; 11] = [
    "task.json",
    "mission.json",
    "result.json",
    "events.jsonl",
    "stdout.txt",
    "stdout.layout.json",
    "stderr.txt",
    "stderr.layout.json",
    "bundle",
    "workspace",
    "harvest",
];

/// Ids of the runs that have a directory.
pub(super) fn run_ids(data: &Path) -> Vec<String> {
    names(&data.join("runs")).into_iter().filter(|name| name.starts_with("r-")).collect()
}

/// Everything temporary that is there.
pub(super) fn temporary(data: &Path) -> Vec<Leftover> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut add = |directory: PathBuf, is_left: &dyn Fn(&str) -> bool| {
        let left = names(&directory).into_iter().filter(|name| is_left(name));
        found.extend(left.map(|name| directory.join(name)));
    };
    let is_temporary = |name: &str| name.ends_with(".tmp") || name.starts_with('.');
    // Executions and what is in hand: nothing, when nothing runs.
    add(data.join("state/runner"), &|_| true);
    add(data.join("state/launcher/in-hand"), &|_| true);
    add(data.join("run/x"), &|_| true);
    for directory in ["state", "state/shim", "run", "broker", "credentials", "workspaces", "sessions", "runs"] {
        add(data.join(directory), &is_temporary);
    }
    for run in run_ids(data) {
        let directory = data.join("runs").join(run);
        let never_ran = never_ran(&directory);
        add(directory, &|name| !OF_A_RUN.contains(&name) || (never_ran && ["bundle", "workspace"].contains(&name)));
    }
    found.into_iter().map(Leftover::File).collect()
}

/// True of a run whose record says that it ended before its adapter was started: its preparation is undone.
fn never_ran(directory: &Path) -> bool {
    let record = fs::read(directory.join("result.json")).ok();
    let record: Option<Value> = record.and_then(|text| serde_json::from_slice(&text).ok());
    record.is_some_and(|record| {
        let ended_before = ["refused", "cancelled"].iter().any(|status| record["status"] == *status);
        ended_before && record["startedAt"].is_null()
    })
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
