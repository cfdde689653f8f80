//! Many checkouts at the same time, and a host with an environment of its own.

use std::process::Command;

use mosaic_checkout::{Reason, Request, Verdict, sync};

use crate::agent::Agent;
use crate::bed::{Bed, git, soak};
use crate::check::{self, Fingerprint};
use crate::roots::Flavour;

#[test]
fn twenty_clones_of_one_root_at_once_are_all_whole() {
    let bed = Bed::new();
    let root = bed.root(Flavour::Plain);
    let before = Fingerprint::of(&root.path);
    for way in bed.ways(3) {
        let state = bed.path().join("state/shared");
        let requests: Vec<Request> = (0..20)
            .map(|number| Request { state: state.clone(), ..bed.wanted(&root.path, &format!("many-{number}"), &way) })
            .collect();
        for expected in [Verdict::Cloned, Verdict::FastForwarded] {
            std::thread::scope(|threads| {
                for request in &requests {
                    threads.spawn(|| {
                        let done = sync(request).expect("done");
                        assert_eq!((done.verdict, done.reason), (expected, None), "{done:?}");
                    });
                }
            });
        }
        for request in &requests {
            assert_eq!(check::files(&request.clone, root), [""; 0]);
            assert_eq!(check::sound(&Agent::at(bed.path(), root, request.clone.clone())), [""; 0]);
            std::fs::remove_dir_all(request.clone.parent().expect("a parent")).expect("removed");
        }
        std::fs::remove_dir_all(&state).expect("removed");
    }
    assert_eq!(before.difference(&Fingerprint::of(&root.path)).next(), None);
}

#[test]
fn two_checkouts_of_one_clone_at_once_leave_it_at_the_tip() {
    let bed = Bed::new();
    let root = bed.root(Flavour::Plain);
    for (number, way) in bed.more_ways(1).into_iter().enumerate() {
        // With one state they wait for each other; with two, git's own locks hold.
        for round in 0..=soak(40) {
            let shared = round == 0;
            let mut agent = Agent::begin(bed.path(), root);
            agent.write_own("build/mine", "mine");
            agent.end(way.owner);
            let one = bed.request(&agent, &way);
            let state = bed.path().join(format!("state/other-{number}"));
            let other = Request { state: if shared { one.state.clone() } else { state }, ..one.clone() };
            std::thread::scope(|threads| {
                for request in [&one, &other] {
                    threads.spawn(move || {
                        let done = sync(request).expect("done");
                        // What another one is writing looks like work in it.
                        let late = [
                            Reason::GitBusy,
                            Reason::GitFailed,
                            Reason::Dirty,
                            Reason::HiddenChanges,
                            Reason::WouldOverwrite,
                        ];
                        let fits = match done.reason {
                            None => done.verdict == Verdict::FastForwarded,
                            Some(reason) => !shared && late.contains(&reason),
                        };
                        assert!(fits, "{done:?}");
                    });
                }
            });
            assert_eq!(agent.faults(), [""; 0]);
            assert_eq!(check::files(&agent.clone, root), [""; 0]);
            assert_eq!(check::sound(&agent), [""; 0]);
            agent.remove();
        }
    }
}

/// Runs a test of this corpus again in a process whose environment would lead git astray.
#[test]
fn the_environment_of_the_host_has_no_say() {
    let bed = Bed::new();
    let root = bed.root(Flavour::Plain);
    let before = Fingerprint::of(&root.path);
    let marker = bed.path().join("markers/environment");
    let touch = format!("touch '{}'", marker.display());
    let (dot_git, global) = (root.path.join(".git"), bed.path().join("home/hostile"));
    std::fs::create_dir(&global).expect("created");
    git(&root.home, &global, &["init", "--quiet", "--template=", "."]);
    git(&root.home, &global, &["config", "--file", ".gitconfig", "core.fsmonitor", &touch]);
    let mut command = Command::new(std::env::current_exe().expect("a program"));
    command.args(["--exact", "benign::honest_clones_are_brought_up_to_date"]);
    for (name, value) in [
        ("GIT_DIR", dot_git.as_os_str()),
        ("GIT_WORK_TREE", root.path.as_os_str()),
        ("GIT_INDEX_FILE", dot_git.join("index").as_os_str()),
        ("GIT_OBJECT_DIRECTORY", dot_git.join("objects").as_os_str()),
        ("GIT_COMMON_DIR", dot_git.as_os_str()),
        ("HOME", global.as_os_str()),
        ("XDG_CONFIG_HOME", global.as_os_str()),
        ("GIT_TRACE", marker.as_os_str()),
        ("GIT_TRACE2_EVENT", marker.as_os_str()),
    ] {
        command.env(name, value);
    }
    let touching = [
        "GIT_EXTERNAL_DIFF",
        "GIT_SSH_COMMAND",
        "GIT_ASKPASS",
        "GIT_PAGER",
        "GIT_EDITOR",
        "GIT_PROXY_COMMAND",
        "BASH_ENV",
        "ENV",
    ];
    for name in touching {
        command.env(name, &touch);
    }
    command.envs([
        ("GIT_EXEC_PATH", "/nonexistent"),
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "core.fsmonitor"),
    ]);
    command.envs([("GIT_CONFIG_VALUE_0", &*touch), ("GIT_NAMESPACE", "x"), ("GIT_CEILING_DIRECTORIES", "/")]);
    let output = command.output().expect("runs");
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && words.contains("1 passed"), "{words}");
    assert!(!marker.exists(), "the environment had a say");
    assert_eq!(before.difference(&Fingerprint::of(&root.path)).next(), None);
}
