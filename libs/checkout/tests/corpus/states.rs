//! Ordinary states of a clone in which somebody works: left exactly as they are.

use std::path::Path;

use mosaic_checkout::Reason::{self, Detached, Dirty, GitBusy, NotAClone, NotFastForward, OtherBranch, WouldOverwrite};

use crate::bed::{Bed, Entry, kept};
use crate::roots::Flavour;

const UNREADABLE: &[Reason] = &[Reason::Unreadable];

#[test]
fn work_that_is_not_committed_is_kept() {
    Bed::new().hold(&uncommitted());
}

#[test]
fn commits_and_branches_of_the_agents_are_kept() {
    Bed::new().hold(&committed());
}

#[test]
fn what_git_left_half_done_is_kept() {
    Bed::new().hold(&half_done());
}

#[test]
fn files_in_the_way_of_the_tip_are_kept() {
    Bed::new().hold(&in_the_way());
}

fn uncommitted() -> Vec<Entry> {
    vec![
        kept("a file modified", &[Dirty], |agent| agent.write("README.md", "mine\n")),
        kept("a file modified with its old size and time", &[Dirty], |agent| {
            let path = agent.clone.join("README.md");
            let then = path.metadata().and_then(|metadata| metadata.modified()).expect("a time");
            agent.write("README.md", "# demo\nlinE\n");
            std::fs::File::open(path).and_then(|file| file.set_modified(then)).expect("set");
        }),
        kept("a change staged", &[Dirty], |agent| {
            agent.write("README.md", "mine\n");
            agent.git(&["add", "--all"]);
        }),
        kept("a change staged and the file put back", &[Dirty], |agent| {
            agent.write("README.md", "mine\n");
            agent.git(&["add", "--all"]);
            agent.write("README.md", "# demo\nline\n");
        }),
        kept("a removal staged and the file put back", &[Dirty], |agent| {
            agent.git(&["rm", "--quiet", "--cached", "lib/keep.txt"]);
        }),
        kept("a file added with intent", &[Dirty], |agent| {
            agent.write("later.txt", "x");
            agent.git(&["add", "--intent-to-add", "later.txt"]);
        }),
        kept("an untracked file", &[Dirty], |agent| agent.write("mine.txt", "mine\n")),
        kept("an untracked file deep in a tracked directory", &[Dirty], |agent| agent.write("src/deep/x/z/mine", "m")),
        kept("a file removed", &[Dirty], |agent| agent.remove_file("lib/keep.txt")),
        kept("a directory removed", &[Dirty], |agent| agent.remove_all("lib")),
        kept("an execute bit set", &[Dirty], |agent| agent.mode("README.md", 0o755)),
        kept("an execute bit cleared", &[Dirty], |agent| agent.mode("run.sh", 0o644)),
        kept("a link that became a file", &[Dirty], |agent| {
            agent.remove_file("link");
            agent.write("link", "src/a.py");
        }),
        kept("a file that became a link to its content", &[Dirty], |agent| {
            agent.write("build/b.py", "print('b')\n");
            agent.link("src/b.py", "../build/b.py");
        }),
        kept("a link that leads elsewhere", &[Dirty], |agent| agent.link("link", "/etc/passwd")),
        kept("a file that became a directory", &[Dirty], |agent| {
            agent.remove_file("src/b.py");
            agent.write("src/b.py/x", "x");
        }),
        kept("a directory that became a link to a copy", &[Dirty], |agent| {
            std::fs::create_dir_all(agent.clone.join("build")).expect("created");
            std::fs::rename(agent.clone.join("lib"), agent.clone.join("build/lib")).expect("moved");
            agent.link("lib", "build/lib");
        }),
        kept("names with escape sequences and line ends", &[Dirty], |agent| {
            agent.write("\u{1b}[2J\u{1b}]0;pwned\u{7}.txt", "x\n");
            agent.write("two\nlines fast-forwarded", "x\n");
            agent.write_bytes_name(b"not-utf8-\xff\xfe", "x");
        }),
        kept("no index", &[Dirty], |agent| agent.remove_file(".git/index")),
        kept("unmerged entries", &[Dirty], |agent| {
            let id = agent.git(&["rev-parse", "HEAD:README.md"]);
            let zero = "0".repeat(40);
            let lines = format!("0 {zero}\tREADME.md\n100644 {id} 1\tREADME.md\n100644 {id} 2\tREADME.md\n");
            agent.git_with(&["update-index", "--index-info"], lines.as_bytes());
        }),
    ]
}

fn committed() -> Vec<Entry> {
    vec![
        kept("a commit", &[NotFastForward], |agent| {
            agent.write("work.txt", "w\n");
            agent.commit("work");
        }),
        kept("a commit on top of the tip", &[NotFastForward], |agent| {
            agent.git(&["pull", "--quiet", "--ff-only"]);
            agent.write("work.txt", "w\n");
            agent.commit("work");
        }),
        kept("a merge of the tip", &[NotFastForward], |agent| {
            agent.write("work.txt", "w\n");
            agent.commit("work");
            agent.git(&["pull", "--quiet", "--no-rebase", "--no-edit"]);
        }),
        kept("the root was rewritten", &[NotFastForward], |_| {}).of(Flavour::Rewritten),
        kept("a commit amended", &[NotFastForward], |agent| {
            agent.git(&["commit", "--quiet", "--amend", "--message", "mine"]);
        }),
        kept("a branch without a parent", &[OtherBranch], |agent| {
            agent.git(&["checkout", "--quiet", "--orphan", "mine"]);
        }),
        kept("another branch", &[OtherBranch], |agent| {
            agent.git(&["checkout", "--quiet", "-b", "mine"]);
        }),
        kept("a branch whose name only begins alike", &[OtherBranch], |agent| {
            agent.git(&["checkout", "--quiet", "-b", "main-2"]);
        }),
        kept("a branch of another case", &[OtherBranch], |agent| {
            agent.git(&["checkout", "--quiet", "-b", "Main"]);
        }),
        kept("no branch", &[Detached], |agent| {
            agent.git(&["checkout", "--quiet", "--detach"]);
        }),
        kept("a branch without a commit", &[NotAClone], |agent| agent.remove_file(".git/refs/heads/main")),
    ]
}

fn half_done() -> Vec<Entry> {
    fn conflict(agent: &crate::agent::Agent<'_>, command: &[&str]) {
        agent.git(&["checkout", "--quiet", "-b", "side"]);
        agent.write("README.md", "side\n");
        agent.commit("side");
        agent.git(&["checkout", "--quiet", "main"]);
        agent.write("README.md", "main\n");
        agent.commit("main");
        agent.try_git(command);
    }
    const BUSY: &[Reason] = &[GitBusy];
    vec![
        kept("a merge", BUSY, |agent| conflict(agent, &["merge", "side"])),
        kept("a rebase", &[GitBusy], |agent| conflict(agent, &["rebase", "side"])),
        kept("a cherry-pick", BUSY, |agent| conflict(agent, &["cherry-pick", "side"])),
        kept("a revert", BUSY, |agent| {
            agent.write("README.md", "one\n");
            agent.commit("one");
            agent.write("README.md", "two\n");
            agent.commit("two");
            agent.try_git(&["revert", "--no-edit", "HEAD~1"]);
        }),
        kept("a merge of the base, with a clean tree", BUSY, |agent| {
            agent.write(".git/MERGE_HEAD", format!("{}\n", agent.root.base));
            agent.write(".git/MERGE_MSG", "m\n");
        }),
        kept("a stash that a merge would apply", BUSY, |agent| {
            agent.write("README.md", "mine\n");
            let id = agent.git(&["stash", "create"]);
            agent.git(&["checkout", "--quiet", "README.md"]);
            agent.write(".git/MERGE_AUTOSTASH", format!("{id}\n"));
        }),
        kept("a rebase that is only announced", BUSY, |agent| {
            agent.write(".git/rebase-merge/head-name", "refs/heads/main\n");
            agent.write(".git/rebase-merge/onto", format!("{}\n", agent.root.base));
        }),
        kept("a bisect", BUSY, |agent| {
            agent.write(".git/BISECT_LOG", "git bisect start\n");
            agent.write(".git/BISECT_START", "main\n");
        }),
        kept("a lock of the index", BUSY, |agent| agent.write(".git/index.lock", "")),
        kept("a lock of the branch", BUSY, |agent| agent.write(".git/refs/heads/main.lock", "")),
        kept("a lock of HEAD", BUSY, |agent| agent.write(".git/HEAD.lock", "")),
        kept("a lock of the packed refs", BUSY, |agent| agent.write(".git/packed-refs.lock", "")),
        kept("a lock of the configuration", BUSY, |agent| agent.write(".git/config.lock", "")),
        kept("a lock of the tracking ref", BUSY, |agent| agent.write(".git/refs/remotes/origin/main.lock", "")),
        kept("a lock that is a directory", BUSY, |agent| agent.write(".git/index.lock/x", "")),
    ]
}

fn in_the_way() -> Vec<Entry> {
    vec![
        kept("an ignored file", &[WouldOverwrite], |agent| agent.write_own("gen/out.txt", "ignored, precious\n")),
        kept("an ignored file of the root's very content", &[WouldOverwrite], |agent| {
            agent.write_own("gen/out.txt", "generated, tracked although ignored\n");
        }),
        kept("an ignored directory in the place of a file", &[WouldOverwrite], |agent| {
            agent.write_own("gen/out.txt/inner", "x");
        }),
        kept("an ignored file in a directory that becomes a file", &[WouldOverwrite], |agent| {
            agent.write_own("dir-to-file/x.o", "object\n");
        }),
        kept("an ignored link in the place of a directory", &[WouldOverwrite, Dirty], |agent| {
            agent.canary("out.txt", "precious\n");
            let outside = agent.outside.clone();
            agent.link("gen", &outside);
        }),
        kept("an ignored broken link in the place of a file", &[WouldOverwrite], |agent| {
            let target = agent.outside.join("made");
            agent.link("gen/out.txt", target);
        }),
        kept("a directory that can't be written to", UNREADABLE, |agent| {
            agent.mode("src", 0o555);
        }),
        kept("a directory that can't be searched", UNREADABLE, |agent| {
            assert!(Path::new(&agent.clone.join("lib")).exists());
            agent.mode("lib", 0o600);
        }),
    ]
}
