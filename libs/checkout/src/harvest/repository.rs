//! Bare repositories of the host's own, in which contained gits put together what a clone holds. None of them has a
//! configuration, hooks or attributes but the host's.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::git::{Containment, Failed, Input, Output, Shown};
use crate::mirror::{Mirror, MirrorError, make_directory};

/// What such a repository says.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";
/// Settings that hold in it.
const SETTINGS: [&str; 9] = [
    "core.multiPackIndex=false",
    "core.protectNTFS=false",
    "core.protectHFS=false",
    "core.autocrlf=false",
    "core.quotePath=true",
    "fastimport.unpackLimit=1",
    "transfer.fsckObjects=true",
    "fetch.unpackLimit=1",
    "pack.threads=1",
];
/// Who makes its commits.
const IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "Mosaic"),
    ("GIT_AUTHOR_EMAIL", "mosaic@localhost"),
    ("GIT_COMMITTER_NAME", "Mosaic"),
    ("GIT_COMMITTER_EMAIL", "mosaic@localhost"),
];
/// Where it is seen in a box, with and without namespaces.
const INSIDE: &str = "/repository";

/// What all repositories of one harvest share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bench<'a> {
    pub(super) mirror: &'a Mirror<'a>,
    pub(super) containment: &'a Containment,
    pub(super) owner: u32,
    /// When everything must be over.
    pub(super) deadline: Instant,
    /// Seconds since 1970 at which its commits are dated.
    pub(super) date: i64,
}

/// A repository that contained gits write to.
#[derive(Debug)]
pub(super) struct Repository<'a> {
    path: PathBuf,
    bench: Bench<'a>,
    /// Directories that its gits are shown, for reading.
    shown: Vec<Shown<'a>>,
}

impl<'a> Repository<'a> {
    /// Makes an empty one at `path` that borrows the objects of the mirror, and of `borrowed`, one of `shown` with the path
    /// below it.
    pub(super) fn make(
        path: PathBuf,
        bench: Bench<'a>,
        shown: Vec<Shown<'a>>,
        borrowed: Option<(Shown<'a>, &str)>,
    ) -> Result<Self, MirrorError> {
        let repository = Self { path, bench, shown };
        let objects = |shown: &Shown<'_>, below: &str| format!("{}/{below}\n", bench.containment.path_of(shown));
        let mut alternates = objects(&repository.mirror(), "objects");
        if let Some((shown, below)) = &borrowed {
            alternates.push_str(&objects(shown, below));
        }
        for directory in ["", "objects", "objects/info", "objects/pack", "refs", "out", "scratch"] {
            let path = repository.path.join(directory);
            make_directory(&path)?;
            let open = std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755));
            open.map_err(MirrorError::io("set the mode of", &path))?;
            repository.hand_over(&path)?;
        }
        let contents =
            [("HEAD", "ref: refs/heads/none\n"), ("config", CONFIG), ("objects/info/alternates", &alternates)];
        for (name, content) in contents {
            let path = repository.path.join(name);
            let written = std::fs::write(&path, content)
                .and_then(|()| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)));
            written.map_err(MirrorError::io("write", &path))?;
        }
        Ok(repository)
    }

    /// Gives what the host has made to the uid of the contained git.
    fn hand_over(&self, path: &Path) -> Result<(), MirrorError> {
        if !nix::unistd::geteuid().is_root() {
            return Ok(());
        }
        let owner = Some(self.bench.owner);
        std::os::unix::fs::lchown(path, owner, owner).map_err(MirrorError::io("hand over", path))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The name of `below` in it, as its gits see it.
    pub(super) fn seen(&self, below: &str) -> String {
        format!("{}/{below}", self.bench.containment.path_of(&self.own()))
    }

    /// The name of `below` in something that it is shown, as its gits see it.
    pub(super) fn seen_in(&self, shown: &Shown<'_>, below: &str) -> String {
        format!("{}{below}", self.bench.containment.path_of(shown))
    }

    fn own(&self) -> Shown<'_> {
        Shown { host: &self.path, inside: INSIDE, writable: true }
    }

    fn mirror(&self) -> Shown<'a> {
        Shown { host: &self.bench.mirror.path, inside: "/mirror", writable: false }
    }

    /// Runs git in it.
    pub(super) fn git<'i>(&self, arguments: &[&str], input: impl Into<Input<'i>>) -> Result<Output, Failed> {
        self.git_with(&[], arguments, input)
    }

    /// Runs git in it, with variables of its own.
    pub(super) fn git_with<'i>(
        &self,
        variables: &[(&str, &str)],
        arguments: &[&str],
        input: impl Into<Input<'i>>,
    ) -> Result<Output, Failed> {
        let mut shown = vec![self.mirror(), self.own()];
        shown.extend_from_slice(&self.shown);
        let date = format!("{} +0000", self.bench.date);
        let mut all = Vec::from(IDENTITY);
        all.extend([("GIT_AUTHOR_DATE", date.as_str()), ("GIT_COMMITTER_DATE", date.as_str())]);
        all.extend_from_slice(variables);
        let own = self.seen("");
        let mut line: Vec<&str> = SETTINGS.iter().flat_map(|setting| ["-c", setting]).collect();
        line.extend(["--git-dir", own.as_str()]);
        line.extend_from_slice(arguments);
        let time = self.bench.deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let contained = (self.bench.containment, self.bench.owner);
        self.bench.mirror.git.boxed(contained, &shown, &all, &line, (input, time))
    }
}
