//! A disk that is really full: nothing that was acknowledged is lost, nothing that was not archived is removed, and with
//! space everything goes on.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use mosaic_integration_tests::{Installation, is_root, wait_for};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::{Value, json};

use crate::MOSAIC;

use super::{NOW, SOON, directory, installation_with, listed};

const MIB: u64 = 1024 * 1024;
/// Size of the file system beside the shim's copy, and free space below which nothing is launched.
const SIZE: u64 = 96 * MIB;
const LOW: u64 = 16 * MIB;
/// Runs that go on while the disk fills up.
const LIVE: usize = 4;

/// A data root on a small file system of its own.
struct Small {
    mosaic: Installation,
}

impl Small {
    fn new() -> Self {
        let mosaic = installation_with(|config| config["retention"] = json!({ "diskLowBytes": LOW }));
        std::fs::create_dir(mosaic.data()).expect("made");
        let shim = std::fs::metadata(MOSAIC).expect("the command under test").len();
        let size = format!("size={}", SIZE + shim);
        mount(Some("none"), &mosaic.data(), Some("tmpfs"), MsFlags::empty(), Some(size.as_str())).expect("mounted");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(mosaic.data(), mode).expect("set");
        Self { mosaic }
    }

    /// Fills the disk to its last block.
    fn fill(&self) -> PathBuf {
        let path = self.mosaic.data().join("filler");
        let mut filler = File::create(&path).expect("made");
        for block in [1 << 20, 4096, 512] {
            let block = vec![1; block];
            while filler.write_all(&block).is_ok() {}
        }
        path
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _room = std::fs::remove_file(self.mosaic.data().join("filler"));
        self.mosaic.end_host();
        umount2(&self.mosaic.data(), MntFlags::MNT_DETACH).expect("unmounted");
    }
}

fn status(mosaic: &Installation, run: &str) -> Value {
    mosaic.mosaic(&["show", "--json", run]).expect(0).json()["status"].clone()
}

/// Starts runs that write now and then until they are told to end.
fn live_runs(mosaic: &Installation) -> Vec<String> {
    let runs = (0..LIVE).map(|number| {
        let script = "while [ ! -e go ]; do echo line; sleep 0.05; done; echo end";
        let task = mosaic.task(script, |task| {
            task["workspace"] = json!(format!("live{number}"));
            task["timeoutSeconds"] = json!(600);
        });
        mosaic.mosaic(&["run", "--detach", &task]).expect(0).stdout.trim().to_owned()
    });
    let runs: Vec<String> = runs.collect();
    for run in &runs {
        wait_for("a run", SOON, || (status(mosaic, run) == "running").then_some(()));
    }
    runs
}

/// Runs that leave their workspaces full, until one is refused; their ids.
fn fill_workspaces(mosaic: &Installation) -> Vec<String> {
    let mut runs = Vec::new();
    loop {
        let task = mosaic.task("head -c 8000000 /dev/urandom >data; sha256sum <data", |task| {
            task["workspace"] = json!(":run");
        });
        let ended = mosaic.mosaic(&["run", "--json", &task]);
        let record = ended.json();
        if ended.code == 5 {
            assert_eq!((&record["reason"], &record["step"]), (&json!("disk-low"), &json!("disk")), "{record}");
            return runs;
        }
        assert_eq!(record["status"], "succeeded", "{record}");
        runs.push(record["runId"].as_str().expect("an id").to_owned());
    }
}

/// Digest of the data that a run has left: in its workspace, or in the archive of it.
fn left_by(run: &Path) -> String {
    let script = "if [ -e workspace.tar.gz ] && [ ! -e workspace ]; then tar -xzOf workspace.tar.gz workspace/data; \
        else cat workspace/data; fi | sha256sum";
    let output = std::process::Command::new("sh").args(["-c", script]).current_dir(run).output().expect("sh runs");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn expect_work(mosaic: &Installation, runs: &[String]) {
    for run in runs {
        let response = mosaic.mosaic(&["show", "--json", run]).expect(0).json()["response"].clone();
        assert_eq!(json!(left_by(&directory(mosaic, run))), response, "{run}");
    }
}

#[test]
fn a_full_disk_loses_nothing_and_with_space_everything_goes_on() {
    if !is_root() {
        return;
    }
    let small = Small::new();
    let mosaic = &small.mosaic;
    let live = live_runs(mosaic);
    let ended = fill_workspaces(mosaic);
    assert!(ended.len() > 3, "{ended:?}");
    let before = listed(mosaic);

    let filler = small.fill();
    let task = mosaic.task("echo hi", |_| {});
    for _ in 0..5 {
        let refused = mosaic.mosaic(&["run", &task]).expect(2);
        assert!(refused.stderr.contains("disk-low"), "{refused:?}");
    }
    let workspaces = [&["prune", "--only", "workspaces"], &NOW[..]].concat();
    let failed = mosaic.mosaic(&workspaces).expect(1).stdout;
    assert!(failed.contains("it can't be archived, so it stays"), "{failed}");
    for number in 0..LIVE {
        File::create(mosaic.data().join(format!("workspaces/live{number}/go"))).expect("made");
    }
    assert_eq!(listed(mosaic), before, "what is recorded is read from a full disk, and nothing was added");
    expect_work(mosaic, &ended);

    std::fs::remove_file(filler).expect("ours");
    for run in &live {
        wait_for("the end of a run", SOON * 2, || (status(mosaic, run) != "running").then_some(()));
        assert_eq!(status(mosaic, run), "succeeded");
        let output = std::fs::read_to_string(directory(mosaic, run).join("stdout.txt")).expect("there");
        assert!(output.ends_with("line\nend\n") || output.ends_with("end\n"), "{output:?}");
    }
    assert_eq!(listed(mosaic), before);
    mosaic.mosaic(&["ledger", "verify"]).expect(0);
    expect_work(mosaic, &ended);

    mosaic.mosaic(&workspaces).expect(0);
    expect_work(mosaic, &ended);
    let records = [&["prune", "--only", "records"], &NOW[..]].concat();
    mosaic.mosaic(&records).expect(0);
    mosaic.mosaic(&["run", &task]).expect(0);
    mosaic.mosaic(&["ledger", "verify"]).expect(0);
}
