//! Work that a person takes into their own repository.

use serde_json::json;

use super::{Business, WORK, git, id};

/// Refs, and everything of the work tree but times, of the person's repository.
fn state(business: &Business) -> String {
    let root = business.root();
    let refs = git(&root, &["for-each-ref", "--format=%(refname) %(objectname)"]);
    let mut files = std::process::Command::new("find");
    let files = files.arg(&root).args(["-printf", "%P %y %m %s %T@\\n"]).output().expect("find runs").stdout;
    let mut files: Vec<String> = String::from_utf8_lossy(&files)
        .lines()
        .filter(|line| {
            !line.starts_with(".git ")
                && !line.contains(".git/refs/heads")
                && !line.contains(".git/logs/refs/heads")
                && !line.contains(".git/objects")
        })
        .map(str::to_owned)
        .collect();
    files.sort();
    format!("{refs}\n{}", files.join("\n"))
}

#[test]
fn the_work_becomes_one_new_branch_and_nothing_else_changes() {
    let business = Business::new();
    let record = business.run(WORK);
    let commit = record["harvest"]["projects"][0]["work"]["commit"].as_str().expect("a commit");
    let before = state(&business);
    let applied = business.mosaic.mosaic(&["apply", id(&record), "--json"]).expect(0);
    let said = applied.json();
    let branch = format!("mosaic/{}", id(&record));
    assert_eq!(
        (&said["result"], &said["branch"], &said["work"]["tip"]),
        (&json!("applied"), &json!(branch), &json!(commit))
    );
    assert_eq!(git(&business.root(), &["rev-parse", &branch]), commit, "the id that `patch` shows");
    let trailers = git(&business.root(), &["log", "-1", "--format=%(trailers:key=Mosaic-Run,valueonly)", &branch]);
    assert_eq!(trailers, id(&record));
    git(&business.root(), &["update-ref", "-d", &format!("refs/heads/{branch}")]);
    assert_eq!(state(&business), before, "neither the work tree nor another ref, no FETCH_HEAD, no maintenance");

    let record = business.mosaic.mosaic(&["show", id(&record), "--json"]).expect(0).json();
    assert_eq!(record["integrations"][0]["tip"], commit);
    assert_eq!(record["integrations"][0]["branch"], "main");
    business.mosaic.mosaic(&["ledger", "verify"]).expect(0);
}

#[test]
fn a_branch_that_is_there_and_a_name_that_is_none_are_refused_and_leave_nothing() {
    let business = Business::new();
    let record = business.run(WORK);
    git(&business.root(), &["branch", "taken/there"]);
    let before = state(&business);
    for branch in ["taken/there", "taken", "taken/there/below", "main", "-x", "a b", "../x", "a..b", "x.lock"] {
        let refused = business.mosaic.mosaic(&["apply", id(&record), &format!("--branch={branch}")]).expect(4);
        assert!(refused.stderr.contains("branch"), "{branch}: {refused:?}");
        assert_eq!(state(&business), before, "{branch}");
    }
    assert!(business.mosaic.mosaic(&["apply", "r-none"]).expect(4).stderr.contains("no run"));
    let unknown = business.mosaic.mosaic(&["apply", id(&record), "--check", "nope"]).expect(2);
    assert!(unknown.stderr.contains("known: bad page"), "{unknown:?}");
    let unknown = business.mosaic.mosaic(&["apply", id(&record), "--onto", "nope"]).expect(2);
    assert!(unknown.stderr.contains("nope"), "{unknown:?}");
    assert_eq!(state(&business), before);
}

#[test]
fn on_a_root_that_moved_both_changes_are_in_the_branch_or_the_conflict_is_shown_first() {
    let business = Business::new();
    let record = business.run(WORK);
    std::fs::write(business.root().join("other"), "o\n").expect("written");
    git(&business.root(), &["add", "--all"]);
    git(&business.root(), &["commit", "--quiet", "--message", "other"]);
    let moved = business.mosaic.mosaic(&["apply", id(&record), "--branch", "merged", "--json"]).expect(0).json();
    assert_ne!(moved["work"]["tip"], moved["work"]["work"]);
    assert_eq!(git(&business.root(), &["rev-parse", "merged^"]), git(&business.root(), &["rev-parse", "main"]));
    assert_eq!(git(&business.root(), &["show", "merged:page"]), "1\ntwo\nthree\nfour");

    std::fs::write(business.root().join("page"), "mine\n").expect("written");
    git(&business.root(), &["commit", "--quiet", "--all", "--message", "mine"]);
    let before = state(&business);
    let conflict = business.mosaic.mosaic(&["apply", id(&record), "--branch", "no", "--json"]).expect(1);
    let said = conflict.json();
    assert_eq!((&said["result"], &said["conflicts"]), (&json!("conflicts"), &json!(["page"])));
    assert_eq!(state(&business), before);
    let as_it_was =
        business.mosaic.mosaic(&["apply", id(&record), "--branch", "own", "--on-base", "--json"]).expect(0).json();
    assert_eq!(as_it_was["work"]["tip"], as_it_was["work"]["work"]);
}

#[test]
fn checks_run_on_a_fresh_clone_in_a_sandbox_and_hold_the_work_back() {
    let business = Business::new();
    let record = business.run(WORK);
    let before = state(&business);
    let held = business.mosaic.mosaic(&["apply", id(&record), "--check", "page", "--check", "bad", "--json"]).expect(1);
    let said = held.json();
    assert_eq!(said["result"], "checks-failed", "{said}");
    let passed: Vec<_> = said["checks"].as_array().expect("checks").iter().map(|check| &check["passed"]).collect();
    assert_eq!(passed, [&json!(true), &json!(false)]);
    assert_eq!(state(&business), before, "nothing was written");
    let run = said["checks"][0]["runId"].as_str().expect("a run id");
    let check = business.mosaic.mosaic(&["show", run, "--json"]).expect(0).json();
    assert_eq!(
        (&check["adapter"], &check["workspace"], &check["status"]),
        (&json!("check"), &json!(":run"), &json!("succeeded"))
    );
    // The program saw the fresh clone, with what was not committed, and no network and no session.
    assert_eq!(check["response"], "1 two three four\nclean");
    assert!(check["session"].is_null() && check["harvest"].is_null());
    assert_eq!(check["sandbox"]["noNetwork"], true);
    let refused = business.mosaic.mosaic(&["retry", run]).expect(2);
    assert!(refused.stderr.contains("is a check of the work"), "{refused:?}");

    let good = business.mosaic.mosaic(&["apply", id(&record), "--check", "page"]).expect(0);
    assert!(good.stdout.contains("check page: passed"), "{good:?}");
    let shown = business.mosaic.mosaic(&["show", id(&record)]).expect(0).stdout;
    assert!(shown.contains("check bad failed") && shown.contains("kept back by a check"), "{shown}");
}

#[test]
fn a_bundle_that_was_changed_on_disk_is_refused() {
    let business = Business::new();
    let record = business.run(WORK);
    let run = business.mosaic.data().join("runs").join(id(&record));
    let bundle = run.join(record["harvest"]["projects"][0]["work"]["bundle"]["name"].as_str().expect("a name"));
    let mut content = std::fs::read(&bundle).expect("read");
    *content.last_mut().expect("bytes") ^= 1;
    std::fs::write(&bundle, content).expect("written");
    let before = state(&business);
    let refused = business.mosaic.mosaic(&["apply", id(&record)]).expect(2);
    assert!(refused.stderr.contains("bundle-changed"), "{refused:?}");
    assert_eq!(state(&business), before);
}
