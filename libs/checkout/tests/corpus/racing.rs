//! A process of the agent's that still lives, against the rule that none does, changes the clone while the host looks at it.
//! The verdict may be any then; still nothing of the agent's runs and nothing outside changes.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::agent::Agent;
use crate::bed::{Bed, soak};
use crate::check::Fingerprint;
use crate::roots::Flavour;

/// What the process does over and over until it is told to end.
type Flip = fn(&Path, &Path, &str);

#[test]
fn a_clone_that_changes_under_the_hosts_eyes_runs_nothing_and_leads_nowhere() {
    let bed = Bed::new();
    let flips: [(&str, Flip); 4] =
        [("config", config), ("directory", directory), ("index", index), ("objects", objects)];
    for (number, (name, flip)) in flips.into_iter().enumerate() {
        for way in bed.ways(number) {
            let root = bed.root(Flavour::Plain);
            let before_root = Fingerprint::of(&root.path);
            for _ in 0..soak(40) {
                let mut agent = Agent::begin(bed.path(), root);
                agent.canary("mod.txt", "precious\n");
                agent.canary("new.py", "precious\n");
                agent.end(way.owner);
                let request = bed.request(&agent, &way);
                let (clone, outside, command) = (&agent.clone, &agent.outside, agent.command());
                let done = AtomicBool::new(false);
                std::thread::scope(|threads| {
                    threads.spawn(|| {
                        while !done.load(Ordering::Relaxed) {
                            flip(clone, outside, &command);
                        }
                    });
                    let _any = mosaic_checkout::sync(&request);
                    done.store(true, Ordering::Relaxed);
                });
                let faults = agent.faults();
                assert!(faults.is_empty(), "{name}: {faults:?}");
                agent.remove();
            }
            assert_eq!(before_root.difference(&Fingerprint::of(&root.path)).next(), None, "{name}");
        }
    }
}

fn config(clone: &Path, _outside: &Path, command: &str) {
    let (path, other) = (clone.join(".git/config"), clone.join(".git/config.other"));
    let Ok(text) = std::fs::read_to_string(&path) else { return };
    let _may_fail = std::fs::write(&other, format!("{text}[core]\n\tfsmonitor = {command}\n"))
        .and_then(|()| std::fs::rename(&other, &path))
        .and_then(|()| std::fs::write(&other, &text))
        .and_then(|()| std::fs::rename(&other, &path));
}

fn directory(clone: &Path, outside: &Path, _command: &str) {
    for name in ["lib", "src"] {
        let (path, other) = (clone.join(name), clone.join("build-other"));
        let _may_fail = std::fs::rename(&path, &other)
            .and_then(|()| std::os::unix::fs::symlink(outside, &path))
            .and_then(|()| std::fs::remove_file(&path))
            .and_then(|()| std::fs::rename(&other, &path));
    }
}

fn index(clone: &Path, outside: &Path, _command: &str) {
    let (path, other) = (clone.join(".git/index"), clone.join(".git/index.other"));
    let _may_fail = std::fs::rename(&path, &other)
        .and_then(|()| std::os::unix::fs::symlink(outside.join("mod.txt"), &path))
        .and_then(|()| std::fs::remove_file(&path))
        .and_then(|()| std::fs::rename(&other, &path));
}

fn objects(clone: &Path, outside: &Path, _command: &str) {
    let (path, other) = (clone.join(".git/objects/pack"), clone.join(".git/objects/other"));
    let _may_fail = std::fs::rename(&path, &other)
        .and_then(|()| std::os::unix::fs::symlink(outside, &path))
        .and_then(|()| std::fs::remove_file(&path))
        .and_then(|()| std::fs::rename(&other, &path));
}
