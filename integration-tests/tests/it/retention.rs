//! What is removed, what never is, and what is left of it: `mosaic prune` and `mosaic keep`, as a person uses them.

mod crash;
mod disk;
mod full;
mod workspaces;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mosaic_integration_tests::{Installation, wait_for};
use serde_json::{Value, json};

use crate::{installation, installation_with};

const SOON: Duration = Duration::from_secs(30);

/// Everything that finished goes.
const NOW: [&str; 2] = ["--older-than", "0s"];

fn prune(mosaic: &Installation, arguments: &[&str]) -> Vec<Value> {
    mosaic.mosaic(&[&["prune", "--json"], arguments].concat()).expect(0).json_lines()
}

/// Runs a script to its end and returns the run's id.
fn ran(mosaic: &Installation, script: &str, change: impl FnOnce(&mut Value)) -> String {
    let record = mosaic.record(&mosaic.task(script, change), &[]);
    assert_eq!(record["status"], "succeeded", "{record}");
    record["runId"].as_str().expect("an id").to_owned()
}

fn directory(mosaic: &Installation, run: &str) -> PathBuf {
    mosaic.data().join("runs").join(run)
}

fn listed(mosaic: &Installation) -> Vec<String> {
    let lines = mosaic.mosaic(&["list", "--json"]).expect(0).json_lines();
    lines.iter().map(|line| line["runId"].as_str().expect("an id").to_owned()).collect()
}

/// What went, as `kind of`, in its order.
fn gone(told: &[Value]) -> Vec<String> {
    let items = told.iter().filter(|line| line["fate"] == "gone");
    let of = |line: &Value| line["runId"].as_str().or(line["session"].as_str()).expect("a subject").to_owned();
    items.map(|line| format!("{} {}", line["kind"].as_str().expect("a kind"), of(line))).collect()
}

/// Every file below `top`, with its length, mode and time of change.
fn state(top: &Path) -> BTreeMap<PathBuf, (u64, u32, i64, i64)> {
    let mut state = BTreeMap::new();
    let mut left = vec![top.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).expect("readable") {
            let path = entry.expect("an entry").path();
            let metadata = std::fs::symlink_metadata(&path).expect("there");
            if metadata.is_dir() {
                left.push(path.clone());
            }
            state.insert(path, (metadata.len(), metadata.mode(), metadata.mtime(), metadata.mtime_nsec()));
        }
    }
    state
}

#[test]
fn a_rule_by_count_leaves_the_newest_and_the_ledger_proves_it() {
    let mosaic = installation_with(|config| config["retention"] = json!({ "records": { "count": 2 } }));
    let runs: Vec<String> = (0..4).map(|_| ran(&mosaic, "echo hi", |_| {})).collect();
    let told = prune(&mosaic, &[]);
    assert_eq!(gone(&told), [format!("record {}", runs[0]), format!("record {}", runs[1])]);
    assert!(told[0]["why"] == "not among the newest 2" && told[0]["sizeBytes"].as_i64() > Some(0), "{told:?}");
    let sum = told.last().expect("a sum");
    assert_eq!((&sum["items"], &sum["cutRuns"], &sum["failed"]), (&json!(2), &json!(2), &json!(0)));

    assert_eq!(listed(&mosaic), [runs[3].clone(), runs[2].clone()]);
    for run in &runs[..2] {
        assert!(!directory(&mosaic, run).exists());
        mosaic.mosaic(&["show", run]).expect(4);
        mosaic.mosaic(&["keep", run]).expect(4);
    }
    mosaic.mosaic(&["ledger", "verify", "--repair"]).expect(0);
    assert!(!directory(&mosaic, &runs[0]).exists(), "nothing is written anew of what is gone");
    assert_eq!(gone(&prune(&mosaic, &[])), Vec::<String>::new());
}

#[test]
fn a_rule_by_bytes_leaves_what_fits() {
    let script = "head -c 1000000 /dev/zero | tr '\\0' x";
    let mosaic = installation_with(|config| config["retention"] = json!({ "output": { "bytes": 2_500_000 } }));
    let runs: Vec<String> = (0..4).map(|_| ran(&mosaic, script, |_| {})).collect();
    let told = prune(&mosaic, &[]);
    assert_eq!(gone(&told), [format!("output {}", runs[0]), format!("output {}", runs[1])]);
    for (at, run) in runs.iter().enumerate() {
        assert_eq!(directory(&mosaic, run).join("stdout.txt").exists(), at >= 2);
    }
    let shown = mosaic.mosaic(&["show", &runs[0]]).expect(0).stdout;
    assert!(shown.contains("pruned     output, "), "{shown}");
    let record = mosaic.mosaic(&["show", "--json", &runs[0]]).json();
    let written: Value =
        serde_json::from_slice(&std::fs::read(directory(&mosaic, &runs[0]).join("result.json")).expect("there"))
            .expect("JSON");
    assert_eq!((&record["pruned"][0]["part"], &record), (&json!("output"), &written));
    mosaic.mosaic(&["ledger", "verify", "--repair"]).expect(0);
    assert!(!directory(&mosaic, &runs[0]).join("stdout.txt").exists());
    mosaic.mosaic(&["watch", &runs[0]]).expect(0);
}

#[test]
fn rules_are_applied_when_a_host_starts() {
    let mosaic = installation();
    let run = ran(&mosaic, "echo hi", |_| {});
    let newest = ran(&mosaic, "echo hi", |_| {});
    mosaic.end_host();
    let path = mosaic.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path).expect("there")).expect("JSON");
    config["retention"] = json!({ "records": { "count": 1 } });
    mosaic.write("config.json", config.to_string());
    mosaic.mosaic(&["list"]).expect(0);
    wait_for("the first round", SOON, || (listed(&mosaic) == [newest.clone()]).then_some(()));
    assert!(!directory(&mosaic, &run).exists());
}

#[test]
fn nothing_goes_without_a_rule_and_a_dry_run_changes_nothing() {
    let mosaic = installation();
    let run = ran(&mosaic, "echo hi >file; echo hi; echo x >$MOSAIC_SESSION_DIR/x", |task| {
        task["workspace"] = json!(":run");
        task["session"] = json!("chat");
    });
    let refused = mosaic.mosaic(&["prune"]).expect(4);
    assert!(refused.stderr.contains("hint: add `retention`"), "{refused:?}");
    mosaic.mosaic(&["prune", "--only", "records"]).expect(4);
    mosaic.mosaic(&["prune", "--older-than", "long"]).expect(4);

    let before = ["runs", "sessions", "broker"].map(|name| state(&mosaic.data().join(name)));
    let told = prune(&mosaic, &[&["--dry-run"], &NOW[..]].concat());
    let kinds: Vec<&str> = told.iter().filter_map(|line| line["kind"].as_str()).collect();
    assert_eq!(kinds, ["output", "session", "workspace"], "the record waits for its workspace");
    assert!(told.iter().all(|line| line["fate"].is_null() || line["fate"] == "would-go"));
    let shown = mosaic.mosaic(&[&["prune", "--dry-run"], &NOW[..]].concat()).expect(0).stdout;
    assert!(shown.contains(&run) && shown.contains("3 things would go and would free "), "{shown}");
    let after = ["runs", "sessions", "broker"].map(|name| state(&mosaic.data().join(name)));
    assert_eq!(before[..2], after[..2]);
    mosaic.mosaic(&["ledger", "verify"]).expect(0);
    assert_eq!(mosaic.mosaic(&["show", "--json", &run]).json()["pruned"], Value::Null);
}

#[test]
fn what_is_kept_by_hand_never_goes() {
    let mosaic = installation();
    let kept = ran(&mosaic, "echo a", |task| task["session"] = json!("chat"));
    let other = ran(&mosaic, "echo b", |_| {});
    let said = |arguments: &[&str]| mosaic.mosaic(arguments).expect(0).stdout;
    assert!(said(&["keep", &kept]).contains("is kept: "));
    assert!(said(&["keep", &kept]).contains("is kept already"));
    assert!(said(&["keep", "--undo", &other]).contains("is not kept"));
    let before = state(&directory(&mosaic, &kept));
    assert_eq!(gone(&prune(&mosaic, &NOW)), [format!("record {other}")]);
    assert_eq!(state(&directory(&mosaic, &kept)), before);
    let lines = mosaic.mosaic(&["list", "--json"]).json_lines();
    assert_eq!((lines.len(), &lines[0]["kept"]), (1, &json!(true)));
    assert!(said(&["list"]).lines().any(|line| line.contains(&kept) && line.ends_with(" kept")));
    assert!(said(&["show", &kept]).contains("kept       yes"));

    assert!(said(&["keep", "--undo", &kept]).contains("is no longer kept"));
    let all = [format!("record {kept}"), "session chat".to_owned()];
    assert_eq!(gone(&prune(&mosaic, &NOW)), all, "its session was kept with it");
    mosaic.mosaic(&["keep", &kept]).expect(4);
}

#[test]
fn what_is_live_never_goes() {
    let mosaic = installation();
    let script = "echo one; touch file; while [ ! -e go ]; do sleep 0.05; done; echo two";
    let task = mosaic.task(script, |task| {
        task["workspace"] = json!(":run");
        task["session"] = json!("chat");
    });
    let live = mosaic.mosaic(&["run", "--detach", &task]).expect(0).stdout.trim().to_owned();
    let file = directory(&mosaic, &live).join("workspace/file");
    wait_for("the run", SOON, || file.exists().then_some(()));
    let task = mosaic.task("echo waits", |task| task["session"] = json!("chat"));
    let waiting = mosaic.mosaic(&["run", "--detach", &task]).expect(0).stdout.trim().to_owned();
    let named = ran(&mosaic, "touch kept", |task| task["workspace"] = json!("site"));
    assert_eq!(gone(&prune(&mosaic, &NOW)), [format!("record {named}")]);
    assert!(mosaic.data().join("workspaces/site/kept").exists(), "named workspaces are nobody's to prune");
    std::fs::write(directory(&mosaic, &live).join("workspace/go"), "").expect("written");
    for run in [&live, &waiting] {
        mosaic.mosaic(&["watch", run]).expect(0);
        assert_eq!(mosaic.mosaic(&["show", "--json", run]).json()["status"], "succeeded");
    }
}

#[test]
fn a_session_that_goes_leaves_no_trace_in_the_next_run() {
    let mosaic = installation();
    let script = "ls -A $MOSAIC_SESSION_DIR; echo $$ >$MOSAIC_SESSION_DIR/history; mkdir -p -m 0 $MOSAIC_SESSION_DIR/x";
    let first = ran(&mosaic, script, |task| task["session"] = json!("chat"));
    let told = prune(&mosaic, &[&NOW[..], &["--only", "sessions"]].concat());
    assert_eq!(gone(&told), ["session chat"]);
    assert!(!mosaic.data().join("sessions/chat").exists() && directory(&mosaic, &first).exists());
    let second = ran(&mosaic, &format!("{script}; echo end"), |task| task["session"] = json!("chat"));
    assert_eq!(mosaic.mosaic(&["show", "--json", &second]).json()["response"], "end");
}
