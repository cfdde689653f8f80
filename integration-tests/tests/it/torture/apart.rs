//! Services that run apart: one of them is killed, ended, restarted, frozen or cut off while runs go on.

use std::time::Duration;

use mosaic_data_root::Service;
use mosaic_integration_tests::{Apart, Leftovers, Operator, wait_for};
use serde_json::{Value, json};

use super::load::task;
use super::scene::{ending, kill_sandbox, kinds, launch, until_over, until_running};
use super::{RECOVERY, SOON};
use crate::installation;

/// Runs that go on in a scene.
const RUNS: usize = 3;

/// How long somebody is away: longer than every pause between two attempts.
const OUTAGE: Duration = Duration::from_secs(12);

fn going(apart: &Apart, script: &str) -> (Operator, Vec<String>) {
    let operator = apart.operator();
    let runs: Vec<String> =
        (0..RUNS).map(|number| launch(&operator, &format!("run-{number}"), &task(script))).collect();
    runs.iter().for_each(|run| until_running(&operator, run));
    (operator, runs)
}

#[track_caller]
fn expect_all_in_order(apart: &mut Apart, operator: &Operator) {
    let leftovers = Leftovers::of(&apart.mosaic.data());
    leftovers.expect_recorded(operator, SOON);
    leftovers.expect_clean(&apart.live(), SOON);
}

#[test]
fn runs_whose_runner_is_killed_are_lost_with_all_their_children() {
    let mut apart = Apart::start(installation());
    let (operator, runs) = going(&apart, "for i in 1 2 3 4 5; do sleep 600 & done; echo up; wait");
    apart.process(Service::Runner).kill();
    apart.restart(Service::Runner);
    for run in &runs {
        assert_eq!(ending(&until_over(&operator, run, RECOVERY)), ("lost", "runner-lost"));
    }
    expect_all_in_order(&mut apart, &operator);
}

#[test]
fn runs_whose_runner_is_asked_to_end_are_over_and_the_next_one_starts() {
    let mut apart = Apart::with(installation(), &[(Service::Runner, &["--drain", "1s"])]);
    let (operator, runs) = going(&apart, "echo up; sleep 600");
    assert!(apart.process(Service::Runner).end().success());
    apart.restart(Service::Runner);
    for run in &runs {
        assert_eq!(ending(&until_over(&operator, run, RECOVERY)).0, "cancelled");
    }
    let next = launch(&operator, "next", &task("echo next"));
    assert_eq!(until_over(&operator, &next, SOON)["response"], "next");
    expect_all_in_order(&mut apart, &operator);
}

/// A run ends while the broker is away; its end arrives once when the broker is back.
fn ends_without_a_broker(away: impl FnOnce(&mut Apart), back: impl FnOnce(&mut Apart)) {
    let mut apart = Apart::start(installation());
    let operator = apart.operator();
    let mut task = task("echo begun; while [ ! -e go ]; do sleep 0.05; done; echo done");
    task["workspace"] = json!("cut");
    let run = launch(&operator, "cut", &task);
    until_running(&operator, &run);
    away(&mut apart);
    std::fs::write(apart.mosaic.data().join("workspaces/cut/go"), "").expect("written");
    wait_for("the end of the execution", SOON, || {
        let execution = operator.execution(&run).expect("the runner answers");
        (execution.state() == mosaic_proto::runner::v1::execution::State::Ended).then_some(())
    });
    std::thread::sleep(OUTAGE);
    back(&mut apart);
    let record = until_over(&operator, &run, Duration::from_secs(60));
    assert_eq!((ending(&record).0, record["response"].as_str()), ("succeeded", Some("begun\ndone")));
    let kinds = kinds(&operator, &run);
    assert_eq!(kinds.iter().filter(|kind| *kind == "run.ended").count(), 1, "{kinds:?}");
    assert_eq!(operator.runs().expect("runs").len(), 1);
    expect_all_in_order(&mut apart, &operator);
}

#[test]
fn an_end_that_a_killed_broker_did_not_hear_arrives_once() {
    ends_without_a_broker(|apart| apart.process(Service::Broker).kill(), |apart| apart.restart(Service::Broker));
}

#[test]
fn an_end_that_a_frozen_broker_did_not_hear_arrives_once() {
    ends_without_a_broker(|apart| apart.process(Service::Broker).stop(), |apart| apart.process(Service::Broker).cont());
}

/// What ledger, launcher and runner say of a run, when they agree that it is over.
fn agreed(operator: &Operator, run: &str) -> Option<Value> {
    let record = operator.record(run).ok()?;
    let execution = operator.execution(run);
    let is_ended = |state| state == mosaic_proto::runner::v1::execution::State::Ended;
    let runner_agrees = execution.map_or(true, |execution| is_ended(execution.state()) && execution.reported);
    (!record["finishedAt"].is_null() && runner_agrees).then_some(record)
}

#[test]
fn restarted_services_and_a_sandbox_that_is_removed_from_outside_leave_one_truth() {
    let at_once: &[&str] = &["--drain", "0s"];
    let drains = [(Service::Broker, at_once), (Service::Launcher, at_once), (Service::Runner, at_once)];
    let mut apart = Apart::with(installation(), &drains);
    let (operator, runs) = going(&apart, "echo up; sleep 600");
    let watchers: Vec<_> = runs.iter().map(|run| apart.mosaic.start(&["watch", "--json", run])).collect();
    for service in [Service::Broker, Service::Launcher] {
        assert!(apart.process(service).end().success());
        apart.restart(service);
        for run in &runs {
            until_running(&operator, run);
        }
    }
    kill_sandbox(&apart.mosaic.data(), &runs[0]);
    let limit = Duration::from_secs(10);
    let killed = wait_for("one truth of the killed one", limit, || agreed(&operator, &runs[0]));
    assert_eq!(killed["status"], "failed", "{killed}");
    wait_for("the launcher", limit, || (operator.in_hand() == Ok(2)).then_some(()));
    assert!(apart.process(Service::Runner).end().success());
    apart.restart(Service::Runner);
    for run in &runs[1..] {
        let ended = wait_for("one truth of the others", limit, || agreed(&operator, run));
        assert_eq!(ended["status"], "cancelled", "{ended}");
    }
    wait_for("the launcher", limit, || (operator.in_hand() == Ok(0)).then_some(()));
    for (run, watcher) in runs.iter().zip(watchers) {
        let watched = watcher.wait_with_output().expect("ends");
        let lines = String::from_utf8_lossy(&watched.stdout).into_owned();
        let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let seen: Vec<&str> = events.iter().filter_map(|event| event["kind"].as_str()).collect();
        assert_eq!(seen, kinds(&operator, run), "the watcher has seen what the ledger has");
    }
    expect_all_in_order(&mut apart, &operator);
}

#[test]
fn a_launcher_that_was_frozen_past_its_lease_and_superseded_writes_nothing_more() {
    let mut apart = Apart::with(installation(), &[(Service::Broker, &["--lease-term=2"])]);
    let operator = apart.operator();
    let run = launch(&operator, "frozen", &task("while :; do echo tick; sleep 0.1; done"));
    until_running(&operator, &run);
    apart.process(Service::Launcher).stop();
    // Whoever has the launcher's token may be another launcher.
    let other = Operator::as_service(&apart.mosaic.data(), Service::Launcher);
    let lease = wait_for("the end of the lease", SOON, || other.claim(&run, "another-launcher").ok()?.lease);
    assert_eq!(lease.epoch, 2);
    apart.process(Service::Launcher).cont();
    // The runner works for the launcher whose lease is over; the other one does not know of it.
    wait_for("the end of the execution", SOON, || {
        other.renew(&run, lease.epoch).expect("the lease is the other one's");
        Leftovers::of(&apart.mosaic.data()).sandboxes().is_empty().then_some(())
    });
    let refused = other.renew(&run, 1).expect_err("stale");
    assert_eq!(refused.reason.as_str(), "stale-lease");
    other.lose(&run, lease.epoch).expect("the other one writes");
    assert_eq!(ending(&until_over(&operator, &run, SOON)).0, "lost");
    let kinds = kinds(&operator, &run);
    assert_eq!(kinds.iter().filter(|kind| *kind == "run.claimed").count(), 2, "{kinds:?}");
    assert_eq!(kinds.last().map(String::as_str), Some("run.lost"));
    expect_all_in_order(&mut apart, &operator);
}

#[test]
fn a_launcher_that_was_frozen_past_its_lease_goes_on_where_nobody_has_taken_its_place() {
    let mut apart = Apart::with(installation(), &[(Service::Broker, &["--lease-term=2"])]);
    let operator = apart.operator();
    let run = launch(&operator, "frozen", &task("sleep 6; echo done"));
    until_running(&operator, &run);
    apart.process(Service::Launcher).stop();
    std::thread::sleep(Duration::from_secs(4));
    apart.process(Service::Launcher).cont();
    assert_eq!(until_over(&operator, &run, SOON)["response"], "done");
    assert_eq!(kinds(&operator, &run).iter().filter(|kind| *kind == "run.claimed").count(), 1);
    expect_all_in_order(&mut apart, &operator);
}
