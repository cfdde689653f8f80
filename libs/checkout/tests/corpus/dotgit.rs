//! What else is in `.git`: links, pipes, foreign files, refs and heads that are not what they seem.

use std::os::unix::fs::symlink;

use mosaic_checkout::Reason::{self, HiddenChanges, NotAClone, OtherBranch, TooLarge, Unreadable};

use crate::agent::Agent;
use crate::bed::{Bed, Entry, as_root, kept};
use crate::check::Fingerprint;

const NOT_A_CLONE: &[Reason] = &[NotAClone];

#[test]
fn links_lead_nowhere() {
    Bed::new().hold(&links());
}

#[test]
fn pipes_sockets_and_second_names_are_refused() {
    Bed::new().hold(&special());
}

#[test]
fn files_that_change_what_a_repository_is_are_refused() {
    Bed::new().hold(&foreign());
}

#[test]
fn refs_are_what_they_are() {
    Bed::new().hold(&refs());
}

/// Moves what is at `path` out of the clone and puts a link to it in its place.
fn moved_out(agent: &Agent<'_>, path: &str) {
    let outside = agent.outside.join("moved");
    let at = agent.clone.join(path);
    if at.symlink_metadata().is_ok() {
        std::fs::rename(&at, &outside).expect("moved");
    } else {
        std::fs::write(&outside, "precious\n").expect("written");
    }
    agent.link(path, &outside);
}

fn links() -> Vec<Entry> {
    vec![
        kept("the clone is a link", NOT_A_CLONE, |agent| {
            let outside = agent.outside.join("clone");
            std::fs::rename(&agent.clone, &outside).expect("moved");
            symlink(&outside, &agent.clone).expect("linked");
        }),
        kept("the clone is a broken link", NOT_A_CLONE, |agent| {
            std::fs::remove_dir_all(&agent.clone).expect("removed");
            symlink(agent.outside.join("none"), &agent.clone).expect("linked");
        }),
        kept(".git", NOT_A_CLONE, |agent| moved_out(agent, ".git")),
        kept("HEAD", NOT_A_CLONE, |agent| moved_out(agent, ".git/HEAD")),
        kept("config", NOT_A_CLONE, |agent| moved_out(agent, ".git/config")),
        kept("index", NOT_A_CLONE, |agent| moved_out(agent, ".git/index")),
        kept("refs", NOT_A_CLONE, |agent| moved_out(agent, ".git/refs")),
        kept("refs/heads", NOT_A_CLONE, |agent| moved_out(agent, ".git/refs/heads")),
        kept("the branch", NOT_A_CLONE, |agent| moved_out(agent, ".git/refs/heads/main")),
        kept("the tracking ref", NOT_A_CLONE, |agent| moved_out(agent, ".git/refs/remotes")),
        kept("objects", NOT_A_CLONE, |agent| moved_out(agent, ".git/objects")),
        kept("objects/pack", NOT_A_CLONE, |agent| moved_out(agent, ".git/objects/pack")),
        kept("objects/info", NOT_A_CLONE, |agent| moved_out(agent, ".git/objects/info")),
        kept("logs/HEAD", NOT_A_CLONE, |agent| moved_out(agent, ".git/logs/HEAD")),
        kept("logs", NOT_A_CLONE, |agent| moved_out(agent, ".git/logs")),
        kept("FETCH_HEAD", NOT_A_CLONE, |agent| moved_out(agent, ".git/FETCH_HEAD")),
        kept("ORIG_HEAD", NOT_A_CLONE, |agent| moved_out(agent, ".git/ORIG_HEAD")),
        kept("packed-refs", NOT_A_CLONE, |agent| moved_out(agent, ".git/packed-refs")),
        kept("info", NOT_A_CLONE, |agent| moved_out(agent, ".git/info")),
        kept("hooks", NOT_A_CLONE, |agent| moved_out(agent, ".git/hooks")),
        kept("a link of the agent's own", NOT_A_CLONE, |agent| agent.link(".git/mine", "HEAD")),
        kept("a link to the process that looks", NOT_A_CLONE, |agent| {
            agent.link(".git/packed-refs", "/proc/self/fd/0");
        }),
        kept("a link to itself", NOT_A_CLONE, |agent| agent.link(".git/FETCH_HEAD", "FETCH_HEAD")),
        kept("the index's lock", NOT_A_CLONE, |agent| moved_out(agent, ".git/index.lock")),
    ]
}

fn special() -> Vec<Entry> {
    vec![
        kept("HEAD is a pipe", NOT_A_CLONE, |agent| agent.pipe(".git/HEAD")),
        kept("config is a pipe", NOT_A_CLONE, |agent| agent.pipe(".git/config")),
        kept("index is a pipe", NOT_A_CLONE, |agent| agent.pipe(".git/index")),
        kept("packed-refs is a pipe", NOT_A_CLONE, |agent| agent.pipe(".git/packed-refs")),
        kept("the branch is a pipe", NOT_A_CLONE, |agent| agent.pipe(".git/refs/heads/main")),
        kept("info/exclude is a pipe", NOT_A_CLONE, |agent| agent.pipe(".git/info/exclude")),
        kept("a pack is a pipe", NOT_A_CLONE, |agent| agent.pipe(".git/objects/pack/pack-1.idx")),
        kept("a socket", NOT_A_CLONE, |agent| {
            // Paths of sockets are short: it is bound outside.
            let path = agent.outside.join("s");
            drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
            std::fs::rename(path, agent.dot_git().join("socket")).expect("moved");
        }),
        kept("files with a second name outside", NOT_A_CLONE, |agent| {
            for name in ["logs/HEAD", "FETCH_HEAD"] {
                let at = agent.dot_git().join(name);
                let outside = agent.canary(&name.replace('/', "-"), std::fs::read(&at).unwrap_or_default());
                let _none = std::fs::remove_file(&at);
                std::fs::hard_link(outside, at).expect("linked");
            }
        }),
        kept("an index with a second name in the clone", NOT_A_CLONE, |agent| {
            std::fs::hard_link(agent.dot_git().join("index"), agent.dot_git().join("index2")).expect("linked");
        }),
        kept("HEAD is a directory", NOT_A_CLONE, |agent| {
            agent.remove_file(".git/HEAD");
            agent.write(".git/HEAD/x", "x");
        }),
        kept("index is a directory", &[NotAClone, TooLarge, Reason::Dirty], |agent| {
            agent.remove_file(".git/index");
            agent.write(".git/index/x", "x");
        }),
        kept("the branch is a directory", &[NotAClone, OtherBranch], |agent| {
            agent.git(&["pack-refs", "--all"]);
            agent.write(".git/refs/heads/main/x", "x");
        }),
        kept("objects are not open to their owner", &[Unreadable], |agent| agent.mode(".git/objects", 0)),
        kept("the index is not open to its owner", &[Unreadable], |agent| agent.mode(".git/index", 0)),
        kept("objects can't be written to", &[Unreadable, Reason::GitFailed], |agent| {
            agent.mode(".git/objects", 0o555);
        }),
        kept(".git can't be written to", &[Unreadable, Reason::GitFailed, Reason::GitBusy], |agent| {
            agent.mode(".git", 0o555);
        }),
    ]
}

fn foreign() -> Vec<Entry> {
    vec![
        kept("no .git", NOT_A_CLONE, |agent| agent.remove_all(".git")),
        kept("an empty .git", NOT_A_CLONE, |agent| {
            agent.remove_all(".git");
            std::fs::create_dir(agent.dot_git()).expect("created");
        }),
        kept("no objects", NOT_A_CLONE, |agent| agent.remove_all(".git/objects")),
        kept("no refs", NOT_A_CLONE, |agent| {
            agent.git(&["pack-refs", "--all"]);
            agent.remove_all(".git/refs");
        }),
        kept("a file .git", NOT_A_CLONE, |agent| {
            std::fs::rename(agent.dot_git(), agent.outside.join("g")).expect("moved");
            agent.write(".git", format!("gitdir: {}\n", agent.outside.join("g").display()));
        }),
        kept("a clone that is a file", NOT_A_CLONE, |agent| {
            std::fs::remove_dir_all(&agent.clone).expect("removed");
            std::fs::write(&agent.clone, "x").expect("written");
        }),
        kept("commondir", NOT_A_CLONE, |agent| {
            let other = agent.other_repository();
            agent.write(".git/commondir", format!("{}/.git\n", other.display()));
        }),
        kept("gitdir", NOT_A_CLONE, |agent| agent.write(".git/gitdir", "/x/.git\n")),
        kept("alternates", NOT_A_CLONE, |agent| {
            let other = agent.other_repository();
            agent.write(".git/objects/info/alternates", format!("{}/.git/objects\n", other.display()));
        }),
        kept("alternates by http", NOT_A_CLONE, |agent| {
            agent.write(".git/objects/info/http-alternates", "http://localhost/x\n");
        }),
        kept("grafts", NOT_A_CLONE, |agent| agent.write(".git/info/grafts", format!("{}\n", agent.root.base))),
        kept("shallow", NOT_A_CLONE, |agent| agent.write(".git/shallow", format!("{}\n", agent.root.base))),
        kept("refs of another backend", NOT_A_CLONE, |agent| agent.write(".git/reftable/tables.list", "")),
        kept("refs that replace objects", NOT_A_CLONE, |agent| {
            agent.git(&["fetch", "--quiet"]);
            let old = agent.git(&["rev-parse", "origin/main:src/new.py"]);
            let new = agent.git_with(&["hash-object", "-w", "--stdin"], b"print('evil')\n");
            agent.git(&["update-ref", &format!("refs/replace/{old}"), &new]);
        }),
        kept("attributes", NOT_A_CLONE, |agent| agent.write(".git/info/attributes", "* -text\n")),
    ]
}

fn refs() -> Vec<Entry> {
    vec![
        kept("an empty HEAD", NOT_A_CLONE, |agent| agent.write(".git/HEAD", "")),
        kept("a HEAD without a line end", NOT_A_CLONE, |agent| agent.write(".git/HEAD", "ref: refs/heads/main")),
        kept("a HEAD of two lines", NOT_A_CLONE, |agent| agent.write(".git/HEAD", "ref: refs/heads/main\nx\n")),
        kept("a HEAD that leads out", NOT_A_CLONE, |agent| agent.write(".git/HEAD", "ref: refs/heads/../../x\n")),
        kept("a HEAD that is an option", NOT_A_CLONE, |agent| agent.write(".git/HEAD", "ref: refs/heads/--x\n")),
        kept("a HEAD at a tag", NOT_A_CLONE, |agent| {
            agent.git(&["tag", "main"]);
            agent.write(".git/HEAD", "ref: refs/tags/main\n");
        }),
        kept("a huge HEAD", &[TooLarge], |agent| agent.grow(".git/HEAD", 40 << 30)),
        kept("a branch that is another", &[HiddenChanges], |agent| {
            agent.git(&["branch", "other"]);
            agent.write(".git/refs/heads/main", "ref: refs/heads/other\n");
        }),
        kept("a branch that is no id", &[HiddenChanges], |agent| agent.write(".git/refs/heads/main", "x\n")),
        kept("a branch of capital digits", &[HiddenChanges], |agent| {
            agent.write(".git/refs/heads/main", format!("{}\n", agent.root.base.to_uppercase()));
        }),
        kept("a branch packed twice", NOT_A_CLONE, |agent| {
            let (base, tree) = (agent.root.base.clone(), agent.git(&["rev-parse", "HEAD^{tree}"]));
            let other = agent.git(&["commit-tree", "-p", "HEAD", "-m", "x", &tree]);
            agent.remove_file(".git/refs/heads/main");
            agent.write(
                ".git/packed-refs",
                format!(
                    "# pack-refs with: peeled fully-peeled sorted \n{base} refs/heads/main\n{other} refs/heads/main\n"
                ),
            );
        }),
        kept("packed refs that are none", NOT_A_CLONE, |agent| {
            agent.git(&["pack-refs", "--all"]);
            agent.append(".git/packed-refs", "nonsense\n");
        }),
        kept("huge packed refs", &[TooLarge], |agent| {
            agent.git(&["pack-refs", "--all"]);
            agent.grow(".git/packed-refs", 40 << 30);
        }),
    ]
}

/// As root, a clone that another user has put files into is told from one of the agent's own.
#[test]
fn files_of_other_users_are_refused() {
    if !as_root("files of other users") {
        return;
    }
    let bed = Bed::new();
    for way in bed.ways(0) {
        for path in ["", ".git", ".git/config", ".git/objects", ".git/refs/heads/main"] {
            let mut agent = Agent::begin(bed.path(), bed.root(crate::roots::Flavour::Plain));
            agent.end(way.owner);
            std::os::unix::fs::chown(agent.clone.join(path), Some(65_533), None).expect("given");
            let before = Fingerprint::of(&agent.clone);
            let done = mosaic_checkout::sync(&bed.request(&agent, &way)).expect("looked");
            assert!(matches!(done.reason, Some(NotAClone | Unreadable)), "{path}: {done:?}");
            assert_eq!(before.difference(&Fingerprint::of(&agent.clone)).next(), None);
            agent.remove();
        }
    }
}
