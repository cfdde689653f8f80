//! Bare repositories of the host's own, in which contained gits put together what a clone holds. None of them has a
//! configuration, hooks or attributes but the host's.

use std::fs::File;
use std::io::{BufReader, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::git::{Containment, Failed, Feed, Input, Output, Shown};
use crate::mirror::{Mirror, MirrorError, make_directory};
use crate::parse::bundle_header;

/// What such a repository says.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";
/// Settings that hold in it.
const SETTINGS: [&str; 7] = [
    "core.multiPackIndex=false",
    "core.protectNTFS=false",
    "core.protectHFS=false",
    "core.autocrlf=false",
    "core.quotePath=true",
    "fastimport.unpackLimit=1",
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
pub(crate) struct Bench<'a> {
    pub(crate) mirror: &'a Mirror<'a>,
    pub(crate) containment: &'a Containment,
    pub(crate) owner: u32,
    /// When everything must be over.
    pub(crate) deadline: Instant,
    /// Seconds since 1970 at which its commits are dated.
    pub(crate) date: i64,
}

/// A repository that contained gits write to.
#[derive(Debug)]
pub(crate) struct Repository<'a> {
    path: PathBuf,
    bench: Bench<'a>,
    /// Directories that its gits are shown, for reading.
    shown: Vec<Shown<'a>>,
}

impl<'a> Repository<'a> {
    /// Makes an empty one at `path` that borrows the objects of the mirror, and of `borrowed`, one of `shown` with the path
    /// below it.
    pub(crate) fn make(
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
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The name of `below` in it, as its gits see it.
    pub(crate) fn seen(&self, below: &str) -> String {
        format!("{}/{below}", self.bench.containment.path_of(&self.own()))
    }

    /// The name of `below` in something that it is shown, as its gits see it.
    pub(crate) fn seen_in(&self, shown: &Shown<'_>, below: &str) -> String {
        format!("{}{below}", self.bench.containment.path_of(shown))
    }

    fn own(&self) -> Shown<'_> {
        Shown { host: &self.path, inside: INSIDE, writable: true }
    }

    fn mirror(&self) -> Shown<'a> {
        Shown { host: &self.bench.mirror.path, inside: "/mirror", writable: false }
    }

    /// Runs git in it.
    pub(crate) fn git<'i>(&self, arguments: &[&str], input: impl Into<Input<'i>>) -> Result<Output, Failed> {
        self.git_with(&[], arguments, input)
    }

    /// Takes over the refs of a bundle, a plain file whoever has written it, that `wanted` wants. Every object is checked, its
    /// id is computed anew, and what it leads to must be there.
    ///
    /// Not by git-fetch(1): git 2.39 checks nothing of a bundle that it fetches, whatever `transfer.fsckObjects` says.
    pub(crate) fn receive(&self, bundle: File, wanted: impl Fn(&str) -> bool) -> Result<(), Failed> {
        let failed = |source: std::io::Error| Failed::Start { program: "git index-pack".to_owned(), source };
        let mut bundle = BufReader::new(bundle);
        let header = bundle_header(&mut bundle).map_err(|malformed| failed(std::io::Error::other(malformed)))?;
        let mut feed = |to: &mut dyn Write| {
            std::io::copy(&mut bundle, to)?;
            to.flush()
        };
        self.git(&["index-pack", "--stdin", "--fix-thin", "--strict"], &mut feed as Feed<'_>)?;
        let refs = header.refs.iter().filter(|(name, _)| wanted(name));
        let lines: String = refs.map(|(name, id)| format!("update {name} {id}\n")).collect();
        self.git(&["update-ref", "--stdin"], lines.as_bytes()).map(drop)
    }

    /// Runs git in it, where the exit status `told` is an answer too: says whether it was 0, with what it wrote.
    pub(crate) fn git_or(&self, told: i32, arguments: &[&str]) -> Result<(bool, Vec<u8>), Failed> {
        match self.git(arguments, b"") {
            Ok(output) => Ok((true, output.bytes)),
            Err(Failed::Exit { status, output, .. }) if status.code() == Some(told) => Ok((false, output)),
            Err(failed) => Err(failed),
        }
    }

    /// Runs git that is told by its arguments alone which repository is meant.
    pub(crate) fn git_alone(&self, arguments: &[&str]) -> Result<Output, Failed> {
        self.run(&[], arguments.to_vec(), b"")
    }

    /// Runs git in it, with variables of its own.
    pub(crate) fn git_with<'i>(
        &self,
        variables: &[(&str, &str)],
        arguments: &[&str],
        input: impl Into<Input<'i>>,
    ) -> Result<Output, Failed> {
        let own = self.seen("");
        let line = ["--git-dir", own.as_str()].into_iter().chain(arguments.iter().copied()).collect();
        self.run(variables, line, input)
    }

    fn run<'i>(
        &self,
        variables: &[(&str, &str)],
        arguments: Vec<&str>,
        input: impl Into<Input<'i>>,
    ) -> Result<Output, Failed> {
        let mut shown = vec![self.mirror(), self.own()];
        shown.extend_from_slice(&self.shown);
        // With that sign, git takes any number for seconds.
        let date = format!("@{} +0000", self.bench.date);
        let mut all = Vec::from(IDENTITY);
        all.extend([("GIT_AUTHOR_DATE", date.as_str()), ("GIT_COMMITTER_DATE", date.as_str())]);
        all.extend_from_slice(variables);
        let line: Vec<&str> = SETTINGS.iter().flat_map(|setting| ["-c", setting]).chain(arguments).collect();
        let time = self.bench.deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let contained = (self.bench.containment, self.bench.owner);
        self.bench.mirror.git.boxed(contained, &shown, &all, &line, (input, time))
    }
}
