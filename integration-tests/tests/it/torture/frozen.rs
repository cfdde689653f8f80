//! A host that stands still while its runs go on, and one whose wall clock is moved: nobody times out who was in time.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mosaic_integration_tests::{Installation, Leftovers, Operator, Process, available};
use serde_json::{Value, json};

use super::SOON;
use super::host::{host_with, until_it_serves};
use super::load::task;
use super::scene::{ending, launch, until_over, until_running};
use crate::installation;

/// How long the host stands still: longer than the term of a lease, 30 s.
const FROZEN: Duration = Duration::from_secs(35);

fn limited(script: &str, seconds: u64) -> Value {
    let mut task = task(script);
    task["timeoutSeconds"] = json!(seconds);
    task
}

#[test]
fn a_host_that_is_frozen_past_lease_and_limits_ends_nothing_that_was_in_time() {
    let mosaic = installation();
    let mut host = host_with(&mosaic, |command| command.args(["--idle-exit", "5s"]));
    until_it_serves(&mosaic, &mut host);
    let operator = Operator::of(&mosaic.data());
    // Limits that pass while the host stands still, of runs that end before and after that.
    let in_time = launch(&operator, "in-time", &limited("echo begun; sleep 3; echo done", 10));
    let lingers = launch(&operator, "lingers", &limited("echo answer; sleep 2; turn_done; sleep 2", 10));
    let late = launch(&operator, "late", &limited("sleep 20; echo done", 10));
    let endless = launch(&operator, "endless", &limited("while :; do echo tick; sleep 1; done", 10));
    let long = launch(&operator, "long", &limited("sleep 40; echo done", 120));
    let runs = [&in_time, &lingers, &late, &endless, &long];
    runs.iter().for_each(|run| until_running(&operator, run));

    host.stop();
    std::thread::sleep(FROZEN);
    host.cont();

    let record = until_over(&operator, &in_time, SOON);
    assert_eq!((ending(&record).0, record["response"].as_str()), ("succeeded", Some("begun\ndone")), "{record}");
    assert!(record["durationMs"].as_u64() < Some(10_000), "how long it ran, not how long nobody looked: {record}");
    let record = until_over(&operator, &lingers, SOON);
    assert_eq!((ending(&record).0, record["response"].as_str()), ("succeeded", Some("answer")), "{record}");
    for run in [&late, &endless] {
        let record = until_over(&operator, run, SOON);
        assert_eq!(ending(&record), ("failed", "timed-out"), "{record}");
    }
    let record = until_over(&operator, &long, SOON);
    assert_eq!((ending(&record).0, record["response"].as_str()), ("succeeded", Some("done")), "{record}");
    let leftovers = Leftovers::of(&mosaic.data());
    leftovers.expect_recorded(&operator, SOON);
    leftovers.expect_clean(&[host.pid()], SOON);
    assert!(host.ended().is_none(), "somebody is attached");
}

/// The library that moves a process's wall clock, when it is here.
fn faketime() -> Option<PathBuf> {
    if !available("faketime") {
        return None;
    }
    let directories = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let known = directories.map(|path| path.join("faketime/libfaketimeMT.so.1")).find(|path| path.exists());
    assert!(known.is_some(), "`faketime` is here, its library is not");
    known
}

/// A host whose wall clock is off by what `offset` says.
fn host_off_by(mosaic: &Installation, library: &Path, offset: &Path) -> Process {
    host_with(mosaic, |command| {
        command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", offset);
        command.env("FAKETIME_NO_CACHE", "1").env("DONT_FAKE_MONOTONIC", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    })
}

#[test]
fn a_wall_clock_that_is_moved_two_hours_forth_and_back_times_nobody_out_and_keeps_the_order() {
    let Some(library) = faketime() else { return };
    let mosaic = installation();
    let offset = mosaic.write("offset", "+0");
    let set = |text: &str| {
        // Whole at once: the host reads it all the time.
        std::fs::rename(mosaic.write("offset.new", text), &offset).expect("set");
    };
    let mut host = host_off_by(&mosaic, &library, &offset);
    until_it_serves(&mosaic, &mut host);
    let operator = Operator::of(&mosaic.data());
    let script = "echo begun; while [ ! -e go ]; do sleep 0.1; done; echo done";
    let mut runs = Vec::new();
    for (number, moved) in ["+2h", "-2h", "+2h", "+0"].into_iter().enumerate() {
        let mut task = limited(script, 60);
        task["workspace"] = json!(format!("clock-{number}"));
        let run = launch(&operator, &format!("clock-{number}"), &task);
        until_running(&operator, &run);
        runs.push(run);
        set(moved);
        let probe = launch(&operator, &format!("probe-{number}"), &limited("echo probe", 60));
        assert_eq!(until_over(&operator, &probe, SOON)["response"], "probe");
    }
    for (number, run) in runs.iter().enumerate() {
        std::fs::write(mosaic.data().join(format!("workspaces/clock-{number}/go")), "").expect("written");
        let record = until_over(&operator, run, SOON);
        assert_eq!((ending(&record).0, record["response"].as_str()), ("succeeded", Some("begun\ndone")), "{record}");
        let took = record["durationMs"].as_i64().expect("a duration");
        assert!((0..120_000).contains(&took), "{record}");
    }
    let leftovers = Leftovers::of(&mosaic.data());
    leftovers.expect_recorded(&operator, SOON);
    leftovers.expect_clean(&[host.pid()], SOON);
    // Its clock was really moved: runs are dated hours apart.
    let dates: Vec<String> = operator.runs().expect("runs").into_iter().map(|run| run.run_id).collect();
    let hours: BTreeSet<&str> = dates.iter().map(|id| &id["r-YYYYMMDDT".len()..][..2]).collect();
    assert!(hours.len() > 1, "{dates:?}");
    assert!(host.end().success());
}
