//! Preparation that fails, or is cut short by a kill, at each of its steps.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mosaic_data_root::Service;
use mosaic_integration_tests::{Apart, Chance, Leftovers, Operator, soak, wait_for};
use serde_json::{Value, json};

use super::host::{host, until_it_serves};
use super::load::task;
use super::scene::{launch, until_over};
use super::{RECOVERY, SOON};
use crate::installation;

/// A task that takes every step, in a workspace and a session of its own.
fn every_step(name: &str) -> Value {
    let mut task = task("echo done");
    task["workspace"] = json!(format!("w-{name}"));
    task["session"] = json!(format!("s-{name}"));
    task
}

/// Puts something into the directory of a run that is about to be prepared, as soon as there is one.
fn occupy(runs: &Path, name: &str, over: &AtomicBool) -> Option<PathBuf> {
    while !over.load(Ordering::SeqCst) {
        let entries = std::fs::read_dir(runs).into_iter().flatten().flatten();
        if let Some(run) = entries.map(|entry| entry.path()).find(|path| !path.join("result.json").exists()) {
            let place = run.join(name);
            return std::fs::create_dir(&place).is_ok().then_some(place);
        }
        std::hint::spin_loop();
    }
    None
}

/// A file in the place of a directory, until it is dropped.
struct InTheWay(PathBuf);

impl InTheWay {
    /// Takes the place of the directory `path`, which is put aside.
    fn of(path: PathBuf) -> Self {
        std::fs::rename(&path, path.with_extension("aside")).expect("put aside");
        std::fs::write(&path, "in the way").expect("written");
        Self(path)
    }
}

impl Drop for InTheWay {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).expect("removed");
        std::fs::rename(self.0.with_extension("aside"), &self.0).expect("put back");
    }
}

#[test]
fn a_step_that_fails_refuses_the_run_by_its_name_and_leaves_nothing() {
    let mosaic = installation();
    let mut host = host(&mosaic);
    until_it_serves(&mosaic, &mut host);
    let (data, operator) = (mosaic.data(), Operator::of(&mosaic.data()));
    let leftovers = Leftovers::of(&data);
    let expect_refused = |run: &str, step: &str| {
        let record = until_over(&operator, run, SOON);
        assert_eq!((record["status"].as_str(), record["step"].as_str()), (Some("refused"), Some(step)), "{record}");
        assert!(!data.join("workspaces").join(format!("w-{step}")).exists());
        assert!(!data.join("sessions").join(format!("s-{step}")).exists());
    };
    for (step, directory) in [("run-directory", "runs"), ("workspace", "workspaces"), ("session", "sessions")] {
        let in_the_way = InTheWay::of(data.join(directory));
        let run = launch(&operator, step, &every_step(step));
        expect_refused(&run, step);
        drop(in_the_way);
        leftovers.expect_recorded(&operator, SOON);
        leftovers.expect_clean(&[host.pid()], SOON);
    }
    for (step, occupied) in [("bundle", "bundle"), ("start", "private"), ("start", "stdout.txt")] {
        // Whoever is faster wins, here or there.
        wait_for("an occupied place", SOON, || {
            let over = AtomicBool::new(false);
            let (place, run) = std::thread::scope(|scope| {
                let occupant = scope.spawn(|| occupy(&data.join("runs"), occupied, &over));
                let run = launch(&operator, &format!("{occupied}-{}", jitter()), &every_step(step));
                until_over(&operator, &run, SOON);
                over.store(true, Ordering::SeqCst);
                (occupant.join().expect("no panic"), run)
            });
            let place = place?;
            expect_refused(&run, step);
            let _undone_already = std::fs::remove_dir(place);
            Some(())
        });
        leftovers.expect_recorded(&operator, SOON);
        leftovers.expect_clean(&[host.pid()], SOON);
    }
    let next = launch(&operator, "next", &every_step("next"));
    assert_eq!(until_over(&operator, &next, SOON)["response"], "done");
}

fn jitter() -> u32 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos())
}

/// What is seen of a run before its adapter runs, in order.
const MOMENTS: [&str; 7] =
    ["run.claimed", "run.preparing", "run-directory", "workspace", "session", "bundle", "run.running"];

/// Watches a run until the event or step `moment`; true when it was seen.
fn until(operator: &Operator, run: &str, moment: &str) -> bool {
    let mut seen = false;
    let _cut_off = operator.watch(run, 0, SOON, |event| {
        let payload: Value = serde_json::from_str(&event.payload).expect("JSON");
        seen = event.kind == moment || payload["step"] == moment;
        !seen
    });
    seen
}

/// However far it got: it is refused with everything undone, or it ran. Says which.
#[track_caller]
fn expect_undone(data: &Path, operator: &Operator, run: &str, name: &str) -> String {
    let record = until_over(operator, run, RECOVERY);
    let status = record["status"].as_str().expect("a status");
    match status {
        "refused" => {
            assert_eq!(record["reason"], "interrupted", "{record}");
            for made in [format!("workspaces/w-{name}"), format!("sessions/s-{name}")] {
                assert!(!data.join(&made).exists(), "{made} is left: {record}");
            }
        }
        "lost" | "succeeded" => {}
        _ => panic!("{record}"),
    }
    status.to_owned()
}

#[test]
fn a_host_that_is_killed_at_any_step_undoes_what_it_has_prepared() {
    let mut chance = Chance::of_this_run();
    let mosaic = installation();
    let (data, mut leftovers) = (mosaic.data(), Leftovers::of(&mosaic.data()));
    for round in 0..soak(20) {
        for moment in MOMENTS {
            let mut host = host(&mosaic);
            until_it_serves(&mosaic, &mut host);
            let operator = Operator::of(&data);
            let name = format!("{moment}-{round}").replace("run.", "");
            let run = launch(&operator, &name, &every_step(&name));
            until(&operator, &run, moment);
            std::thread::sleep(chance.duration(Duration::from_millis(4)));
            leftovers.killed(host.pid());
            host.kill();
            let mut next = self::host(&mosaic);
            until_it_serves(&mosaic, &mut next);
            expect_undone(&data, &operator, &run, &name);
            leftovers.expect_recorded(&operator, SOON);
            leftovers.expect_clean(&[next.pid()], SOON);
            next.kill();
        }
    }
}

#[test]
fn a_step_that_was_made_and_not_yet_recorded_is_undone() {
    let mut apart = Apart::start(installation());
    let (data, operator) = (apart.mosaic.data(), apart.operator());
    let leftovers = Leftovers::of(&data);
    let mut ended = BTreeSet::new();
    for round in 0..soak(20) {
        for moment in &MOMENTS[..6] {
            let name = format!("{moment}-{round}").replace("run.", "");
            let run = launch(&operator, &name, &every_step(&name));
            until(&operator, &run, moment);
            // The launcher takes the next step, and can't record it.
            apart.process(Service::Broker).stop();
            std::thread::sleep(Duration::from_millis(50));
            apart.process(Service::Launcher).kill();
            apart.process(Service::Broker).cont();
            apart.restart(Service::Launcher);
            leftovers.expect_recorded(&operator, SOON);
            leftovers.expect_clean(&apart.live(), SOON);
            ended.insert(expect_undone(&data, &operator, &run, &name));
        }
    }
    assert!(ended.contains("refused"), "no launcher was killed in time: {ended:?}");
}
