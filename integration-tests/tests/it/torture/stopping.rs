//! A stop works without the broker, from anywhere, and as often as one likes.

use std::time::Duration;

use mosaic_data_root::Service;
use mosaic_integration_tests::{Apart, Leftovers, Operator, wait_for};
use serde_json::json;

use super::SOON;
use super::load::task;
use super::scene::{ending, kinds, launch, until_over, until_running};
use crate::installation;

/// How long the end of a sandbox may take: grace and some time for a busy machine.
const GRACE: Duration = Duration::from_secs(10);

/// Services with a run that goes on and one that waits for its workspace.
fn going_and_waiting() -> (Apart, Operator, [String; 2]) {
    let apart = Apart::start(installation());
    let operator = apart.operator();
    let mut task = task("trap '' TERM; while :; do sleep 1; done");
    task["workspace"] = json!("one");
    task["limits"] = json!({ "stopGraceSeconds": 1 });
    let going = launch(&operator, "going", &task);
    until_running(&operator, &going);
    let waiting = launch(&operator, "waiting", &task);
    wait_for("the waiting one", SOON, || {
        operator.record(&waiting).is_ok_and(|record| record["step"] == "waiting").then_some(())
    });
    (apart, operator, [going, waiting])
}

#[track_caller]
fn expect_cancelled_once(apart: &mut Apart, operator: &Operator, runs: &[String]) {
    for run in runs {
        assert_eq!(ending(&until_over(operator, run, SOON)).0, "cancelled");
        let kinds = kinds(operator, run);
        let ends = kinds.iter().filter(|kind| ["run.ended", "run.cancelled"].contains(&kind.as_str()));
        assert_eq!(ends.count(), 1, "{kinds:?}");
    }
    let leftovers = Leftovers::of(&apart.mosaic.data());
    leftovers.expect_recorded(operator, SOON);
    leftovers.expect_clean(&apart.live(), SOON);
}

/// Stops both runs while the broker is away, twice each, and sees the sandbox end.
#[track_caller]
fn stop_without_a_broker(apart: &Apart, runs: &[String]) {
    for run in runs.iter().chain(runs) {
        let stopped = apart.mosaic.mosaic(&["stop", run]).expect(0);
        assert!(stopped.stdout.contains("stopping") && stopped.stderr.contains("does not answer"), "{stopped:?}");
    }
    let leftovers = Leftovers::of(&apart.mosaic.data());
    wait_for("the end of the sandbox", GRACE, || leftovers.sandboxes().is_empty().then_some(()));
}

#[test]
fn a_stop_works_while_the_broker_is_dead() {
    let (mut apart, operator, runs) = going_and_waiting();
    apart.process(Service::Broker).kill();
    stop_without_a_broker(&apart, &runs);
    apart.restart(Service::Broker);
    expect_cancelled_once(&mut apart, &operator, &runs);
}

#[test]
fn a_stop_works_while_the_broker_is_frozen() {
    let (mut apart, operator, runs) = going_and_waiting();
    apart.process(Service::Broker).stop();
    stop_without_a_broker(&apart, &runs);
    apart.process(Service::Broker).cont();
    expect_cancelled_once(&mut apart, &operator, &runs);
}

#[test]
fn a_stop_that_was_acknowledged_without_the_broker_outlives_the_launcher() {
    let (mut apart, operator, runs) = going_and_waiting();
    apart.process(Service::Broker).kill();
    stop_without_a_broker(&apart, &runs);
    apart.process(Service::Launcher).kill();
    apart.restart(Service::Broker);
    apart.restart(Service::Launcher);
    expect_cancelled_once(&mut apart, &operator, &runs);
}

#[test]
fn a_run_that_nobody_here_knows_can_not_be_stopped_without_the_broker() {
    let (mut apart, _operator, _runs) = going_and_waiting();
    apart.process(Service::Broker).kill();
    let refused = apart.mosaic.mosaic(&["stop", "r-20260101T000000000Z-0000000000"]).expect(3);
    assert!(refused.stderr.contains("nothing is known of"), "{refused:?}");
    apart.restart(Service::Broker);
}
