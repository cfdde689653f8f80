//! What is in a `:run` workspace is archived before it goes.

use std::process::Command;

use mosaic_integration_tests::{Installation, User, is_root};
use serde_json::json;

use super::{NOW, directory, gone, installation, prune, ran};
use crate::MOSAIC;

/// The workspaces alone.
fn only_workspaces() -> Vec<&'static str> {
    [&NOW[..], &["--only", "workspaces"]].concat()
}

/// What `command` says, in `directory`.
fn said(directory: &std::path::Path, command: &str) -> String {
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", command]).current_dir(directory).output().expect("sh runs");
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_workspace_comes_back_from_its_archive_byte_for_byte() {
    let mosaic = installation();
    let script = "git init -q . 2>/dev/null || mkdir .git; mkdir -p src/deep empty; head -c 300000 /dev/urandom >src/deep/data; \
        echo '#!/bin/sh' >run; chmod 750 run; ln -s /etc/passwd link; ln run hard; printf 'a\\0b' >'odd name'; \
        touch -d 2001-02-03 'odd name'";
    let run = ran(&mosaic, script, |task| task["workspace"] = json!(":run"));
    let of = directory(&mosaic, &run);
    let list = "cd workspace && find . -printf '%p %m %y %l\\n' | sort && find . -type f -exec sha256sum {} + | sort";
    let before = said(&of, list);
    let told = prune(&mosaic, &only_workspaces());
    assert_eq!(gone(&told), [format!("workspace {run}")]);
    assert!(!of.join("workspace").exists());

    let digest = told[0]["archive"]["digest"].as_str().expect("a digest");
    assert_eq!(said(&of, "sha256sum <workspace.tar.gz").split(' ').next(), Some(digest));
    let record = mosaic.mosaic(&["show", "--json", &run]).json();
    assert_eq!(record["pruned"][0]["archive"]["digest"], digest);
    let shown = mosaic.mosaic(&["show", &run]).stdout;
    assert!(shown.contains("archived as workspace.tar.gz") && shown.contains(digest), "{shown}");
    let restored = of.join("restored");
    std::fs::create_dir(&restored).expect("made");
    said(&restored, "tar -xpzf ../workspace.tar.gz");
    assert_eq!(said(&restored, list), before);

    let told = prune(&mosaic, &NOW);
    assert_eq!(gone(&told), [format!("record {run}")]);
    assert!(!of.exists(), "an archive goes with its record");
}

#[test]
fn an_empty_workspace_leaves_no_archive() {
    let mosaic = installation();
    let run = ran(&mosaic, "echo hi", |task| task["workspace"] = json!(":run"));
    let told = prune(&mosaic, &only_workspaces());
    assert!(told[0]["kind"] == "workspace" && told[0]["archive"].is_null(), "{told:?}");
    assert!(!directory(&mosaic, &run).join("workspace.tar.gz").exists());
}

#[test]
fn a_record_goes_only_after_its_workspace_was_archived() {
    let mosaic = installation();
    let run = ran(&mosaic, "echo work >file", |task| task["workspace"] = json!(":run"));
    let records = [&NOW[..], &["--only", "records"]].concat();
    let told = prune(&mosaic, &records);
    assert_eq!(gone(&told), [format!("workspace {run}")]);
    assert!(told[0]["why"].as_str().expect("a reason").contains("its record goes with the next prune"), "{told:?}");
    assert!(directory(&mosaic, &run).join("workspace.tar.gz").exists());
    assert_eq!(gone(&prune(&mosaic, &records)), [format!("record {run}")]);
}

#[test]
fn a_workspace_that_can_not_be_archived_stays_with_everything_in_it() {
    let mosaic = installation();
    let run = ran(&mosaic, "echo work >file; truncate -s 100G huge", |task| task["workspace"] = json!(":run"));
    let failed = mosaic.mosaic(&[&["prune", "--json"], &NOW[..]].concat()).expect(1).json_lines();
    let of = |kind: &str| failed.iter().find(|line| line["kind"] == kind).cloned().expect(kind);
    assert_eq!(of("workspace")["fate"], "failed");
    assert!(of("workspace")["problem"].as_str().expect("a reason").contains("can't be archived"), "{failed:?}");
    let workspace = directory(&mosaic, &run).join("workspace");
    assert_eq!(std::fs::read_to_string(workspace.join("file")).expect("there"), "work\n");
    let shown = mosaic.mosaic(&[&["prune"], &only_workspaces()[..]].concat()).expect(1).stdout;
    assert!(shown.contains("FAILED") && shown.contains("1 FAILED"), "{shown}");
    let record = mosaic.mosaic(&["show", "--json", &run]).json();
    assert_eq!(record["pruned"].as_array().map(Vec::len), Some(1), "the output alone went: {record}");
}

/// Leaves a tree that is closed, deeper than any path, and full of links and pipes.
const HOSTILE: &str = "mkdir closed && echo secret >closed/file && chmod 000 closed/file closed; \
    ln -s /etc etc; ln -s . loop; mkfifo pipe; \
    bash -c 'for i in {1..400}; do mkdir dddddddddddddddddddd && cd -P dddddddddddddddddddd || exit; done; echo deep >file'; \
    i=0; while [ $i -lt 3000 ]; do : >f$i; i=$((i+1)); done; chmod 000 .";

fn a_hostile_tree_goes(mosaic: &Installation) {
    let run = ran(mosaic, HOSTILE, |task| task["workspace"] = json!(":run"));
    let of = directory(mosaic, &run);
    let told = prune(mosaic, &only_workspaces());
    assert_eq!(gone(&told), [format!("workspace {run}")], "{told:?}");
    assert!(!of.join("workspace").exists());
    let listed = said(&of, "tar -tzf workspace.tar.gz");
    assert!(listed.contains("workspace/closed/file") && listed.lines().any(|line| line.len() > 8000));
    assert!(said(&of, "tar -xzOf workspace.tar.gz not-archived.txt").contains("pipe \"workspace/pipe\""));
    assert_eq!(gone(&prune(mosaic, &NOW)), [format!("record {run}")]);
    assert!(!of.exists() && std::path::Path::new("/etc/passwd").exists());
}

#[test]
fn a_hostile_tree_goes_as_whoever_runs_the_tests() {
    a_hostile_tree_goes(&installation());
}

#[test]
fn a_hostile_tree_goes_as_an_ordinary_user() {
    if is_root() {
        a_hostile_tree_goes(&Installation::with(MOSAIC, User::Nobody, |_| {}));
    }
}
