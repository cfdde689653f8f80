//! The work of runs, taken out of their clones: recorded once, shown as a patch, and known to the session's next run.

mod apply;
mod crash;

use std::path::{Path, PathBuf};
use std::process::Command;

use mosaic_integration_tests::Installation;
use serde_json::{Value, json};

use crate::installation_with;

/// An installation with two projects, `site` and `shop`.
pub(crate) struct Business {
    pub(crate) mosaic: Installation,
    home: tempfile::TempDir,
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.invalid"]).args(arguments);
    let output = command.current_dir(directory).output().expect("git runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl Business {
    fn new() -> Self {
        Self::with(|_| {})
    }

    /// One whose configuration is changed by `change`.
    pub(crate) fn with(change: impl FnOnce(&mut Value)) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let projects = ["site", "shop"].map(|name| {
            let root = home.path().join(name);
            std::fs::create_dir(&root).expect("made");
            git(&root, &["init", "--quiet", "--initial-branch=main"]);
            std::fs::write(root.join("page"), "one\ntwo\nthree\n").expect("written");
            git(&root, &["add", "--all"]);
            git(&root, &["commit", "--quiet", "--message", "first"]);
            json!({ "id": name, "root": root })
        });
        let business = home.path().join("business.json");
        let text = json!({
            "businessVersion": 1,
            "id": "acme",
            "projects": projects,
            "checks": {
                "page": {
                    "executable": "/bin/sh",
                    "arguments": ["-c", "echo $(cat page); test -z \"$(git status --porcelain)\" && echo clean"],
                    "timeoutSeconds": 60,
                },
                "bad": { "executable": "/bin/false" },
            },
        });
        std::fs::write(&business, text.to_string()).expect("written");
        let mosaic = installation_with(|config| {
            config["business"] = json!(business);
            change(config);
        });
        Self { mosaic, home }
    }

    fn root(&self) -> PathBuf {
        self.home.path().join("site")
    }

    fn clone(&self) -> PathBuf {
        self.mosaic.data().join("workspaces/w/site")
    }

    fn task(&self, script: &str, change: impl FnOnce(&mut Value)) -> String {
        self.mosaic.task(script, |task| {
            task["workspace"] = json!("w");
            task["projects"] = json!(["site"]);
            change(task);
        })
    }

    /// Runs `script` in the workspace `w`, with a clone of `site`.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.mosaic.record(&self.task(script, |_| {}), &[])
    }

    /// The next turn of the session `talk`.
    fn turn(&self, script: &str) -> Value {
        self.mosaic.record(&self.task(script, |task| task["session"] = json!("talk")), &[])
    }
}

fn id(record: &Value) -> &str {
    record["runId"].as_str().expect("a run id")
}

const WORK: &str = "cd site; echo four >> page; git -c user.name=A -c user.email=a@b commit -qam more; \
                    sed -i s/one/1/ page; printf 'new\\n' > new; echo done";

#[test]
fn what_an_agent_commits_edits_and_adds_is_taken_out_and_can_be_applied() {
    let business = Business::new();
    let base = git(&business.root(), &["rev-parse", "HEAD"]);
    let record = business.run(WORK);
    assert_eq!(record["harvest"]["state"], "done", "{record}");
    let work = &record["harvest"]["projects"][0]["work"];
    assert_eq!(
        (&work["base"], &work["files"], &work["added"], &work["removed"]),
        (&json!(base), &json!(2), &json!(3), &json!(1))
    );
    assert_eq!(record["checkouts"][0]["tree"], git(&business.root(), &["rev-parse", "HEAD^{tree}"]));

    let run = business.mosaic.data().join("runs").join(id(&record));
    for file in ["patch", "bundle", "handoff"] {
        let content = std::fs::read(run.join(work[file]["name"].as_str().expect("a name"))).expect("written");
        assert_eq!(work[file]["digest"], mosaic_ids::Digest::of(&content).to_string(), "{file}");
        assert_eq!(work[file]["sizeBytes"], content.len() as u64, "{file}");
    }
    let written: Value =
        serde_json::from_slice(&std::fs::read(run.join("result.json")).expect("written")).expect("JSON");
    assert_eq!(written["harvest"], record["harvest"]);
    let events = std::fs::read_to_string(run.join("events.jsonl")).expect("written");
    let kinds: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(kinds.last().expect("an event")["kind"], "run.harvested");

    // Into a pipe goes the patch alone.
    let patch = business.mosaic.mosaic(&["patch", id(&record)]).expect(0);
    assert!(patch.stdout.starts_with("diff --git "), "{patch:?}");
    assert!(patch.stderr.contains("files      2, +3 -1"), "{patch:?}");
    std::fs::write(business.home.path().join("work.patch"), &patch.stdout).expect("written");
    git(&business.root(), &["apply", "--index", "../work.patch"]);
    assert_eq!(git(&business.root(), &["write-tree"]), work["tree"].as_str().expect("a tree"));
}

#[test]
fn the_work_of_a_run_is_shown_in_each_form_that_is_asked_for() {
    let business = Business::new();
    let task =
        business.task(&format!("{WORK}; printf '\\033[2J\\n' > evil; printf '#!/bin/sh\\n' > x; chmod +x x"), |task| {
            task["projects"] = json!(["site", "shop"]);
        });
    let finished = business.mosaic.mosaic(&["run", &task]).expect(0);
    let run = finished.stderr.lines().find_map(|line| line.strip_prefix("run ")).expect("a run").trim().to_owned();
    let line = format!("changed    site: 4 files changed, +5 -1, 1 to look at; mosaic patch {run} --project site");
    assert!(finished.stderr.contains(&line), "{finished:?}");
    assert!(!finished.stderr.contains("--project shop"), "nothing has changed there: {finished:?}");

    let shown = business.mosaic.mosaic(&["show", &run]).expect(0).stdout;
    assert!(shown.contains("harvest    done\n"), "{shown}");
    assert!(shown.contains("site: 4 files changed, +5 -1, 1 to look at, commit "), "{shown}");
    assert!(shown.contains("shop: 0 files changed, +0 -0, commit "), "{shown}");

    let several = business.mosaic.mosaic(&["patch", &run]).expect(4);
    assert!(several.stderr.contains("has several projects: site shop"), "{several:?}");
    assert!(business.mosaic.mosaic(&["patch", &run, "--project", "x"]).expect(4).stderr.contains("it has: site shop"));
    let none = business.mosaic.mosaic(&["patch", &run, "--project", "shop"]).expect(0);
    assert_eq!(none.stdout, "");

    let of_site = |flags: &[&str]| {
        business.mosaic.mosaic(&[&["patch", &run, "--project", "site"], flags].concat()).expect(0).stdout
    };
    let stat = of_site(&["--stat"]);
    assert!(stat.contains("look at    executable: x\n") && stat.contains("M     +2     -1 page\n"), "{stat}");
    let handoff: Value = serde_json::from_str(&of_site(&["--json"])).expect("JSON");
    assert_eq!((&handoff["runId"], &handoff["handoffVersion"]), (&json!(run), &json!(1)));
    let raw = of_site(&[]);
    assert!(raw.contains("+\u{1b}[2J"), "raw bytes into a pipe: {raw:?}");
    let coloured = of_site(&["--color", "always"]);
    assert!(coloured.contains("\u{1b}[1mdiff --git a/evil b/evil\u{1b}[m"), "{coloured:?}");
    assert!(coloured.contains("\u{1b}[32m+\\u{1b}[2J\u{1b}[m"), "{coloured:?}");

    let path = business.mosaic.data().join("runs").join(&run).join("harvest/site/work.patch");
    std::fs::write(&path, raw.replace("new", "old")).expect("written");
    let changed = business.mosaic.mosaic(&["patch", &run, "--project", "site"]).expect(2);
    assert!(changed.stderr.contains("bundle-changed"), "{changed:?}");
    std::fs::remove_file(&path).expect("removed");
    assert!(business.mosaic.mosaic(&["patch", &run, "--project", "site"]).expect(2).stderr.contains("bundle-changed"));
}

#[test]
fn a_run_that_did_not_run_has_no_harvest_and_one_that_failed_has() {
    let business = Business::new();
    let record = business.run("echo half > site/half; exit 3");
    assert_eq!((&record["status"], &record["harvest"]["state"]), (&json!("failed"), &json!("done")), "{record}");
    assert_eq!(record["harvest"]["projects"][0]["work"]["files"], 1);
    let alone = business.mosaic.record(&business.mosaic.task("echo alone", |_| {}), &[]);
    assert!(alone["harvest"].is_null(), "{alone}");
    assert!(business.mosaic.mosaic(&["patch", id(&alone)]).expect(4).stderr.contains("has no clone"));
    git(&business.root(), &["checkout", "--quiet", "--detach"]);
    std::fs::remove_dir_all(business.clone()).expect("removed");
    let refused = business.run("true");
    assert_eq!((&refused["status"], &refused["harvest"]), (&json!("refused"), &Value::Null), "{refused}");
}

#[test]
fn a_clone_that_an_agent_has_removed_is_a_harvest_that_failed() {
    let business = Business::new();
    let record = business.run("rm -rf site");
    assert_eq!((&record["status"], &record["harvest"]["state"]), (&json!("succeeded"), &json!("failed")), "{record}");
    assert_eq!(record["harvest"]["projects"][0]["failure"], "workspace-missing");
    let patch = business.mosaic.mosaic(&["patch", id(&record)]).expect(4);
    assert!(patch.stderr.contains("workspace-missing"), "{patch:?}");
    let shown = business.mosaic.mosaic(&["show", id(&record)]).expect(0).stdout;
    assert!(shown.contains("site: workspace-missing: the clone is gone"), "{shown}");
}

#[test]
fn a_run_in_a_workspace_of_its_own_is_harvested_there() {
    let business = Business::new();
    let record = business.mosaic.record(&business.task(WORK, |task| task["workspace"] = json!(":run")), &[]);
    assert_eq!(record["harvest"]["projects"][0]["work"]["files"], 2, "{record}");
    business.mosaic.mosaic(&["prune", "--older-than", "0s", "--only", "workspaces"]).expect(0);
    let patch = business.mosaic.mosaic(&["patch", id(&record)]).expect(0);
    assert!(patch.stdout.starts_with("diff --git "), "what was taken out outlives the workspace: {patch:?}");
}

#[test]
fn a_session_is_told_when_somebody_else_has_changed_what_it_left() {
    let business = Business::new();
    let first = business.turn("echo mine > site/mine");
    assert_eq!(first["notes"], json!([]), "{first}");
    let second =
        business.turn("cat site/mine; echo more >> site/mine; ! grep -q 'last turn' $MOSAIC_SYSTEM_PROMPT_FILE");
    assert_eq!((&second["status"], &second["notes"]), (&json!("succeeded"), &json!([])), "{second}");
    assert_eq!(second["checkouts"][0]["tree"], first["harvest"]["projects"][0]["work"]["tree"]);

    let other = business.run("echo theirs >> site/mine");
    assert_eq!(other["notes"], json!([]), "a run without a session has nothing to compare with: {other}");
    let third = business.turn("grep 'last turn' $MOSAIC_SYSTEM_PROMPT_FILE");
    assert_eq!((&third["status"], &third["notes"]), (&json!("succeeded"), &json!(["workspace-changed"])), "{third}");
    assert!(third["response"].as_str().expect("text").contains("has changed what is in site;"), "{third}");
    assert_eq!(business.turn("true")["notes"], json!([]), "it is told once");
}

#[test]
fn a_session_whose_workspace_or_clone_is_gone_is_refused_until_it_is_put_back_or_begun_anew() {
    let business = Business::new();
    business.turn("echo mine > site/mine");
    let (workspace, aside) = (business.mosaic.data().join("workspaces/w"), business.mosaic.path().join("aside"));
    for (path, step) in [(business.clone(), "checkouts"), (workspace, "workspace")] {
        std::fs::rename(&path, &aside).expect("put aside");
        let refused = business.turn("cat site/mine");
        assert_eq!(
            (&refused["status"], &refused["reason"]),
            (&json!("refused"), &json!("workspace-missing")),
            "{refused}"
        );
        assert_eq!(refused["step"], step);
        let message = refused["warnings"][0].as_str().expect("a message");
        assert!(message.contains("hint: put it back, or use another session name"), "{message}");
        assert!(!path.exists(), "nothing is made in its place");
        std::fs::rename(&aside, &path).expect("put back");
        assert_eq!(business.turn("cat site/mine")["response"], "mine");
    }
    std::fs::remove_dir_all(business.clone()).expect("removed");
    let other = business.mosaic.record(&business.task("cat site/page", |task| task["session"] = json!("other")), &[]);
    assert_eq!(other["status"], "succeeded", "{other}");
}
