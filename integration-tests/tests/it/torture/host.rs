//! The host of all services, killed at random instants under load.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mosaic_integration_tests::{Chance, Installation, Leftovers, Operator, Process, report, soak, wait_for};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use super::load::{Load, Until};
use super::scene::until_running;
use super::{RECOVERY, SOON};
use crate::installation;

/// People who launch at the same time.
const PEOPLE: usize = 3;

/// How long a host lives at most before it is killed: from within its start to well within its work.
const LONGEST_LIFE: Duration = Duration::from_millis(1_600);

/// A foreground host, and what it says in `up.log`.
pub(crate) fn host(mosaic: &Installation) -> Process {
    host_with(mosaic, |command| command)
}

/// A foreground host that is started differently.
pub(super) fn host_with(mosaic: &Installation, change: impl FnOnce(&mut Command) -> &mut Command) -> Process {
    let log = std::fs::File::options().create(true).append(true).open(mosaic.path().join("up.log")).expect("a log");
    let mut command = mosaic.command(&["up", "--drain", "5s"]);
    Process::start(change(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log)))
}

/// What foreground hosts have said.
fn said(mosaic: &Installation) -> String {
    std::fs::read_to_string(mosaic.path().join("up.log")).unwrap_or_default()
}

/// Waits until a host that was just started serves.
#[track_caller]
pub(crate) fn until_it_serves(mosaic: &Installation, host: &mut Process) {
    wait_for("the host", SOON, || {
        assert!(host.ended().is_none(), "the host ended: {}", said(mosaic));
        mosaic.host_pid().filter(|pid| *pid == host.pid())
    });
}

#[test]
fn a_host_that_is_killed_at_any_instant_loses_nothing_acknowledged_and_leaves_nothing() {
    let mut chance = Chance::of_this_run();
    let mosaic = installation();
    let mut first = host(&mosaic);
    until_it_serves(&mosaic, &mut first);
    let (load, operator) = (Load::default(), Operator::of(&mosaic.data()));
    let kills = soak(300);
    let mut leftovers = Leftovers::of(&mosaic.data());
    std::thread::scope(|scope| {
        for person in 0..PEOPLE {
            let (load, chance) = (&load, chance.of_part());
            let operator = Operator::of(&mosaic.data());
            scope.spawn(move || load.launch(&operator, &format!("person-{person}"), chance));
        }
        let _over = load.until_dropped();
        let mut live = first;
        for _ in 0..kills {
            std::thread::sleep(chance.duration(LONGEST_LIFE));
            assert!(live.ended().is_none(), "the host ended by itself: {}", said(&mosaic));
            leftovers.killed(live.pid());
            live.kill();
            live = host(&mosaic);
        }
        live.kill();
    });
    let mut last = host(&mosaic);
    until_it_serves(&mosaic, &mut last);
    load.stop_all(&operator);
    leftovers.expect_recorded(&operator, RECOVERY * 4);
    let acknowledged = load.expect_all(&operator);
    leftovers.expect_clean(&[last.pid()], RECOVERY);
    assert!(last.end().success());
    leftovers.expect_clean(&[], SOON);
    report(&format!("{kills} kills, {acknowledged} acknowledged launches"));
    assert!(acknowledged > 0);
}

/// People who run tasks from their terminals, each one task after the other.
const TERMINALS: usize = 3;

#[test]
fn whoever_runs_a_task_while_its_host_is_killed_gets_its_record() {
    let mut chance = Chance::of_this_run();
    let mosaic = installation();
    let task = mosaic.task("sleep 0.3; echo done", |_| {});
    mosaic.mosaic(&["list"]).expect(0);
    let (over, mut leftovers) = (AtomicBool::new(false), Leftovers::of(&mosaic.data()));
    let records: Vec<Value> = std::thread::scope(|scope| {
        let terminals: Vec<_> = (0..TERMINALS)
            .map(|_| {
                scope.spawn(|| {
                    let mut records = Vec::new();
                    while !over.load(Ordering::SeqCst) {
                        records.push(mosaic.record(&task, &[]));
                    }
                    records
                })
            })
            .collect();
        let until = Until(&over);
        for _ in 0..soak(60) {
            let pid = wait_for("a host", SOON, || mosaic.host_pid());
            std::thread::sleep(chance.duration(LONGEST_LIFE));
            leftovers.killed(pid);
            let _ended_already = kill(pid, Signal::SIGKILL);
            wait_for("its successor", SOON, || mosaic.host_pid().filter(|successor| *successor != pid));
        }
        drop(until);
        terminals.into_iter().flat_map(|terminal| terminal.join().expect("no panic")).collect()
    });
    assert!(records.len() >= TERMINALS, "{records:?}");
    for record in &records {
        let status = record["status"].as_str().expect("a status");
        assert!(["succeeded", "lost", "refused"].contains(&status), "{record}");
    }
    mosaic.mosaic(&["list"]).expect(0);
    let (operator, host) = (Operator::of(&mosaic.data()), mosaic.host_pid().expect("a host"));
    leftovers.expect_recorded(&operator, RECOVERY);
    leftovers.expect_clean(&[host], RECOVERY);
}

#[test]
fn whoever_watches_a_run_that_a_killed_host_has_left_in_the_queue_sees_it_run() {
    let mosaic = installation();
    let launch = |script: &str| {
        let task = mosaic.task(script, |task| task["workspace"] = serde_json::json!("one"));
        mosaic.mosaic(&["run", "--detach", &task]).expect(0).stdout.trim().to_owned()
    };
    let first = launch("sleep 600");
    let operator = Operator::of(&mosaic.data());
    until_running(&operator, &first);
    let second = launch("echo at last");
    kill(mosaic.host_pid().expect("a host"), Signal::SIGKILL).expect("killed");
    let watched = mosaic.mosaic(&["watch", "--json", &second]).expect(0);
    assert!(watched.stdout.contains("run.ended") && watched.stdout.contains("at last"), "{watched:?}");
}
