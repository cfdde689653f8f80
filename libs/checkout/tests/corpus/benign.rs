//! What honest agents leave: each of these clones must be brought up to date.

use std::os::unix::fs::symlink;

use crate::bed::{Bed, Entry, git, moved};
use crate::roots::Flavour;

#[test]
fn honest_clones_are_brought_up_to_date() {
    Bed::new().hold_widely(&untouched());
}

#[test]
fn clones_in_which_git_was_used_are_brought_up_to_date() {
    Bed::new().hold_widely(&used());
}

#[test]
fn files_that_git_does_not_track_stay_as_they_are() {
    Bed::new().hold_widely(&beside());
}

fn untouched() -> Vec<Entry> {
    vec![
        moved("nothing was done", |_| {}),
        moved("nothing was done, empty tip", |_| {}).of(Flavour::EmptyTip),
        moved("nothing was done, a branch with an odd name", |_| {}).of(Flavour::Branch),
        moved("a submodule that is not checked out", |_| {}).of(Flavour::Super),
        moved("all files touched", |agent| agent.age(7200)),
        moved("modes that git does not record", |agent| {
            agent.mode("README.md", 0o600);
            agent.mode("src/deep", 0o700);
            agent.mode("run.sh", 0o700);
        }),
        moved("a file rewritten with the same content", |agent| {
            agent.remove_file("README.md");
            agent.write("README.md", "# demo\nline\n");
        }),
        moved("line ends that the attributes make equal", |agent| agent.write("crlf.bat", "echo 1\necho 2\n")),
        moved("an empty directory", |agent| std::fs::create_dir_all(agent.clone.join("empty/er")).expect("created")),
        moved("the agent pulled by itself", |agent| {
            agent.git(&["pull", "--quiet", "--ff-only"]);
        }),
        moved("the agent fetched by itself", |agent| {
            agent.git(&["fetch", "--quiet"]);
        }),
    ]
}

fn used() -> Vec<Entry> {
    vec![
        moved("a name and an address", |agent| {
            agent.git(&["config", "user.name", "An \"Agent\" # of mine; \\ \u{2603}"]);
            agent.git(&["config", "user.email", "a@example.invalid"]);
        }),
        moved("everything packed", |agent| {
            agent.git(&["-c", "gc.writeCommitGraph=true", "gc", "--quiet"]);
            agent.git(&["pack-refs", "--all"]);
            agent.git(&["commit-graph", "write", "--reachable"]);
        }),
        moved("an index of version 4", |agent| {
            agent.git(&["update-index", "--index-version", "4"]);
        }),
        moved("an index of version 3 and back", |agent| {
            agent.write("later.txt", "x");
            agent.git(&["add", "--intent-to-add", "later.txt"]);
            agent.git(&["rm", "--quiet", "--cached", "later.txt"]);
            agent.remove_file("later.txt");
        }),
        moved("an untracked cache", |agent| {
            agent.git(&["update-index", "--untracked-cache"]);
            agent.git(&["status"]);
        }),
        moved("a commit that was undone", |agent| {
            agent.write("tmp.txt", "t\n");
            agent.commit("tmp");
            agent.git(&["reset", "--quiet", "--hard", &agent.root.base]);
        }),
        moved("tags and another branch", |agent| {
            agent.git(&["tag", "v1"]);
            agent.git(&["tag", "--annotate", "--message", "annotated", "v2"]);
            agent.git(&["checkout", "--quiet", "-b", "side"]);
            agent.write("side.txt", "s\n");
            agent.commit("side");
            agent.git(&["checkout", "--quiet", "main"]);
            agent.git(&["branch", "follows", "--track", "origin/main"]);
        }),
        moved("a stash and a note", |agent| {
            agent.write("README.md", "mine\n");
            agent.git(&["stash", "push", "--quiet"]);
            agent.git(&["notes", "add", "--message", "n", "HEAD"]);
        }),
        moved("a bundle of reflogs", |agent| {
            for number in 0..20 {
                agent.git(&["commit", "--quiet", "--allow-empty", "--message", &number.to_string()]);
            }
            agent.git(&["reset", "--quiet", "--hard", &agent.root.base]);
        }),
        moved("a merge that was aborted", |agent| {
            agent.git(&["checkout", "--quiet", "-b", "side"]);
            agent.write("README.md", "side\n");
            agent.commit("side");
            agent.git(&["checkout", "--quiet", "main"]);
            agent.write("README.md", "main\n");
            agent.commit("main");
            agent.try_git(&["merge", "side"]);
            agent.git(&["merge", "--abort"]);
            agent.git(&["reset", "--quiet", "--hard", &agent.root.base]);
        }),
        moved("a worktree that is gone", |agent| {
            agent.git(&["worktree", "add", "--quiet", "-b", "wt", "build/wt"]);
            agent.git(&["worktree", "remove", "build/wt"]);
        }),
        moved("many objects that nothing names", |agent| {
            let mut stream = String::new();
            for number in 0..2000 {
                stream.push_str(&format!("blob\ndata {}\n{number}\n", number.to_string().len()));
            }
            agent.git_with(&["-c", "fastimport.unpackLimit=100000", "fast-import", "--quiet"], stream.as_bytes());
        }),
        moved("a worktree that is there", |agent| {
            agent.git(&["worktree", "add", "--quiet", "-b", "wt", "build/wt"]);
            agent.write("build/wt/work.txt", "w\n");
        }),
        moved("the settings of a branch of its own", |agent| {
            agent.git(&["checkout", "--quiet", "-b", "mine", "--track", "main"]);
            agent.git(&["checkout", "--quiet", "-b", "other", "--track", "origin/main"]);
            agent.git(&["checkout", "--quiet", "main"]);
        }),
        moved("refs in files of both kinds", |agent| {
            agent.git(&["pack-refs", "--all"]);
            let stale = agent.git(&["commit-tree", "-m", "stale", "HEAD^{tree}"]);
            let packed = std::fs::read_to_string(agent.dot_git().join("packed-refs")).expect("read");
            agent.write(".git/packed-refs", packed.replace(&agent.root.base, &stale));
            agent.write(".git/refs/heads/main", format!("{}\n", agent.root.base));
        }),
        moved("a cherry-pick, a revert and a rebase that were aborted", |agent| {
            agent.git(&["checkout", "--quiet", "-b", "side"]);
            agent.write("README.md", "side\n");
            agent.commit("side");
            agent.git(&["checkout", "--quiet", "main"]);
            agent.write("README.md", "main\n");
            agent.commit("main");
            for command in ["cherry-pick", "rebase"] {
                agent.try_git(&[command, "side"]);
                agent.git(&[command, "--abort"]);
            }
            agent.git(&["revert", "--no-edit", "HEAD"]);
            agent.git(&["reset", "--quiet", "--hard", &agent.root.base]);
        }),
        moved("hooks, samples and descriptions", |agent| {
            agent.script(".git/hooks/pre-commit.sample");
            agent.write(".git/description", "Unnamed repository; edit this file to name the repository.\n");
            agent.write(".git/info/exclude", "# git ls-files --others\n# *~\n");
        }),
        moved("refs with names like shell text and like options", |agent| {
            for name in ["$(touch${IFS}x)", ";touch${IFS}x;", "--upload-pack=touch", "-x", "`touch`", "'\"'"] {
                agent.write(&format!(".git/refs/heads/{name}"), format!("{}\n", agent.root.base));
            }
        }),
    ]
}

fn beside() -> Vec<Entry> {
    vec![
        moved("ignored build output", |agent| {
            agent.write_own("build/out.bin", "binary");
            agent.write_own("node_modules/p/index.js", "x\n");
            agent.write_own("src/deep/a.o", "o");
            agent.link("build/passwd", "/etc/passwd");
            agent.link("build/loop", "loop");
            agent.pipe("build/pipe");
            agent.link(".venv/bin/python", "/usr/bin/python3");
        }),
        moved("ignored files in directories that the tip has no more", |agent| {
            agent.write_own("old/mine.o", "object\n");
            agent.write_own("old/deep/build/mine", "built\n");
        }),
        moved("ignored files of all modes and ages", |agent| {
            for (number, mode) in [0o000, 0o400, 0o444, 0o755, 0o777, 0o4755].into_iter().enumerate() {
                agent.write(&format!("build/m{number}"), "x");
                agent.mode(&format!("build/m{number}"), mode);
            }
            let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
            std::fs::File::open(agent.clone.join("build")).and_then(|file| file.set_modified(old)).expect("set");
        }),
        moved("ignored names of all kinds", |agent| {
            agent.write("build/x", "x");
            agent.write_bytes_name(b"build/\x1b[2J\xff\n", "x");
            agent.write("build/.git/config", format!("[core]\n\tfsmonitor = {}\n", agent.command()));
            agent.write("build/.gitattributes", "* filter=x\n");
            symlink("/", agent.clone.join("build/root")).expect("linked");
        }),
        moved("an ignored repository with hooks and a monitor", |agent| {
            let dep = agent.clone.join("build/dep");
            std::fs::create_dir_all(&dep).expect("created");
            git(&agent.root.home, &dep, &["init", "--quiet", "."]);
            agent.append("build/dep/.git/config", &format!("[core]\n\tfsmonitor = {}\n", agent.command()));
            agent.script("build/dep/.git/hooks/post-checkout");
        }),
        moved("files at paths that the tip makes directories of, gone before", |agent| {
            // The tip replaces a directory by a file: what is ignored below it would be in the way, what is empty is not.
            std::fs::create_dir_all(agent.clone.join("docs")).expect("created");
        }),
    ]
}
