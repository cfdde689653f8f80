//! Roots: trusted repositories at their tip, each with a clone that was made one or two commits ago.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::bed::git;

/// Kinds of root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// All kinds of files; the tip adds, changes and removes some.
    Plain,
    /// The tip is an empty commit.
    EmptyTip,
    /// The branch was rewritten: the clone's commit is not in it.
    Rewritten,
    /// With a submodule, whose commit moves.
    Super,
    /// The checked-out branch has a name with slashes and letters of other alphabets.
    Branch,
}

impl Flavour {
    pub(crate) const COUNT: usize = 5;
}

/// What a path of the tip is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum File {
    /// A regular file, executable or not.
    Regular { content: Vec<u8>, executable: bool },
    /// A symbolic link.
    Link(Vec<u8>),
    /// A submodule.
    Submodule,
}

/// A root.
#[derive(Debug)]
pub(crate) struct Root {
    /// Its directory.
    pub(crate) path: PathBuf,
    /// The branch that it has checked out.
    pub(crate) branch: String,
    /// Where clones start.
    pub(crate) base: String,
    /// Where the branch is now.
    pub(crate) tip: String,
    /// A clone at `base`, to be copied.
    pub(crate) template: PathBuf,
    /// All files of the tip, as a checkout of git's own has them.
    pub(crate) files: BTreeMap<Vec<u8>, File>,
    /// All files of the base.
    pub(crate) base_paths: BTreeSet<Vec<u8>>,
    /// The submodule's own repository.
    pub(crate) module: Option<PathBuf>,
    pub(crate) home: PathBuf,
}

impl Root {
    pub(crate) fn build(scratch: &Path, flavour: Flavour) -> Self {
        let name = format!("{flavour:?}").to_lowercase();
        let (home, path) = (scratch.join("home"), scratch.join("roots").join(&name));
        let branch = if flavour == Flavour::Branch { "work/\u{e4}-1" } else { "main" };
        let run = |arguments: &[&str]| git(&home, &path, arguments);
        init(&home, &path, branch);
        fill_base(&path);
        let module = (flavour == Flavour::Super).then(|| {
            let module = scratch.join("roots/module");
            init(&home, &module, "main");
            write(&module, "m.txt", "m1\n");
            commit(&home, &module, "m1");
            run(&["submodule", "add", "--quiet", &module.to_string_lossy(), "mod"]);
            module
        });
        let base = commit(&home, &path, "base");
        let base_paths = run(&["ls-files", "-z"]).split('\0').map(|path| path.as_bytes().to_vec()).collect();
        // What no clone may get: another branch, a stash, a secret that was amended away.
        run(&["branch", "private"]);
        let template = scratch.join("roots").join(format!("{name}-template"));
        let (from, to) = (path.to_string_lossy(), template.to_string_lossy());
        let options = ["--quiet", "--no-local", "--single-branch", "--no-tags", "--template="];
        git(&home, scratch, &[&["clone"][..], &options, &[&from, &to]].concat());
        advance(&home, &path, flavour, module.as_deref());
        let tip = run(&["rev-parse", "HEAD"]);
        let files = reference(scratch, &home, &path, &name);
        Self { path, branch: branch.to_owned(), base, tip, template, files, base_paths, module, home }
    }
}

pub(crate) fn init(home: &Path, path: &Path, branch: &str) {
    std::fs::create_dir_all(path).expect("created");
    git(home, path, &["init", "--quiet", "--template=", "--initial-branch", branch, "."]);
}

pub(crate) fn commit(home: &Path, path: &Path, message: &str) -> String {
    git(home, path, &["add", "--all"]);
    git(home, path, &["commit", "--quiet", "--allow-empty", "--message", message]);
    git(home, path, &["rev-parse", "HEAD"])
}

pub(crate) fn write(directory: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = directory.join(path);
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("created");
    std::fs::write(&path, content).expect("written");
}

fn fill_base(root: &Path) {
    for (path, content) in [
        ("README.md", "# demo\nline\n"),
        ("src/a.py", "print('a1')\n"),
        ("src/b.py", "print('b')\n"),
        ("src/deep/x/y.txt", "y\n"),
        ("lib/keep.txt", "keep\n"),
        ("lib/mod.txt", "lib 1\n"),
        ("run.sh", "#!/bin/sh\necho run\n"),
        ("\u{fc}n\u{ef}code/na\u{ef}ve \u{2603}.txt", "snow\n"),
        ("with space and 'quote'.txt", "q\n"),
        ("crlf.bat", "echo 1\r\necho 2\r\n"),
        ("id.txt", "head\n$Id$\ntail\n"),
        ("empty.txt", ""),
        ("dir-to-file/f", "f\n"),
        ("file-to-dir", "f\n"),
        ("link-to-dir", "f\n"),
        ("old/only.txt", "o\n"),
        ("old/deep/er.txt", "o\n"),
        ("tool.sh", "#!/bin/sh\n:\n"),
        (".gitattributes", "*.bat text eol=crlf\n*.dat binary\n"),
        (".gitignore", "build/\ngen/\n*.o\nnode_modules/\n.venv/\n"),
    ] {
        write(root, path, content);
    }
    write(root, "bin.dat", (0..=255).cycle().take(4096).collect::<Vec<u8>>());
    std::fs::set_permissions(root.join("run.sh"), std::fs::Permissions::from_mode(0o755)).expect("set");
    for (path, target) in [("link", "src/a.py"), ("dangling", "nowhere/at/all")] {
        symlink(target, root.join(path)).expect("linked");
    }
}

fn fill_tip(root: &Path) {
    for gone in
        ["src/b.py", "file-to-dir", "link-to-dir", "dir-to-file/f", "old/only.txt", "old/deep/er.txt", "dangling"]
    {
        std::fs::remove_file(root.join(gone)).expect("removed");
    }
    for gone in ["dir-to-file", "old/deep", "old"] {
        std::fs::remove_dir(root.join(gone)).expect("removed");
    }
    for (path, content) in [
        ("README.md", "# demo\nline\nmore\n"),
        ("src/a.py", "print('a2')\n"),
        ("src/new.py", "print('new')\n"),
        ("lib/mod.txt", "lib 2\n"),
        ("docs/added.md", "added\n"),
        ("docs/tool.sh", "#!/bin/sh\n:\n"),
        ("dir-to-file", "now a file\n"),
        ("file-to-dir/g", "g\n"),
        ("crlf.bat", "echo 1\r\necho 2\r\necho 3\r\n"),
        ("gen/out.txt", "generated, tracked although ignored\n"),
    ] {
        write(root, path, content);
    }
    for (path, mode) in [("docs/tool.sh", 0o755), ("tool.sh", 0o755), ("run.sh", 0o644)] {
        std::fs::set_permissions(root.join(path), std::fs::Permissions::from_mode(mode)).expect("set");
    }
    for (path, target) in [("link-to-dir", "src"), ("dangling", "still/nowhere")] {
        symlink(target, root.join(path)).expect("linked");
    }
}

fn advance(home: &Path, root: &Path, flavour: Flavour, module: Option<&Path>) {
    let run = |arguments: &[&str]| git(home, root, arguments);
    match flavour {
        Flavour::EmptyTip => {
            commit(home, root, "an empty commit");
            return;
        }
        Flavour::Plain => {
            write(root, "lib/mid.txt", "mid\n");
            commit(home, root, "mid");
        }
        Flavour::Super => {
            let module = module.expect("a submodule");
            write(module, "m.txt", "m2\n");
            commit(home, module, "m2");
            git(home, &root.join("mod"), &["pull", "--quiet", "--ff-only"]);
        }
        Flavour::Rewritten | Flavour::Branch => {}
    }
    fill_tip(root);
    run(&["add", "--all"]);
    run(&["add", "--force", "gen/out.txt"]);
    let amend: &[&str] = if flavour == Flavour::Rewritten { &["--amend"] } else { &[] };
    run(&[&["commit", "--quiet", "--message", "tip"], amend].concat());
    write(root, "secret.txt", "secret\n");
    run(&["add", "secret.txt"]);
    run(&["commit", "--quiet", "--message", "oops"]);
    run(&["reset", "--quiet", "--hard", "HEAD~1"]);
    write(root, "README.md", "stashed\n");
    run(&["stash", "push", "--quiet"]);
    // The owner's own work tree is in the middle of something; no checkout may care.
    write(root, "src/a.py", "print('work of the owner')\n");
}

/// What git's own checkout of the tip holds.
fn reference(scratch: &Path, home: &Path, root: &Path, name: &str) -> BTreeMap<Vec<u8>, File> {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let place = scratch.join("roots").join(format!("{name}-reference"));
    git(home, scratch, &["clone", "--quiet", &root.to_string_lossy(), &place.to_string_lossy()]);
    let output = crate::bed::git_command(home, &place).args(["ls-files", "-z", "--stage"]).output().expect("git runs");
    let mut files = BTreeMap::new();
    for line in output.stdout.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        let tab = line.iter().position(|byte| *byte == b'\t').expect("a tab");
        let path = place.join(std::ffi::OsStr::from_bytes(&line[tab + 1..]));
        let file = match &line[..6] {
            b"160000" => File::Submodule,
            b"120000" => File::Link(std::fs::read_link(&path).expect("a link").into_os_string().into_vec()),
            mode => File::Regular { content: std::fs::read(&path).expect("a file"), executable: mode == b"100755" },
        };
        files.insert(line[tab + 1..].to_vec(), file);
    }
    std::fs::remove_dir_all(&place).expect("removed");
    files
}
