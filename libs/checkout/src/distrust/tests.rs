use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use super::*;

const ID: &str = "0123456789abcdef0123456789abcdef01234567\n";

/// A clone as the host makes one, with a commit of its agent's.
struct Bed {
    _scratch: tempfile::TempDir,
    clone: PathBuf,
}

impl Bed {
    fn new() -> Self {
        let scratch = tempfile::tempdir().expect("scratch");
        let (root, clone) = (scratch.path().join("root"), scratch.path().join("clone"));
        let bed = Self { clone, _scratch: scratch };
        std::fs::create_dir(&root).expect("made");
        for arguments in [&["init", "--quiet", "--initial-branch=main", "."][..], &["add", "."]] {
            std::fs::write(root.join("a"), "a\n").expect("written");
            bed.git(&root, arguments);
        }
        bed.git(&root, &["commit", "--quiet", "--message", "one"]);
        let (from, to) = (root.to_string_lossy(), bed.clone.to_string_lossy());
        let line = ["clone", "--quiet", "--no-local", "--single-branch", "--no-tags", "--template=", &from, &to];
        bed.git(&root, &line);
        bed
    }

    fn git(&self, directory: &Path, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .envs([("GIT_CONFIG_NOSYSTEM", "1"), ("HOME", "/nonexistent")]);
        git.args(["-c", "user.name=A", "-c", "user.email=a@example.invalid", "-c", "gc.auto=0"]);
        let output = git.arg("-C").arg(directory).args(arguments).output().expect("git runs");
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn ask(&self, arguments: &[&str]) {
        self.git(&self.clone, arguments);
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.clone.join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(path, content).expect("written");
    }

    fn append(&self, path: &str, content: &str) {
        let before = std::fs::read_to_string(self.clone.join(path)).unwrap_or_default();
        self.write(path, before + content);
    }

    fn found(&self) -> Vec<(Distrust, String)> {
        distrusted(&self.clone).into_iter().map(|found| (found.what, found.at)).collect()
    }

    fn only(&self, what: Distrust, at: &str) {
        assert_eq!(self.found(), [(what, at.to_owned())]);
    }
}

/// What an agent does to a clone, and what is to be listed because of it.
type Case = (&'static str, Distrust, &'static str, fn(&Bed));

#[test]
fn what_an_ordinary_clone_has_is_not_listed() {
    let bed = Bed::new();
    assert_eq!(bed.found(), []);
    bed.write("b", "b\n");
    bed.write("c \u{1b}[31m", "c\n");
    symlink("b", bed.clone.join("link")).expect("linked");
    bed.ask(&["config", "user.name", "Agent"]);
    bed.ask(&["config", "user.email", "agent@example.invalid"]);
    bed.ask(&["add", "b"]);
    bed.ask(&["commit", "--quiet", "--message", "two"]);
    bed.ask(&["checkout", "--quiet", "-b", "feature/x"]);
    bed.ask(&["tag", "v1"]);
    bed.append("a", "more\n");
    bed.ask(&["stash"]);
    bed.ask(&["pack-refs", "--all"]);
    bed.ask(&["remote", "set-head", "origin", "main"]);
    bed.write(".git/info/exclude", "# git ls-files --others --exclude-from=.git/info/exclude\n\n");
    bed.write(".git/hooks/pre-commit.sample", "#!/bin/sh\n");
    bed.ask(&["repack", "-a", "-d", "--quiet"]);
    assert_eq!(bed.found(), []);
    bed.ask(&["checkout", "--quiet", "--detach"]);
    assert_eq!(bed.found(), []);
}

#[test]
fn each_kind_is_listed_with_its_place() {
    let cases: &[Case] = &[
        ("a setting", Distrust::Config, ".git/config: core.fsmonitor = touch \\u{1b}x", |bed| {
            bed.append(".git/config", "[core]\n\tfsmonitor = touch \u{1b}x\n");
        }),
        ("a file to include", Distrust::Config, ".git/config: include.path = /x", |bed| {
            bed.append(".git/config", "[include]\n\tpath = /x\n");
        }),
        ("no configuration", Distrust::Config, ".git/config: is not in its format", |bed| {
            bed.append(".git/config", "[core]\\\n");
        }),
        ("another root", Distrust::Config, ".git/config: remote.origin.url = ext::x", |bed| {
            bed.ask(&["config", "remote.origin.url", "ext::x"]);
        }),
        ("a hook", Distrust::Hook, ".git/hooks/post-checkout", |bed| bed.write(".git/hooks/post-checkout", "x")),
        ("attributes", Distrust::Attributes, ".git/info/attributes: 1 rule(s), the first is `* filter=x`", |bed| {
            bed.write(".git/info/attributes", "# x\n* filter=x\n");
        }),
        ("exclusion", Distrust::IgnoreRules, ".git/info/exclude: 2 rule(s), the first is `*`", |bed| {
            bed.write(".git/info/exclude", "*\n!x\n");
        }),
        ("sparse", Distrust::IgnoreRules, ".git/info/sparse-checkout: 1 rule(s), the first is `/a`", |bed| {
            bed.write(".git/info/sparse-checkout", "/a\n");
        }),
        ("unchanged", Distrust::IndexBits, ".git/index: 1 path(s) are marked, the first is `a`", |bed| {
            bed.ask(&["update-index", "--assume-unchanged", "a"]);
        }),
        ("skipped", Distrust::IndexBits, ".git/index: 1 path(s) are marked, the first is `a`", |bed| {
            bed.ask(&["update-index", "--skip-worktree", "a"]);
        }),
        ("untracked", Distrust::IndexExtension, ".git/index: extension `UNTR`", |bed| {
            bed.ask(&["update-index", "--force-untracked-cache"]);
        }),
        ("no index", Distrust::MalformedIndex, ".git/index: is not in its format", |bed| {
            bed.write(".git/index", "DIRC");
        }),
        ("another place", Distrust::MalformedIndex, ".git/index: names `x/..`", |bed| {
            // Only a path of the same length keeps the file whole, and git makes no such path.
            bed.write("x/yz", "");
            bed.ask(&["add", "x/yz"]);
            let index = std::fs::read(bed.clone.join(".git/index")).expect("read");
            let at = index.windows(4).position(|window| window == b"x/yz").expect("staged");
            bed.write(".git/index", [&index[..at], b"x/..", &index[at + 4..]].concat());
        }),
        ("grafts", Distrust::Replaced, ".git/info/grafts", |bed| bed.write(".git/info/grafts", ID)),
        ("shallow", Distrust::Replaced, ".git/shallow", |bed| bed.write(".git/shallow", ID)),
        ("replaced", Distrust::Replaced, ".git/refs/replace", |bed| {
            bed.write(&format!(".git/refs/replace/{}", ID.trim_end()), ID);
        }),
        ("borrowed", Distrust::Alternates, ".git/objects/info/alternates", |bed| {
            bed.write(".git/objects/info/alternates", "/x\n");
        }),
        ("a graph", Distrust::CommitGraph, ".git/objects/info/commit-graph", |bed| {
            bed.ask(&["commit-graph", "write", "--reachable"]);
        }),
        ("packs", Distrust::CommitGraph, ".git/objects/pack/multi-pack-index", |bed| {
            bed.ask(&["multi-pack-index", "write"]);
        }),
        ("a link", Distrust::Link, ".git/logs/x: leads to `/etc/passwd`", |bed| {
            symlink("/etc/passwd", bed.clone.join(".git/logs/x")).expect("linked");
        }),
        ("a second name", Distrust::Link, ".git/logs/HEAD: has 2 names", |bed| {
            std::fs::hard_link(bed.clone.join(".git/logs/HEAD"), bed.clone.join("b")).expect("linked");
        }),
        ("a pipe", Distrust::SpecialFile, ".git/objects/x", |bed| pipe(bed, ".git/objects/x")),
        ("a pipe among files", Distrust::SpecialFile, "d/x", |bed| {
            bed.write("d/y", "");
            pipe(bed, "d/x");
        }),
        ("a symbolic branch", Distrust::Ref, ".git/refs/heads/x: says `ref: refs/heads/main`", |bed| {
            bed.write(".git/refs/heads/x", "ref: refs/heads/main\n");
        }),
        ("an odd branch", Distrust::Ref, ".git/refs/heads/$(x): an odd name", |bed| {
            bed.write(".git/refs/heads/$(x)", ID);
        }),
        ("a tag like a branch", Distrust::Ref, ".git/refs/tags/main: has the name of a branch", |bed| {
            bed.ask(&["tag", "main"]);
        }),
        (
            "like the root's",
            Distrust::Ref,
            ".git/refs/heads/origin/main: has the name of a branch of the root",
            |bed| {
                bed.write(".git/refs/heads/origin/main", ID);
            },
        ),
        ("a stray ref", Distrust::Ref, ".git/origin/main: a ref outside of refs", |bed| {
            bed.write(".git/origin/main", ID);
        }),
        ("packed refs", Distrust::Ref, ".git/packed-refs: is not in its format", |bed| {
            bed.write(".git/packed-refs", "x\n");
        }),
        ("packed twice", Distrust::Ref, ".git/packed-refs: refs/heads/main is there twice", |bed| {
            let line = format!("{} refs/heads/main\n", ID.trim_end());
            bed.write(".git/packed-refs", line.repeat(2));
        }),
        ("no HEAD", Distrust::Ref, ".git/HEAD: says ``", |bed| bed.write(".git/HEAD", "")),
        ("another work tree", Distrust::Elsewhere, ".git/config: core.worktree = /x", |bed| {
            bed.append(".git/config", "[core]\n\tworktree = /x\n");
        }),
        ("common", Distrust::Elsewhere, ".git/commondir", |bed| bed.write(".git/commondir", "/x\n")),
        ("a submodule", Distrust::Elsewhere, ".git/modules", |bed| bed.write(".git/modules/x/HEAD", "x")),
        ("an old remote", Distrust::Elsewhere, ".git/branches: names a remote", |bed| {
            bed.write(".git/branches/x", "/x\n");
        }),
        ("a lock", Distrust::Unfinished, ".git/refs/heads/main.lock", |bed| {
            bed.write(".git/refs/heads/main.lock", "");
        }),
        ("a merge", Distrust::Unfinished, ".git/MERGE_HEAD", |bed| bed.write(".git/MERGE_HEAD", ID)),
        ("a repository", Distrust::NestedRepository, "d/.git", |bed| bed.write("d/.git/HEAD", "")),
        ("a file that is one", Distrust::NestedRepository, "d/.git", |bed| bed.write("d/.git", "gitdir: /x\n")),
        ("a bare one", Distrust::NestedRepository, ".: looks like a repository itself", |bed| {
            bed.ask(&["init", "--quiet", "--bare", "."]);
        }),
    ];
    for (name, what, at, act) in cases {
        let bed = Bed::new();
        act(&bed);
        assert_eq!(bed.found(), [(*what, (*at).to_owned())], "{name}");
    }
    let seen: BTreeSet<Distrust> = cases.iter().map(|(_, what, ..)| *what).collect();
    let all = Distrust::ALL.iter().copied().filter(|what| *what != Distrust::PoisonedObject);
    assert_eq!(seen, all.collect());
}

fn pipe(bed: &Bed, path: &str) {
    nix::unistd::mkfifo(&bed.clone.join(path), nix::sys::stat::Mode::S_IRWXU).expect("made");
}

#[test]
fn a_clone_that_is_none_is_listed_as_what_it_is() {
    let bed = Bed::new();
    let away = bed.clone.with_extension("away");
    std::fs::rename(bed.clone.join(".git"), &away).expect("moved");
    assert_eq!(bed.found(), []);
    bed.write(".git", "gitdir: /x\n");
    bed.only(Distrust::Elsewhere, ".git: a file, which names a repository");
    std::fs::remove_file(bed.clone.join(".git")).expect("removed");
    symlink(&away, bed.clone.join(".git")).expect("linked");
    bed.only(Distrust::Link, &format!(".git: leads to `{}`", shown(away.as_os_str().as_bytes())));
    let other = bed.clone.with_extension("other");
    std::fs::rename(&bed.clone, &other).expect("moved");
    symlink(&other, &bed.clone).expect("linked");
    bed.only(Distrust::Link, ".: is no directory of its own");
    assert_eq!(distrusted(Path::new("/nonexistent")), []);
}

#[test]
fn what_is_endless_is_looked_at_in_part() {
    let bed = Bed::new();
    let mut path = bed.clone.join(".git/objects");
    for _ in 0..DEPTH + 10 {
        path.push("d");
    }
    std::fs::create_dir_all(&path).expect("made");
    (0..200).for_each(|number| bed.write(&format!(".git/hooks/{number}"), ""));
    bed.write("huge", "");
    std::fs::rename(bed.clone.join("huge"), bed.clone.join(".git/index")).expect("moved");
    let index = std::fs::File::create(bed.clone.join(".git/index")).expect("made");
    index.set_len(40 << 30).expect("sparse");
    let found = bed.found();
    assert_eq!(found.len(), 64);
    for expected in [".git/index: is too large", ".git: was looked at in part: it is too large"] {
        assert!(found.iter().any(|(_, at)| at == expected), "{expected}");
    }
    let last = found.last().map(|(what, at)| (*what, at.as_str()));
    assert_eq!(last, Some((Distrust::Hook, "and 139 more that are not listed")));
}
