//! Clones of projects at a launch: made, brought up to date, or left exactly as they are.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use mosaic_integration_tests::Installation;
use serde_json::{Value, json};

use crate::installation_with;

/// An installation with one project, `site`.
struct Business {
    mosaic: Installation,
    root: PathBuf,
    _home: tempfile::TempDir,
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
        let home = tempfile::tempdir().expect("a directory");
        let root = home.path().join("site");
        std::fs::create_dir(&root).expect("made");
        git(&root, &["init", "--quiet", "--initial-branch=main"]);
        let business = home.path().join("business.json");
        let text = json!({ "businessVersion": 1, "id": "acme", "projects": [{ "id": "site", "root": root }] });
        std::fs::write(&business, text.to_string()).expect("written");
        let mosaic = installation_with(|config| config["business"] = json!(business));
        let business = Self { mosaic, root, _home: home };
        business.commit("page", "one\n");
        business
    }

    fn commit(&self, name: &str, content: &str) -> String {
        std::fs::write(self.root.join(name), content).expect("written");
        git(&self.root, &["add", "--all"]);
        git(&self.root, &["commit", "--quiet", "--message", name]);
        git(&self.root, &["rev-parse", "HEAD"])
    }

    /// Runs `script` in the workspace `w`, with a clone of the project.
    fn run(&self, script: &str) -> Value {
        let task = self.mosaic.task(script, |task| {
            task["workspace"] = json!("w");
            task["projects"] = json!(["site"]);
        });
        self.mosaic.record(&task, &[])
    }

    fn workspace(&self) -> PathBuf {
        self.mosaic.data().join("workspaces/w")
    }
}

#[test]
fn a_clone_is_made_follows_its_root_and_is_kept_once_an_agent_has_worked_in_it() {
    let business = Business::new();
    let first = git(&business.root, &["rev-parse", "HEAD"]);
    std::fs::write(business.root.join("secret"), "stashed").expect("written");
    git(&business.root, &["stash", "--include-untracked", "--quiet"]);
    git(&business.root, &["branch", "other"]);

    let record = business.run("cat site/page; git -C site for-each-ref --format='%(refname)'");
    assert_eq!(
        record["response"], "one\nrefs/heads/main\nrefs/remotes/origin/HEAD\nrefs/remotes/origin/main",
        "{record}"
    );
    let tree = git(&business.root, &["rev-parse", "HEAD^{tree}"]);
    let cloned = json!([{ "project": "site", "verdict": "cloned", "branch": "main", "tip": first, "tree": tree }]);
    assert_eq!(record["checkouts"], cloned);

    let second = business.commit("page", "two\n");
    let record = business.run("cat site/page; git -C site status --porcelain; git -C site rev-parse HEAD");
    assert_eq!(record["response"], format!("two\n{second}"), "{record}");
    assert_eq!(record["checkouts"][0]["verdict"], "fast-forwarded");
    assert_eq!(record["checkouts"][0]["base"], first);

    business.run("echo mine > site/new");
    business.commit("page", "three\n");
    let record = business.run("cat site/page site/new");
    assert_eq!(record["response"], "two\nmine", "{record}");
    assert_eq!(record["checkouts"][0]["verdict"], "checkout-kept");
    assert_eq!(record["checkouts"][0]["reason"], "dirty");
    let shown = business.mosaic.mosaic(&["show", record["runId"].as_str().expect("an id")]).expect(0).stdout;
    assert!(shown.contains("checkout   site: checkout-kept, dirty: 1 path(s) differ, the first is `new`"), "{shown}");
    assert_eq!(git(&business.root, &["status", "--porcelain"]), "", "the root is as it was");
}

#[test]
fn a_payload_in_a_clone_is_never_executed_by_a_launch() {
    let business = Business::new();
    let marker = business.root.with_file_name("marker");
    let script = "git -C site config core.fsmonitor \"touch $MARKER\"; git -C site config core.hooksPath \"$PWD/h\"; \
                  mkdir h; printf '#!/bin/sh\\ntouch %s\\n' \"$MARKER\" > h/post-merge; chmod +x h/post-merge";
    business.run(&script.replace("$MARKER", &marker.display().to_string()));
    business.commit("page", "two\n");
    let record = business.run("cat site/page");
    assert_eq!(record["checkouts"][0]["verdict"], "refused", "{record}");
    assert_eq!(record["checkouts"][0]["reason"], "config-changed");
    assert_eq!(record["response"], "one", "the run goes on with the clone as it is");
    assert!(!marker.exists());
    let distrusted = record["checkouts"][0]["distrusted"].as_array().expect("a list").clone();
    assert_eq!(distrusted.len(), 2, "{record}");
    assert_eq!(
        distrusted[0],
        json!({ "what": "config", "at": format!(".git/config: core.fsmonitor = touch {}", marker.display()) })
    );
    let shown = business.mosaic.mosaic(&["show", record["runId"].as_str().expect("an id")]).expect(0);
    assert!(shown.stdout.contains("not trusted: config: .git/config: core.hookspath = "), "{}", shown.stdout);
}

#[test]
fn a_clone_that_can_not_be_made_refuses_the_run_and_leaves_nothing() {
    let business = Business::new();
    git(&business.root, &["checkout", "--quiet", "--detach"]);
    let record = business.run("echo never");
    assert_eq!((&record["status"], &record["reason"]), (&json!("refused"), &json!("checkout-failed")), "{record}");
    assert_eq!(record["step"], "checkouts");
    assert!(!business.workspace().exists(), "the workspace that was made for it is gone");

    git(&business.root, &["checkout", "--quiet", "main"]);
    assert_eq!(business.run("cat site/page")["response"], "one");
    git(&business.root, &["checkout", "--quiet", "--detach"]);
    let record = business.run("cat site/page");
    assert_eq!(record["checkouts"][0]["reason"], "no-branch", "{record}");
    assert_eq!(record["response"], "one", "an existing clone is kept");
}

#[test]
fn projects_are_checked_before_anything_is_recorded_and_retried_as_they_were() {
    let business = Business::new();
    let unknown = business.mosaic.task("true", |task| {
        task["workspace"] = json!("w");
        task["projects"] = json!(["nope"]);
    });
    let refused = business.mosaic.mosaic(&["run", &unknown]).expect(2);
    assert!(refused.stderr.contains("unknown project \"nope\"; known: site"), "{refused:?}");

    let record = business.run("cat site/page");
    std::fs::remove_file(business.root.with_file_name("business.json")).expect("removed");
    let refused = business.mosaic.mosaic(&["run", "task.json"]).expect(2);
    assert!(refused.stderr.contains("business.json") && refused.stderr.contains("invalid-config"), "{refused:?}");
    let again = business.mosaic.mosaic(&["retry", "--json", record["runId"].as_str().expect("an id")]).expect(0).json();
    assert_eq!(again["response"], "one", "a retry needs no file that the run came from");
}

#[test]
fn twenty_launches_on_one_project_work_on_twenty_trees() {
    let business = Business::new();
    let task = business.mosaic.task("echo mine > site/own; cat site/page", |task| {
        task["workspace"] = json!(":run");
        task["projects"] = json!(["site"]);
    });
    let children: Vec<_> = (0..20).map(|_| business.mosaic.start(&["run", "--json", &task])).collect();
    let mut roots = std::collections::BTreeSet::new();
    for child in children {
        let output = child.wait_with_output().expect("ends");
        let record: Value = serde_json::from_slice(&output.stdout).expect("a record");
        assert_eq!((&record["response"], &record["checkouts"][0]["verdict"]), (&json!("one"), &json!("cloned")));
        roots.insert(record["workspaceRoot"].as_str().expect("a path").to_owned());
    }
    assert_eq!(roots.len(), 20);
}

#[test]
fn a_lock_that_somebody_holds_on_an_index_outlives_twenty_launches() {
    let business = Business::new();
    business.run("true");
    let lock = business.workspace().join("site/.git/index.lock");
    std::fs::write(&lock, "somebody's").expect("written");
    let owner = std::fs::metadata(business.workspace()).expect("there").uid();
    std::os::unix::fs::chown(&lock, Some(owner), Some(owner)).expect("owned");
    let task = business.mosaic.task("cat site/page", |task| {
        task["workspace"] = json!("w");
        task["projects"] = json!(["site"]);
    });
    let children: Vec<_> = (0..20).map(|_| business.mosaic.start(&["run", "--json", &task])).collect();
    for child in children {
        let output = child.wait_with_output().expect("ends");
        let record: Value = serde_json::from_slice(&output.stdout).expect("a record");
        assert_eq!((&record["status"], &record["checkouts"][0]["reason"]), (&json!("succeeded"), &json!("git-busy")));
        assert_eq!(record["harvest"]["state"], "done", "{record}");
    }
    assert_eq!(std::fs::read_to_string(&lock).expect("there"), "somebody's");
}

#[test]
fn one_checkout_is_done_by_hand_without_services() {
    let business = Business::new();
    let step = |verb: &str| {
        let root = business.root.display().to_string();
        let line = business.mosaic.mosaic(&["checkout", verb, "clone", "--root", &root, "--state", "state", "--json"]);
        line.expect(0).json()
    };
    assert_eq!(step("inspect")["verdict"], "cloned");
    assert!(!business.mosaic.path().join("clone").exists(), "to inspect makes nothing");
    assert_eq!(step("sync")["verdict"], "cloned");
    business.commit("page", "two\n");
    assert_eq!(step("sync")["verdict"], "fast-forwarded");
    std::fs::write(business.mosaic.path().join("clone/page"), "changed").expect("written");
    assert_eq!((&step("sync")["verdict"], &step("inspect")["reason"]), (&json!("checkout-kept"), &json!("dirty")));
    assert!(business.mosaic.host().is_none(), "no host was started");
    let missing = business.mosaic.mosaic(&["checkout", "sync", "x", "--root", "/nonexistent", "--json"]).expect(4);
    assert_eq!(missing.json()["verdict"], "checkout-failed");
    // People are told what would be done, and which branch there is not.
    let root = business.root.display().to_string();
    let people = |clone: &str, more: &[&str]| {
        let line = [&["checkout", "inspect", clone, "--root", &root, "--state", "state"], more].concat();
        business.mosaic.mosaic(&line)
    };
    assert!(people("new", &[]).expect(0).stdout.starts_with("would be cloned: `main` is at "));
    git(&business.mosaic.path().join("clone"), &["checkout", "--quiet", "page"]);
    business.commit("page", "three\n");
    assert!(people("clone", &[]).expect(0).stdout.starts_with("would be fast-forwarded: `main` is at "));
    let unknown = people("new", &["--branch", "nowhere"]).expect(4);
    assert!(unknown.stderr.contains("has no branch `nowhere`"), "{}", unknown.stderr);
}
