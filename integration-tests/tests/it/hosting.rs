//! One host a data root: started by whoever needs it, shared, replaced, and gone when nobody needs it.

mod reset;
mod succession;

use std::time::Duration;

use mosaic_integration_tests::wait_for;
use nix::sys::signal::{Signal, kill};
use serde_json::json;

use crate::installation;

const SOON: Duration = Duration::from_secs(20);

#[test]
fn commands_that_start_at_once_share_one_host() {
    let mosaic = installation();
    let children: Vec<_> = (0..6).map(|_| mosaic.start(&["list", "--json"])).collect();
    for child in children {
        assert!(child.wait_with_output().expect("ends").status.success());
    }
    let first = mosaic.host_pid().expect("a host");
    mosaic.mosaic(&["list"]).expect(0);
    assert_eq!(mosaic.host_pid(), Some(first));
}

#[test]
fn a_detached_run_goes_on_and_can_be_watched_from_anywhere() {
    let mosaic = installation();
    let task = mosaic.task("echo one; while [ ! -e go ]; do sleep 0.05; done; echo two", |task| {
        task["workspace"] = json!("shared");
    });
    let run = mosaic.mosaic(&["run", "--detach", &task]).expect(0).stdout.trim().to_owned();
    let watchers: Vec<_> = (0..2).map(|_| mosaic.start(&["watch", "--json", &run])).collect();
    wait_for("the run", SOON, || {
        (mosaic.mosaic(&["show", "--json", &run]).json()["status"] == "running").then_some(())
    });
    std::fs::write(mosaic.data().join("workspaces/shared/go"), "").expect("written");
    for watcher in watchers {
        let output = watcher.wait_with_output().expect("ends");
        let lines: Vec<serde_json::Value> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let sequences: Vec<i64> = lines.iter().filter_map(|line| line["sequence"].as_i64()).collect();
        assert!(sequences.is_sorted_by(|a, b| a < b), "{sequences:?}");
        let text: String =
            lines.iter().filter(|line| line["stream"] == "stdout").filter_map(|line| line["text"].as_str()).collect();
        assert_eq!(text, "one\ntwo\n");
        assert_eq!(lines.iter().filter(|line| line["kind"] == "run.ended").count(), 1);
    }
}

#[test]
fn a_host_that_nobody_needs_ends_and_leaves_no_file_that_claims_it() {
    let mosaic = installation();
    let mut host = mosaic.start(&["up", "--idle-exit", "1s"]);
    wait_for("the host", SOON, || mosaic.host());
    mosaic.mosaic(&["list"]).expect(0);
    wait_for("its end", SOON, || host.try_wait().expect("waited for"));
    assert!(mosaic.host().is_none());
}

#[test]
fn a_second_foreground_host_is_refused_with_the_pid_of_the_first() {
    let mosaic = installation();
    let mut host = mosaic.start(&["up"]);
    let pid = wait_for("the host", SOON, || mosaic.host_pid());
    let second = mosaic.mosaic(&["up"]).expect(3);
    assert!(second.stderr.contains(&format!("process {pid}")), "{second:?}");
    kill(pid, Signal::SIGTERM).expect("asked to end");
    assert!(host.wait().expect("ends").success());
}

#[test]
fn a_foreground_host_takes_the_place_of_a_background_host_and_what_is_queued() {
    let mosaic = installation();
    mosaic.mosaic(&["list"]).expect(0);
    let background = mosaic.host_pid().expect("a host");
    let mut host = mosaic.start(&["up"]);
    let foreground = wait_for("its successor", SOON, || mosaic.host_pid().filter(|pid| *pid != background));
    assert_eq!(foreground.as_raw().unsigned_abs(), host.id());
    assert_eq!(mosaic.record(&mosaic.task("echo hi", |_| {}), &[])["response"], "hi");
    kill(foreground, Signal::SIGTERM).expect("asked to end");
    assert!(host.wait().expect("ends").success());
}

#[test]
fn another_configuration_replaces_an_idle_background_host_and_leaves_a_busy_one_alone() {
    let mosaic = installation();
    let task = mosaic.task("sleep 30", |_| {});
    mosaic.mosaic(&["validate", &task]).expect(0);
    let first = mosaic.host_pid().expect("a host");
    let mut other: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(mosaic.path().join("config.json")).expect("there"))
            .expect("JSON");
    other["execution"]["model"] = json!("another-model");
    mosaic.write("other.json", other.to_string());
    mosaic.mosaic(&["--config", "other.json", "validate", &task]).expect(0);
    assert_ne!(mosaic.host_pid().expect("a host"), first);

    let run = mosaic.mosaic(&["--config", "other.json", "run", "--detach", &task]).expect(0).stdout.trim().to_owned();
    let refused = mosaic.mosaic(&["run", &task]).expect(3);
    for part in ["another configuration (execution.model)", "unfinished"] {
        assert!(refused.stderr.contains(part), "{refused:?}");
    }
    assert!(mosaic.mosaic(&["list"]).expect(0).stdout.contains(&run), "what is recorded is seen by everybody");
    mosaic.mosaic(&["stop", "--wait", &run]).expect(0);
    mosaic.mosaic(&["validate", &task]).expect(0);
}

#[test]
fn a_background_host_has_a_session_of_its_own_and_nothing_of_its_starters_environment() {
    let mosaic = installation();
    let mut command = mosaic.command(&["list"]);
    command.env("SECRET_TOKEN", "canary");
    assert!(command.output().expect("ends").status.success());
    let pid = mosaic.host_pid().expect("a host");
    let environment = std::fs::read_to_string(format!("/proc/{pid}/environ")).expect("ours");
    let names: Vec<&str> = environment.split('\0').filter_map(|pair| Some(pair.split_once('=')?.0)).collect();
    assert_eq!(names, ["PATH"]);
    assert_eq!(std::fs::read_link(format!("/proc/{pid}/cwd")).expect("ours"), std::path::Path::new("/"));
    assert_eq!(nix::unistd::getsid(Some(pid)).expect("there"), pid);
}

#[test]
fn a_killed_host_is_replaced_and_its_run_is_recorded_as_lost() {
    let mosaic = installation();
    let run = mosaic.mosaic(&["run", "--detach", &mosaic.task("sleep 60", |_| {})]).expect(0).stdout.trim().to_owned();
    let show = || mosaic.mosaic(&["show", "--json", &run]).json();
    wait_for("the run", SOON, || (show()["status"] == "running").then_some(()));
    kill(mosaic.host_pid().expect("a host"), Signal::SIGKILL).expect("killed");
    let record = wait_for("its record", SOON, || Some(show()).filter(|record| record["finishedAt"].is_string()));
    assert_eq!((record["status"].as_str(), record["reason"].as_str()), (Some("lost"), Some("runner-lost")));
    mosaic.mosaic(&["ledger", "verify"]).expect(0);
}

#[test]
fn a_run_waits_for_its_workspace_or_is_refused_when_it_must_not() {
    let mosaic = installation();
    let task =
        mosaic.task("while [ ! -e go ]; do sleep 0.05; done; echo done", |task| task["workspace"] = json!("one"));
    let first = mosaic.mosaic(&["run", "--detach", &task]).expect(0).stdout.trim().to_owned();
    let status = |run: &str| mosaic.mosaic(&["show", "--json", run]).json()["status"].as_str().map(str::to_owned);
    wait_for("the first", SOON, || (status(&first).as_deref() == Some("running")).then_some(()));
    let refused = mosaic.mosaic(&["run", "--no-wait", &task]).expect(2);
    assert!(refused.stderr.contains("`workspace:one` is in use by") && refused.stderr.contains(&first), "{refused:?}");
    let second = mosaic.mosaic(&["run", "--detach", &task]).expect(0).stdout.trim().to_owned();
    let third = mosaic.mosaic(&["run", "--detach", &task]).expect(0).stdout.trim().to_owned();
    mosaic.mosaic(&["stop", "--wait", &second]).expect(0);
    assert_eq!(status(&second).as_deref(), Some("cancelled"));
    assert_eq!(status(&third).as_deref(), Some("queued"));
    std::fs::write(mosaic.data().join("workspaces/one/go"), "").expect("written");
    wait_for("the third", SOON, || (status(&third).as_deref() == Some("succeeded")).then_some(()));
    assert_eq!(status(&first).as_deref(), Some("succeeded"));
}

/// A host that was killed while one run had a workspace and another one waited for it; returns the waiting one.
fn killed_with_a_run_in_the_queue(mosaic: &mosaic_integration_tests::Installation) -> String {
    let task = mosaic.task("[ -e go ] || { touch go; sleep 60; }", |task| task["workspace"] = json!("one"));
    let first = mosaic.mosaic(&["run", "--detach", &task]).expect(0).stdout.trim().to_owned();
    wait_for("the first", SOON, || {
        (mosaic.mosaic(&["show", "--json", &first]).json()["status"] == "running").then_some(())
    });
    wait_for("its mark", SOON, || mosaic.data().join("workspaces/one/go").exists().then_some(()));
    let second = mosaic.mosaic(&["run", "--detach", &task]).expect(0).stdout.trim().to_owned();
    kill(mosaic.host_pid().expect("a host"), Signal::SIGKILL).expect("killed");
    second
}

#[test]
fn a_foreground_host_takes_what_a_killed_one_has_left_in_the_queue() {
    let mosaic = installation();
    let queued = killed_with_a_run_in_the_queue(&mosaic);
    let mut host = mosaic.start(&["up"]);
    let pid = wait_for("the host", SOON, || mosaic.host_pid().filter(|pid| pid.as_raw().unsigned_abs() == host.id()));
    wait_for("the run", SOON, || {
        (mosaic.mosaic(&["show", "--json", &queued]).json()["status"] == "succeeded").then_some(())
    });
    kill(pid, Signal::SIGTERM).expect("asked to end");
    assert!(host.wait().expect("ends").success());
}

#[test]
fn what_a_killed_host_has_left_in_the_queue_can_be_stopped() {
    let mosaic = installation();
    let queued = killed_with_a_run_in_the_queue(&mosaic);
    mosaic.mosaic(&["stop", "--wait", &queued]).expect(0);
    assert_eq!(mosaic.mosaic(&["show", "--json", &queued]).json()["status"], "cancelled");
    assert!(mosaic.data().join("runs").join(&queued).join("result.json").exists());
}

#[test]
fn a_file_that_a_killed_host_has_left_makes_nobody_end_another_process() {
    let mosaic = installation();
    let mut bystander = std::process::Command::new("sleep").arg("300").spawn().expect("it starts");
    mosaic.mosaic(&["list"]).expect(0);
    let mut file = mosaic.host().expect("a host");
    kill(mosaic.host_pid().expect("a host"), Signal::SIGKILL).expect("killed");
    file["pid"] = json!(bystander.id());
    file["build"] = json!("another");
    mosaic.write("data/run/host.json", file.to_string());
    let children: Vec<_> = (0..4).map(|_| mosaic.start(&["list"])).collect();
    for child in children {
        assert!(child.wait_with_output().expect("ends").status.success());
    }
    assert!(bystander.try_wait().expect("waited for").is_none(), "the bystander lives");
    bystander.kill().expect("ours");
    bystander.wait().expect("ours");
}

#[test]
fn the_demo_shows_a_change_and_leaves_the_directories_of_others_alone() {
    let mosaic = installation();
    let foreign = mosaic.path().join("foreign");
    std::fs::create_dir(&foreign).expect("a directory");
    std::fs::write(foreign.join("config.json"), "precious").expect("written");
    mosaic.mosaic(&["demo", "--directory", "foreign"]).expect(4);
    assert_eq!(std::fs::read_to_string(foreign.join("config.json")).expect("kept"), "precious");

    let demo = mosaic.mosaic(&["demo"]).expect(0);
    assert!(demo.stdout.contains("+echo \"Hello, ${1:-world}\"") && demo.stdout.contains("succeeded"), "{demo:?}");
    let commands = demo.stdout.split("Go on with:\n").nth(1).expect("commands").lines().map(str::trim);
    for command in commands.filter(|command| !command.is_empty()) {
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(["-c", command]).current_dir(mosaic.path()).output().expect("sh runs");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let config = mosaic.path().join("mosaic-demo/data/run/host.json");
    let host: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(config).expect("a host")).expect("JSON");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(host["pid"].as_i64().expect("a pid")).expect("a pid"));
    kill(pid, Signal::SIGTERM).expect("asked to end");
    wait_for("its end", SOON, || kill(pid, None).is_err().then_some(()));
}

#[test]
fn what_can_not_be_written_is_no_success_and_a_reader_that_left_is() {
    let mosaic = installation();
    mosaic.mosaic(&["list"]).expect(0);
    for arguments in [&["config", "show"][..], &["completions", "bash"], &["doctor"], &["ledger", "verify"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("a full device");
        let output = mosaic.command(arguments).stdout(full).output().expect("ends");
        assert_eq!(output.status.code(), Some(4), "{arguments:?}");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = mosaic.command(arguments).stdout(writer).output().expect("ends");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_host_that_is_asked_twice_ends_its_runs_and_records_them() {
    let mosaic = installation();
    let mut host = mosaic.start(&["up", "--drain", "10m"]);
    let pid = wait_for("the host", SOON, || mosaic.host_pid());
    let run = mosaic.mosaic(&["run", "--detach", &mosaic.task("sleep 300", |_| {})]).expect(0).stdout.trim().to_owned();
    wait_for("the run", SOON, || {
        (mosaic.mosaic(&["show", "--json", &run]).json()["status"] == "running").then_some(())
    });
    kill(pid, Signal::SIGTERM).expect("asked to end");
    let answer = mosaic.mosaic(&["show", "--json", &run]).expect(0).json();
    assert_eq!(answer["status"], "running", "a host that drains still answers, and cuts nothing short");
    kill(pid, Signal::SIGTERM).expect("asked again");
    assert!(host.wait().expect("ends").success());
    let result = std::fs::read_to_string(mosaic.data().join("runs").join(&run).join("result.json")).expect("recorded");
    let record: serde_json::Value = serde_json::from_str(&result).expect("JSON");
    assert_eq!(record["status"], "cancelled", "{record}");
}
