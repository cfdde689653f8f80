//! One host making room for the next.

use mosaic_integration_tests::{Installation, wait_for};
use nix::sys::signal::{Signal, kill};
use serde_json::json;

use super::SOON;
use crate::installation;

fn status(mosaic: &Installation, run: &str) -> String {
    mosaic.mosaic(&["show", "--json", run]).json()["status"].as_str().expect("a status").to_owned()
}

#[test]
fn a_background_host_finishes_what_runs_and_leaves_what_waits_to_the_foreground_host() {
    let mosaic = installation();
    let slow = mosaic.task("touch begun; while [ ! -e go ]; do sleep 0.05; done; echo done", |task| {
        task["workspace"] = json!("one");
    });
    let detach = || mosaic.mosaic(&["run", "--detach", &slow]).expect(0).stdout.trim().to_owned();
    let (first, second) = (detach(), detach());
    wait_for("the first", SOON, || mosaic.data().join("workspaces/one/begun").exists().then_some(()));
    let background = mosaic.host_pid().expect("a host");

    let mut up = mosaic.start(&["up"]);
    // A launch in the meantime waits for the successor, whatever comes first.
    let third = mosaic.start(&["run", "--json", &slow]);
    assert_eq!(mosaic.host_pid(), Some(background), "it does not end while something runs");
    assert_eq!(status(&mosaic, &first), "running");
    std::fs::write(mosaic.data().join("workspaces/one/go"), "").expect("written");

    let foreground =
        wait_for("its successor", SOON, || mosaic.host_pid().filter(|pid| pid.as_raw().unsigned_abs() == up.id()));
    assert_eq!(status(&mosaic, &first), "succeeded");
    wait_for("the second", SOON, || (status(&mosaic, &second) == "succeeded").then_some(()));
    let third = third.wait_with_output().expect("ends");
    assert!(third.status.success(), "{}", String::from_utf8_lossy(&third.stderr));
    let epoch = |run: &str| mosaic.mosaic(&["watch", "--json", run]).json_lines();
    let claims = epoch(&second).iter().filter(|event| event["kind"] == "run.claimed").count();
    assert_eq!(claims, 2, "each host has claimed it once");

    kill(foreground, Signal::SIGTERM).expect("asked to end");
    assert!(up.wait().expect("ends").success());
}

#[test]
fn a_foreground_host_that_waits_for_its_place_can_be_ended() {
    let mosaic = installation();
    let task = mosaic.task("while :; do sleep 0.1; done", |_| {});
    let run = mosaic.mosaic(&["run", "--detach", &task]).expect(0).stdout.trim().to_owned();
    wait_for("the run", SOON, || (status(&mosaic, &run) == "running").then_some(()));
    let mut up = mosaic.start(&["up"]);
    let mut words = std::io::BufReader::new(up.stderr.take().expect("its words"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut words, &mut line).expect("a line");
    assert!(line.starts_with("waiting for 1 run(s) of the background host"), "{line}");
    kill(nix::unistd::Pid::from_raw(i32::try_from(up.id()).expect("a pid")), Signal::SIGTERM).expect("asked to end");
    assert!(up.wait().expect("ends").success());
    assert_eq!(status(&mosaic, &run), "running", "the run is untouched");
    mosaic.mosaic(&["stop", "--wait", &run]).expect(0);
}

#[test]
fn the_log_of_a_background_host_is_replaced_when_it_has_grown() {
    let mosaic = installation();
    let log = mosaic.data().join("run/host.log");
    mosaic.mosaic(&["list"]).expect(0);
    mosaic.end_host();
    let older = |number: u32| mosaic.data().join(format!("run/host.log.{number}"));
    for round in 1..=5 {
        let long = std::fs::OpenOptions::new().append(true).open(&log).expect("there");
        long.set_len(8 * 1024 * 1024 + round).expect("a long log");
        mosaic.mosaic(&["list"]).expect(0);
        mosaic.end_host();
        let text = std::fs::read_to_string(&log).expect("a new log");
        assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{text}");
        assert_eq!(std::fs::metadata(older(1)).expect("kept").len(), 8 * 1024 * 1024 + round);
    }
    assert!(older(3).exists() && !older(4).exists(), "three are kept");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&log).expect("there").permissions());
    assert_eq!(mode & 0o777, 0o600);
}
