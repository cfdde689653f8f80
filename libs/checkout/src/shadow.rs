//! The host's own git directory for a clone: with its index, the work tree is compared, and neither the clone's index nor its
//! configuration has a say in that.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::git::{Containment, Failed, Output, Shown, TIME, boxed_script};
use crate::mirror::{Mirror, MirrorError, make_directory};
use crate::parse::ObjectId;

/// What the git directory says: nothing but how files are compared.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n";

/// The host's own git directory of one clone. Only `own`, with the index, is written by a contained git.
#[derive(Debug)]
pub(crate) struct Shadow<'a> {
    /// Where it is.
    path: PathBuf,
    /// The part of it that a contained git writes to.
    own: PathBuf,
    /// The clone's work tree.
    pub(crate) clone: &'a Path,
    /// The project's mirror.
    pub(crate) mirror: &'a Mirror<'a>,
    /// What contains git.
    containment: &'a Containment,
    /// Uid that it runs under.
    owner: u32,
}

/// Where the parts of a box are, as a program in it sees them.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) shadow: String,
    pub(crate) index: String,
    pub(crate) clone: String,
    pub(crate) pack: String,
}

impl<'a> Shadow<'a> {
    /// The one at `path`, for `clone`.
    pub(crate) fn new(
        path: &Path,
        clone: &'a Path,
        mirror: &'a Mirror<'a>,
        (containment, owner): (&'a Containment, u32),
    ) -> Self {
        Self { path: path.to_owned(), own: path.join("own"), clone, mirror, containment, owner }
    }

    /// Where the host puts packs for the clone.
    pub(crate) fn pack(&self) -> PathBuf {
        self.path.join("pack")
    }

    /// Makes what is missing of it.
    pub(crate) fn prepare(&self) -> Result<(), MirrorError> {
        let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
        for directory in ["", "objects", "objects/info", "refs", "pack", "own"] {
            let path = self.path.join(directory);
            if path.is_dir() {
                continue;
            }
            make_directory(&path)?;
            // The uid of the contained git passes through; what leads here is private.
            mode(&path, 0o755).map_err(MirrorError::io("set the mode of", &path))?;
        }
        let alternates = format!("{}/objects\n", self.containment.path_of(&self.mirror_shown()));
        for (name, content) in [("config", CONFIG), ("objects/info/alternates", alternates.as_str())] {
            self.note(name, content)?;
        }
        if nix::unistd::geteuid().is_root() {
            let owned = std::os::unix::fs::chown(&self.own, Some(self.owner), Some(self.owner));
            owned.map_err(MirrorError::io("hand over", &self.own))?;
        }
        // Whoever held it was killed: there is one checkout of a project at a time.
        let _none = std::fs::remove_file(self.own.join("index.lock"));
        Ok(())
    }

    /// Writes a file that git reads here, unless it says so already.
    pub(crate) fn note(&self, name: &str, content: &str) -> Result<(), MirrorError> {
        let path = self.path.join(name);
        if std::fs::read_to_string(&path).is_ok_and(|found| found == content) {
            return Ok(());
        }
        let written = std::fs::write(&path, content)
            .and_then(|()| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)));
        written.map_err(MirrorError::io("write", &path))
    }

    /// Has git compare the work tree with `base`. Returns what it found, nothing when nothing differs.
    pub(crate) fn status(&self, base: ObjectId) -> Result<Output, Failed> {
        let wanted = format!("{base}\n");
        let fresh = std::fs::read_to_string(self.path.join("HEAD")).is_ok_and(|found| found == wanted);
        if !fresh || self.own.join("index").symlink_metadata().is_err() {
            self.stage(base)?;
        }
        self.compare("normal")
    }

    /// Makes the index that of `commit`; what did not change keeps what was seen of it.
    pub(crate) fn stage(&self, commit: ObjectId) -> Result<(), Failed> {
        let noted = self.note("HEAD", &format!("{commit}\n"));
        noted.map_err(|error| Failed::Start { program: "git".to_owned(), source: std::io::Error::other(error) })?;
        let id = commit.to_string();
        if self.git(&["read-tree", "--reset", &id]).is_err() {
            let _none = std::fs::remove_file(self.own.join("index"));
            self.git(&["read-tree", &id])?;
        }
        Ok(())
    }

    /// Has git compare the work tree with the index; `untracked` files as git-status(1) has it.
    pub(crate) fn compare(&self, untracked: &str) -> Result<Output, Failed> {
        let untracked = format!("--untracked-files={untracked}");
        self.git(&["status", "--porcelain=v1", "-z", &untracked, "--ignore-submodules=all", "--no-renames"])
    }

    /// Those of some directories that no rule ignores.
    pub(crate) fn not_ignored(&self, paths: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Failed> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let input = paths.iter().flat_map(|path| [path.as_slice(), b"/\0"].concat()).collect::<Vec<u8>>();
        let ignored = match self.git_with(&["check-ignore", "--stdin", "-z"], &input) {
            Ok(output) => output.bytes,
            // None of them.
            Err(Failed::Exit { status, .. }) if status.code() == Some(1) => Vec::new(),
            Err(error) => return Err(error),
        };
        let ignored: HashSet<&[u8]> = ignored.split(|byte| *byte == 0).collect();
        let is_ignored = |path: &&Vec<u8>| ignored.contains([path.as_slice(), b"/"].concat().as_slice());
        Ok(paths.iter().filter(|path| !is_ignored(path)).cloned().collect())
    }

    /// Runs git on the work tree, which it can't write to.
    pub(crate) fn git(&self, arguments: &[&str]) -> Result<Output, Failed> {
        self.git_with(arguments, b"")
    }

    fn git_with(&self, arguments: &[&str], input: &[u8]) -> Result<Output, Failed> {
        let shown = self.shown(false);
        let seen = self.seen(&shown);
        let mut all = vec!["--git-dir", &seen.shadow, "--work-tree", &seen.clone];
        all.extend_from_slice(arguments);
        // The index is to be written: it saves hashing the next time.
        let variables = [("GIT_OPTIONAL_LOCKS", "1"), ("GIT_INDEX_FILE", seen.index.as_str())];
        self.mirror.git.boxed((self.containment, self.owner), &shown, &variables, &all, (input, TIME))
    }

    /// Runs a script of fixed text that may write to the clone. It finds `$CLONE`, `$INDEX`, `$PACK`, what `variables` say, and
    /// a git for the work tree as its arguments.
    pub(crate) fn script(&self, script: &str, variables: &[(&str, &str)]) -> Result<Output, Failed> {
        let shown = self.shown(true);
        let seen = self.seen(&shown);
        let mut all = vec![("CLONE", &*seen.clone), ("INDEX", &*seen.index), ("PACK", &*seen.pack)];
        all.extend([("GIT_INDEX_FILE", &*seen.index), ("GIT_OPTIONAL_LOCKS", "1")]);
        all.extend_from_slice(variables);
        let git = ["--git-dir", &*seen.shadow, "--work-tree", &*seen.clone];
        boxed_script(self.mirror.git, (self.containment, self.owner), &shown, script, &all, &git)
    }

    /// What is shown in its boxes.
    fn shown(&self, writable: bool) -> [Shown<'_>; 4] {
        [
            self.mirror_shown(),
            Shown { host: &self.path, inside: "/shadow", writable: false },
            Shown { host: self.clone, inside: "/clone", writable },
            Shown { host: &self.own, inside: "/shadow/own", writable: true },
        ]
    }

    fn seen(&self, shown: &[Shown<'_>; 4]) -> Seen {
        let [_, shadow, clone, own] = shown.map(|shown| self.containment.path_of(&shown).into_owned());
        Seen { index: format!("{own}/index"), pack: format!("{shadow}/pack"), shadow, clone }
    }

    fn mirror_shown(&self) -> Shown<'_> {
        Shown { host: &self.mirror.path, inside: "/mirror", writable: false }
    }
}
