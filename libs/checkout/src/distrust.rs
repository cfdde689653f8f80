//! What in a clone is not trusted, and where: a look at its files alone, for those who read what an agent has left.
//!
//! Nothing is decided by it: what the host does holds whatever this look sees. It is bounded, follows no link, and never
//! fails; what can't be read is passed over.

mod files;
mod list;
mod refs;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use list::Found;
use mosaic_record::{Distrust, Distrusted};
use refs::Names;

use crate::at::{Directory, Fault, Kind, shown};
use crate::look::{DEPTH, ENTRIES, is_busy};

/// Most entries of a work tree that are looked at.
const FILES: usize = 2_000_000;
/// How long the look may take.
const TIME: Duration = Duration::from_secs(5);

/// What is not trusted wherever it is, by its path below `.git`.
const FOREIGN: [(Distrust, &str); 15] = [
    (Distrust::Replaced, "refs/replace"),
    (Distrust::Replaced, "info/grafts"),
    (Distrust::Replaced, "shallow"),
    (Distrust::Alternates, "objects/info/alternates"),
    (Distrust::Alternates, "objects/info/http-alternates"),
    (Distrust::CommitGraph, "objects/info/commit-graph"),
    (Distrust::CommitGraph, "objects/info/commit-graphs"),
    (Distrust::CommitGraph, "objects/pack/multi-pack-index"),
    (Distrust::CommitGraph, "objects/pack/multi-pack-index.d"),
    (Distrust::Elsewhere, "commondir"),
    (Distrust::Elsewhere, "gitdir"),
    (Distrust::Elsewhere, "config.worktree"),
    (Distrust::Elsewhere, "reftable"),
    (Distrust::Elsewhere, "worktrees"),
    (Distrust::Elsewhere, "modules"),
];
/// Directories that hold names of remotes in the way of old gits; empty ones are git's own.
const OLD_REMOTES: [&str; 2] = ["remotes", "branches"];
/// Directories of `.git` in which git looks for no refs.
const NO_REFS: [&str; 10] =
    ["objects", "logs", "info", "hooks", "modules", "worktrees", "rebase-merge", "rebase-apply", "sequencer", "lfs"];
/// What a directory has that git takes for a repository of itself.
const BARE: [&str; 3] = ["HEAD", "objects", "refs"];

/// Lists what in `clone` is not trusted: at most 64 entries, of which the last says how many more there are. What an
/// ordinary clone has is not listed.
#[must_use]
pub fn distrusted(clone: &Path) -> Vec<Distrusted> {
    look_over(clone, None, false)
}

/// The same of a clone that is to be one of `root`; `plain` says that nothing but plain files is below `.git`, so that its
/// objects need no look.
pub(crate) fn look_over(clone: &Path, root: Option<&Path>, plain: bool) -> Vec<Distrusted> {
    let mut look = Look { found: Found::default(), entries: 0, root, plain, deadline: Instant::now() + TIME };
    match Directory::open(clone) {
        Ok(top) => look.clone(&top),
        Err(Fault::NotPlain) => look.found.add(Distrust::Link, || ".: is no directory of its own".to_owned()),
        Err(_) => {}
    }
    look.found.into_list()
}

/// One look, with what it has found.
#[derive(Debug)]
struct Look<'a> {
    found: Found,
    /// The root, if it is known.
    root: Option<&'a Path>,
    /// Entries that were looked at.
    entries: usize,
    /// True when links and special files need no look.
    plain: bool,
    /// When it ends.
    deadline: Instant,
}

impl Look<'_> {
    fn clone(&mut self, top: &Directory) {
        match top.look(OsStr::new(".git")).map(|status| status.kind) {
            Ok(Kind::Directory) => {
                if let Ok(git) = top.child(OsStr::new(".git")) {
                    self.dot_git(&git);
                }
            }
            Ok(Kind::File) => {
                self.found.add(Distrust::Elsewhere, || ".git: a file, which names a repository".to_owned());
            }
            Ok(Kind::Link) => self.link(top, OsStr::new(".git"), b".git"),
            Ok(Kind::Special) => self.found.add(Distrust::SpecialFile, || ".git".to_owned()),
            Err(_) => {}
        }
        self.entries = 0;
        if !self.work_tree(top, &mut Vec::new(), 0) {
            let at = || "the work tree was looked at in part: it is too large".to_owned();
            self.found.add(Distrust::NestedRepository, at);
        }
    }

    fn dot_git(&mut self, git: &Directory) {
        files::config(self, git);
        files::index(self, git);
        files::rules(self, git, Distrust::Attributes, "info/attributes");
        files::rules(self, git, Distrust::IgnoreRules, "info/exclude");
        files::rules(self, git, Distrust::IgnoreRules, "info/sparse-checkout");
        for (what, path) in FOREIGN {
            if is_there(git, Path::new(path)) {
                self.found.add(what, || format!(".git/{path}"));
            }
        }
        for name in OLD_REMOTES {
            if git.child(OsStr::new(name)).is_ok_and(|names| names.names(0).is_err()) {
                self.found.add(Distrust::Elsewhere, || format!(".git/{name}: names a remote"));
            }
        }
        let mut names = Names::default();
        if !self.below_git(git, Path::new(""), 0, &mut names) {
            self.found.add(Distrust::Link, || ".git: was looked at in part: it is too large".to_owned());
        }
        refs::look_at_all(self, git, names);
    }

    /// Walks `.git`. False when there is too much of it.
    fn below_git(&mut self, directory: &Directory, path: &Path, depth: usize, names: &mut Names) -> bool {
        let Some(entries) = self.entries_of(directory, ENTRIES) else { return false };
        let mut whole = true;
        for (name, _) in entries {
            let Ok(status) = directory.look(&name) else { continue };
            let path = path.join(&name);
            let bytes = path.as_os_str().as_bytes();
            let at = || format!(".git/{}", shown(bytes));
            let within = path.parent().unwrap_or(Path::new(""));
            let busy = is_busy(within, &name);
            if busy {
                self.found.add(Distrust::Unfinished, at);
            }
            if within == Path::new("hooks") && !name.as_bytes().ends_with(b".sample") {
                self.found.add(Distrust::Hook, at);
            }
            match status.kind {
                Kind::Link => self.link(directory, &name, &[b".git/", bytes].concat()),
                Kind::Special => self.found.add(Distrust::SpecialFile, at),
                Kind::File => {
                    if status.links > 1 {
                        self.found.add(Distrust::Link, || format!("{}: has {} names", at(), status.links));
                    }
                    if path.starts_with("refs") && !busy {
                        refs::look_at(self, directory, &path, names);
                    } else if !busy && !NO_REFS.iter().any(|top| path.starts_with(top)) {
                        refs::look_for_stray(self, directory, &path);
                    }
                }
                // Its files were seen to be plain, and nothing else is looked for among them.
                Kind::Directory if self.plain && path == Path::new("objects") => {}
                Kind::Directory if whole => {
                    // One that can't be opened is passed over.
                    let child = directory.child(&name).ok();
                    whole = depth < DEPTH && child.is_none_or(|child| self.below_git(&child, &path, depth + 1, names));
                }
                Kind::Directory => {}
            }
        }
        whole
    }

    /// Walks the work tree for repositories and special files. False when there is too much of it.
    fn work_tree(&mut self, directory: &Directory, path: &mut Vec<u8>, depth: usize) -> bool {
        let Some(entries) = self.entries_of(directory, FILES) else { return false };
        if BARE.iter().all(|part| entries.binary_search_by(|(name, _)| name.as_os_str().cmp(OsStr::new(part))).is_ok())
        {
            let at =
                || format!("{}: looks like a repository itself", if depth == 0 { ".".into() } else { shown(path) });
            self.found.add(Distrust::NestedRepository, at);
        }
        let mut whole = true;
        for (name, kind) in entries {
            if depth == 0 && name == ".git" {
                continue;
            }
            let length = path.len();
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
            let kind = kind.or_else(|| directory.look(&name).ok().map(|status| status.kind));
            if name == ".git" {
                self.found.add(Distrust::NestedRepository, || shown(path));
            }
            match kind {
                Some(Kind::Special) => self.found.add(Distrust::SpecialFile, || shown(path)),
                Some(Kind::Directory) if name != ".git" && whole => {
                    let child = directory.child(&name).ok();
                    whole = depth < DEPTH && child.is_none_or(|child| self.work_tree(&child, path, depth + 1));
                }
                _ => {}
            }
            path.truncate(length);
        }
        whole
    }

    /// The entries of a directory in order of their names; none when there are too many or it takes too long.
    fn entries_of(&mut self, directory: &Directory, most: usize) -> Option<Vec<(OsString, Option<Kind>)>> {
        if Instant::now() > self.deadline {
            return None;
        }
        let mut entries = match directory.entries(most - self.entries) {
            Err(Fault::TooLarge) => return None,
            entries => entries.unwrap_or_default(),
        };
        self.entries += entries.len();
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        Some(entries)
    }

    fn link(&mut self, directory: &Directory, name: &OsStr, path: &[u8]) {
        let target = directory.target(name).unwrap_or_default();
        self.found.add(Distrust::Link, || format!("{}: leads to `{}`", shown(path), shown(target.as_bytes())));
    }
}

fn is_there(git: &Directory, path: &Path) -> bool {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return false };
    git.below(parent).and_then(|directory| directory.look(name)).is_ok()
}

#[cfg(test)]
mod tests;
