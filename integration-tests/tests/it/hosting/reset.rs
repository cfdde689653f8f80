//! `mosaic reset`: only a data root of ours, named, asked for, only known entries.

use mosaic_integration_tests::{Installation, wait_for};
use nix::sys::signal::{Signal, kill};
use serde_json::json;

use super::SOON;
use crate::installation;

fn names(directory: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("readable");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn used() -> Installation {
    let mosaic = installation();
    let task = mosaic.task("mkdir -p a/b; chmod 000 a/b; ln -s / root; echo hi", |task| {
        task["workspace"] = json!("w");
        task["session"] = json!("s");
    });
    assert_eq!(mosaic.record(&task, &[])["status"], "succeeded");
    mosaic
}

#[test]
fn a_reset_removes_what_is_ours_and_nothing_else() {
    let mosaic = used();
    mosaic.write("data/notes.txt", "precious");
    std::fs::create_dir(mosaic.data().join("adapters/own")).expect("made");
    let reset = mosaic.mosaic(&["reset", "data", "--yes"]).expect(0);
    for part in ["1 run(s), 1 named workspace(s), 1 session(s)", "stays: adapters", "stays: notes.txt"] {
        assert!(reset.stdout.contains(part), "{reset:?}");
    }
    assert_eq!(names(&mosaic.data()), [".mosaic-data-root", "adapters", "notes.txt"]);
    assert!(mosaic.host().is_none());

    assert!(mosaic.mosaic(&["list", "--json"]).expect(0).stdout.is_empty(), "it starts anew");
    assert_eq!(mosaic.record(&mosaic.task("echo again", |_| {}), &[])["response"], "again");
}

#[test]
fn a_reset_without_a_yes_or_of_another_directory_removes_nothing() {
    let mosaic = used();
    let before = names(&mosaic.data());
    let unasked = mosaic.mosaic(&["reset", "data"]).expect(4);
    assert!(unasked.stderr.contains("--yes"), "{unasked:?}");
    for other in [".", "data/runs", "/", "missing"] {
        let refused = mosaic.mosaic(&["reset", other, "--yes"]).expect(4);
        assert!(refused.stderr.contains(other), "{refused:?}");
    }
    assert_eq!(names(&mosaic.data()), before);
    assert_eq!(mosaic.mosaic(&["list", "--json"]).expect(0).json_lines().len(), 1);
}

#[test]
fn a_reset_waits_for_nobody_and_takes_nothing_away_from_who_works() {
    let mosaic = installation();
    let run = mosaic.mosaic(&["run", "--detach", &mosaic.task("sleep 300", |_| {})]).expect(0).stdout.trim().to_owned();
    let busy = mosaic.mosaic(&["reset", "data", "--yes"]).expect(3);
    assert!(busy.stderr.contains("unfinished"), "{busy:?}");
    mosaic.mosaic(&["stop", "--wait", &run]).expect(0);
    mosaic.end_host();

    let mut up = mosaic.start(&["up"]);
    let pid = wait_for("the host", SOON, || mosaic.host_pid());
    let hosted = mosaic.mosaic(&["reset", "data", "--yes"]).expect(3);
    assert!(hosted.stderr.contains(&format!("process {pid}")), "{hosted:?}");
    kill(pid, Signal::SIGTERM).expect("asked to end");
    assert!(up.wait().expect("ends").success());
    assert!(mosaic.data().join("broker/ledger.db").exists());
}

#[test]
fn a_ledger_that_no_host_can_open_can_be_reset() {
    let mosaic = used();
    mosaic.end_host();
    std::fs::write(mosaic.data().join("broker/ledger.db"), "no database at all, but long enough to be looked at")
        .expect("written");
    mosaic.mosaic(&["list"]).expect(3);
    mosaic.mosaic(&["reset", "data", "--yes"]).expect(0);
    assert!(mosaic.mosaic(&["list", "--json"]).expect(0).stdout.is_empty());
}
