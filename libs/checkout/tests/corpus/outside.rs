//! Ways out of the clone through what the tip writes: links in the place of directories, and second names.

use mosaic_checkout::Reason::{self, Dirty, HiddenChanges, WouldOverwrite};

use crate::bed::{Bed, Entry, kept, moved};

const STAYS: &[Reason] = &[Dirty, HiddenChanges, WouldOverwrite];

#[test]
fn nothing_outside_of_a_clone_is_written() {
    Bed::new().hold(&entries());
}

fn entries() -> Vec<Entry> {
    vec![
        kept("a directory of changed files leads out, hidden by the index", STAYS, |agent| {
            agent.canary("mod.txt", "lib 1\n");
            agent.canary("keep.txt", "keep\n");
            agent.git(&["update-index", "--skip-worktree", "lib/mod.txt", "lib/keep.txt"]);
            let outside = agent.outside.clone();
            agent.link("lib", &outside);
            agent.write(".git/info/exclude", "/lib\n");
        }),
        kept("a directory of removed files leads out", STAYS, |agent| {
            agent.canary("f", "f\n");
            let outside = agent.outside.clone();
            agent.link("dir-to-file", &outside);
            agent.git(&["update-index", "--skip-worktree", "dir-to-file/f"]);
            agent.write(".git/info/exclude", "/dir-to-file\n");
        }),
        kept("a directory that the tip makes leads out", STAYS, |agent| {
            agent.canary("x", "x\n");
            let outside = agent.outside.clone();
            agent.link("docs", &outside);
            agent.write(".git/info/exclude", "/docs\n");
        }),
        kept("an ignored directory that the tip fills leads out", STAYS, |agent| {
            agent.canary("x", "x\n");
            let outside = agent.outside.clone();
            agent.link("gen", &outside);
            agent.write(".git/info/exclude", "/gen\n");
        }),
        kept("a file that the tip adds is a link that leads out", STAYS, |agent| {
            let victim = agent.canary("victim", "precious\n");
            agent.link("src/new.py", victim);
            agent.write(".git/info/exclude", "new.py\n");
        }),
        kept("a deep directory leads up and out", STAYS, |agent| {
            agent.link("src/deep", "../../../outside");
        }),
        moved("an ignored link to a directory outside", |agent| {
            agent.canary("x", "x\n");
            let outside = agent.outside.clone();
            agent.link("build/out", outside);
        }),
    ]
}

/// The content of a second name stays, though the clone's own file is replaced.
#[test]
fn a_second_name_of_a_changed_file_keeps_its_content() {
    let bed = Bed::new();
    for way in bed.ways(1) {
        let mut agent = crate::agent::Agent::begin(bed.path(), bed.root(crate::roots::Flavour::Plain));
        let victim = bed.path().join("victim");
        let _none = std::fs::remove_file(&victim);
        std::fs::hard_link(agent.clone.join("lib/mod.txt"), &victim).expect("linked");
        agent.end(way.owner);
        let done = mosaic_checkout::sync(&bed.request(&agent, &way)).expect("looked");
        assert_eq!(done.reason, None, "{done:?}");
        assert_eq!(std::fs::read(&victim).expect("read"), b"lib 1\n");
        assert_eq!(std::fs::read(agent.clone.join("lib/mod.txt")).expect("read"), b"lib 2\n");
        agent.remove();
    }
}
