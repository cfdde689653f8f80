//! Files that are never read to their end, and trees that never end.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write as _;

use mosaic_checkout::Reason::{self, Dirty, HiddenChanges, NotAClone, NotFastForward, TooLarge, Unreadable};

use crate::agent::Agent;
use crate::bed::{Bed, Entry, kept, moved};

const STAYS: &[Reason] = &[Dirty, HiddenChanges, TooLarge, Unreadable];

#[test]
fn pipes_in_the_work_tree_hang_nothing() {
    Bed::new().hold(&pipes());
}

#[test]
fn files_without_end_exhaust_nothing() {
    Bed::new().hold(&huge());
}

#[test]
fn bombs_exhaust_nothing() {
    Bed::new().hold(&bombs());
}

fn pipes() -> Vec<Entry> {
    vec![
        kept(".gitignore", STAYS, |agent| agent.pipe(".gitignore")),
        kept(".gitattributes", STAYS, |agent| agent.pipe(".gitattributes")),
        kept(".gitmodules", STAYS, |agent| agent.pipe(".gitmodules")),
        kept(".gitignore of a directory", STAYS, |agent| agent.pipe("src/.gitignore")),
        kept(".gitattributes of a directory, excluded", STAYS, |agent| {
            agent.pipe("src/.gitattributes");
            agent.write(".git/info/exclude", ".gitattributes\n");
            agent.age(9000);
        }),
        kept(".gitignore of an untracked directory", STAYS, |agent| agent.pipe("new/.gitignore")),
        kept("a link to a pipe as .gitignore", STAYS, |agent| {
            agent.pipe("build/pipe");
            agent.link("src/.gitignore", "../build/pipe");
        }),
        kept("a tracked file", STAYS, |agent| agent.pipe("src/a.py")),
        kept("a file that the tip adds", &[Dirty, HiddenChanges, Reason::WouldOverwrite], |agent| {
            agent.pipe("gen/out.txt");
        }),
        kept("an untracked file that git does not list", STAYS, |agent| agent.pipe("src/pipe")),
        kept("HEAD of a nested repository", STAYS, |agent| {
            std::fs::create_dir_all(agent.clone.join("nest/.git/objects")).expect("created");
            std::fs::create_dir_all(agent.clone.join("nest/.git/refs")).expect("created");
            agent.pipe("nest/.git/HEAD");
        }),
        kept("a file .git of a nested directory leads to a pipe", STAYS, |agent| {
            agent.pipe("build/pipe");
            agent.write("nest/f", "f\n");
            agent.link("nest/.git", "../build/pipe");
        }),
        kept("a nested directory whose .git is a pipe", STAYS, |agent| {
            agent.write("nest/f", "f\n");
            agent.pipe("nest/.git");
        }),
        kept("an included configuration", &[Reason::ConfigChanged], |agent| {
            agent.pipe("build/pipe");
            agent.config("[include]\n\tpath = ../build/pipe\n");
        }),
    ]
}

fn huge() -> Vec<Entry> {
    vec![
        kept("the index", &[TooLarge, NotAClone], |agent| agent.grow(".git/index", 40 << 30)),
        kept("rules", STAYS, |agent| agent.grow("src/.gitignore", 40 << 30)),
        kept("attributes", STAYS, |agent| agent.grow("lib/.gitattributes", 40 << 30)),
        kept("tracked rules", STAYS, |agent| agent.grow(".gitignore", 40 << 30)),
        kept("a tracked file", STAYS, |agent| agent.grow("lib/keep.txt", 400 << 30)),
        kept("an untracked file", STAYS, |agent| agent.grow("mine", 400 << 30)),
        moved("an ignored file", |agent| agent.grow("build/mine", 400 << 30)),
        moved("a pack", |agent| agent.grow(".git/objects/pack/pack-1.pack", 40 << 30)),
        moved("exclusions that nobody reads", |agent| agent.grow(".git/info/exclude", 40 << 30)),
        kept("a file of a nested repository", STAYS, |agent| {
            agent.grow("nest/.git/HEAD", 40 << 30);
            std::fs::create_dir_all(agent.clone.join("nest/.git/objects")).expect("created");
            std::fs::create_dir_all(agent.clone.join("nest/.git/refs")).expect("created");
        }),
        kept("directories without end", STAYS, |agent| deep(&agent.clone, 250)),
        kept("ignored directories without end", STAYS, |agent| {
            std::fs::create_dir_all(agent.clone.join("build")).expect("created");
            deep(&agent.clone.join("build"), 250);
        }),
        kept("directories without end in .git", &[TooLarge], |agent| deep(&agent.dot_git(), 250)),
        moved("very many refs", |agent| {
            agent.git(&["pack-refs", "--all"]);
            let base = &agent.root.base;
            let mut text = "# pack-refs with: peeled fully-peeled sorted \n".to_owned();
            text.push_str(&format!("{base} refs/heads/main\n{base} refs/remotes/origin/main\n"));
            for number in 0..100_000 {
                text.push_str(&format!("{base} refs/tags/t{number:06}\n"));
            }
            agent.write(".git/packed-refs", text);
        }),
    ]
}

fn deep(directory: &std::path::Path, levels: usize) {
    let path = directory.join(vec!["dddd"; levels].join("/"));
    std::fs::create_dir_all(path).expect("created");
}

fn bombs() -> Vec<Entry> {
    vec![
        kept("a tree of a milliard files in ten objects", &[NotFastForward], |agent| {
            let mut id = agent.git_with(&["hash-object", "-w", "--stdin"], b"bomb\n");
            let mut kind = "100644 blob";
            for _ in 0..9 {
                let lines: String = (0..10).map(|number| format!("{kind} {id}\tf{number}\n")).collect();
                id = agent.git_with(&["mktree"], lines.as_bytes());
                kind = "040000 tree";
            }
            let commit = agent.git(&["commit-tree", "-p", "HEAD", "-m", "bomb", &id]);
            agent.write(".git/refs/heads/main", format!("{commit}\n"));
        }),
        moved("a tree that inflates without end", |agent| {
            agent.unpack();
            let tree = agent.git(&["rev-parse", "HEAD^{tree}"]);
            inflating(agent, &tree);
        }),
        moved("a commit that inflates without end", |agent| {
            agent.unpack();
            let base = agent.root.base.clone();
            inflating(agent, &base);
        }),
    ]
}

/// Stores an object that claims 8 GiB, and has 64 MiB of them.
fn inflating(agent: &Agent<'_>, id: &str) {
    let path = agent.dot_git().join("objects").join(&id[..2]).join(&id[2..]);
    std::fs::remove_file(&path).expect("removed");
    let mut encoder = ZlibEncoder::new(std::fs::File::create(path).expect("created"), Compression::fast());
    encoder.write_all(b"tree 8589934592\0").expect("written");
    for _ in 0..64 {
        encoder.write_all(&vec![0; 1 << 20]).expect("written");
    }
    encoder.finish().expect("finished");
}
