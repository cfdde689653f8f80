//! A host that is killed between the end of a run and its harvest.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use mosaic_integration_tests::{Chance, Leftovers, Operator, Process, soak, wait_for};
use serde_json::{Value, json};

use super::Business;
use crate::torture::{RECOVERY, SOON, host, until_it_serves};

fn task(number: u32) -> Value {
    let script = format!("cd site; echo {number} >> page; echo {number} > new-{number}; sleep 0.1");
    json!({
        "taskVersion": 1, "id": "harvest", "prompt": script, "timeoutSeconds": 60,
        "workspace": ":run", "projects": ["site"],
    })
}

/// Waits until a run is over and harvested, and returns its record.
fn until_harvested(operator: &Operator, run: &str) -> Value {
    wait_for(&format!("the harvest of {run}"), RECOVERY, || {
        let record = operator.record(run).ok().filter(|record| !record["finishedAt"].is_null())?;
        (record["harvest"]["state"] != "pending").then_some(record)
    })
}

/// How often a run was taken over between its end and its harvest, which must be one.
fn takeovers(operator: &Operator, run: &str) -> usize {
    let kinds: Vec<String> = operator.events(run).expect("events").into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| *kind == "run.harvested").count(), 1, "{kinds:?}");
    kinds.iter().skip_while(|kind| *kind != "run.ended").filter(|kind| *kind == "run.claimed").count()
}

#[test]
fn a_host_that_is_killed_before_its_harvest_leaves_it_to_the_next_and_it_happens_once() {
    let mut chance = Chance::of_this_run();
    let business = Business::new();
    let (mut first, mut found) = (host(&business.mosaic), BTreeSet::new());
    until_it_serves(&business.mosaic, &mut first);
    first.kill();
    let mut leftovers = Leftovers::of(&business.mosaic.data());
    for number in 0..soak(60).max(6) {
        let mut live = host(&business.mosaic);
        until_it_serves(&business.mosaic, &mut live);
        let operator = Operator::of(&business.mosaic.data());
        let run = operator.launch(&format!("harvest-{number}"), &task(number)).expect("launched");
        let _cut_off = operator.watch(&run, 0, SOON, |event| event.kind != "run.ended");
        std::thread::sleep(chance.duration(Duration::from_millis(if number % 2 == 0 { 20 } else { 400 })));
        leftovers.killed(live.pid());
        live.kill();

        let mut next = host(&business.mosaic);
        until_it_serves(&business.mosaic, &mut next);
        let record = until_harvested(&operator, &run);
        assert_eq!((&record["status"], &record["harvest"]["state"]), (&json!("succeeded"), &json!("done")), "{record}");
        assert_eq!(record["harvest"]["projects"][0]["work"]["files"], 2, "{record}");
        found.insert(takeovers(&operator, &run));
        leftovers.expect_recorded(&operator, SOON);
        leftovers.expect_clean(&[next.pid()], SOON);
        let patch = business.mosaic.mosaic(&["patch", &run]).expect(0);
        assert!(patch.stdout.contains(&format!("+{number}\n")), "{patch:?}");
        next.kill();
    }
    assert!(found.contains(&1), "no host was killed before its harvest: {found:?}");
}

#[test]
fn a_host_that_is_asked_to_end_within_a_harvest_finishes_it_first() {
    let business = Business::new();
    let mut command = business.mosaic.command(&["up", "--drain", "0s"]);
    let mut ending = Process::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
    until_it_serves(&business.mosaic, &mut ending);
    let operator = Operator::of(&business.mosaic.data());
    let mut many = task(0);
    many["prompt"] = json!("cd site; seq 5000 | while read -r n; do echo $n > f$n; done");
    let run = operator.launch("many", &many).expect("launched");
    let _cut_off = operator.watch(&run, 0, SOON, |event| event.kind != "run.ended");
    assert!(ending.end().success());

    let mut next = host(&business.mosaic);
    until_it_serves(&business.mosaic, &mut next);
    let record = until_harvested(&operator, &run);
    assert_eq!(record["harvest"]["projects"][0]["work"]["files"], 5000, "{record}");
    assert_eq!(takeovers(&operator, &run), 0);
    Leftovers::of(&business.mosaic.data()).expect_clean(&[next.pid()], SOON);
}
