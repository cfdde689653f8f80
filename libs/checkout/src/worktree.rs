//! Looking at the files of a clone: by lstat(2), without following a link, before any git does.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use crate::at::{Directory, Fault, Kind, Status, shown};
use crate::tree::{Changes, GITLINK, Tree, TreeEntry};
use crate::verdict::{Kept, Reason};

/// Most entries of a work tree, ignored ones included.
const ENTRIES: usize = 2_000_000;
/// Deepest nesting; each level is an open directory.
const DEPTH: usize = 200;
/// Longest path that git can open, in bytes, with room for a name: less than PATH_MAX.
const PATH_BYTES: usize = 4096 - 256 - 2;
/// Most nested repositories.
const NESTED: usize = 10_000;
/// How long a walk may take.
const TIME: Duration = Duration::from_secs(20);
/// Largest file that git reads for its rules, in bytes.
const RULES_BYTES: u64 = 1024 * 1024;
/// Files from this size on, in bytes, are compared with what they are of before git hashes them.
const LARGE_BYTES: u64 = 64 * 1024 * 1024;

/// Files that git reads while it looks at others.
const RULES: [&str; 3] = [".gitignore", ".gitattributes", ".gitmodules"];

/// A tracked file that is so large that git should not hash it without need.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Large {
    /// Its path.
    pub(crate) path: Vec<u8>,
    /// Its size in bytes.
    pub(crate) size: u64,
}

/// What a walk has found that git has to be asked about.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// Tracked files that are large.
    pub(crate) large: Vec<Large>,
    /// Directories that are not tracked and have a `.git`. Git says nothing of one whose `.git` is no repository and that
    /// has nothing else.
    pub(crate) nested: Vec<Vec<u8>>,
}

/// Walks the work tree `top` of a clone that is at one of `trees`; `prefix` is the length of its own path.
///
/// # Errors
/// With the reason to leave it as it is.
pub(crate) fn walk(top: &Directory, trees: &[&Tree], owner: u32, prefix: usize) -> Result<Walked, Kept> {
    let deadline = Instant::now() + TIME;
    let mut walk = Walk { trees, owner, prefix, entries: 0, deadline, found: Walked::default() };
    walk.below(top, &mut Vec::new(), 0)?;
    Ok(walk.found)
}

struct Walk<'a> {
    trees: &'a [&'a Tree],
    owner: u32,
    prefix: usize,
    entries: usize,
    deadline: Instant,
    found: Walked,
}

impl Walk<'_> {
    fn below(&mut self, directory: &Directory, path: &mut Vec<u8>, depth: usize) -> Result<(), Kept> {
        if Instant::now() > self.deadline {
            return Err(Kept::looked(Reason::TooLarge, "its files are too many to look at in time"));
        }
        let tracked = self.trees.iter().any(|tree| tree.is_directory(path));
        let names = match directory.names(ENTRIES - self.entries) {
            Ok(names) => names,
            Err(fault) => return Err(kept_for(fault, path)),
        };
        self.entries += names.len();
        for name in &names {
            if depth == 0 && name == ".git" {
                continue;
            }
            let length = path.len();
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
            self.entry(directory, name, path, tracked, depth)?;
            path.truncate(length);
        }
        Ok(())
    }

    fn entry(
        &mut self,
        directory: &Directory,
        name: &OsStr,
        path: &mut Vec<u8>,
        tracked: bool,
        depth: usize,
    ) -> Result<(), Kept> {
        let status = directory.look(name).map_err(|fault| kept_for(fault, path))?;
        let at = || format!("`{}`", shown(path));
        if name == ".git" {
            return self.nested(directory, name, status.kind, path, tracked);
        }
        if RULES.iter().any(|rules| name == *rules) {
            match status.kind {
                Kind::Special => return Err(Kept::looked(Reason::Dirty, format!("{} is a special file", at()))),
                Kind::File if status.size > RULES_BYTES => {
                    return Err(Kept::looked(Reason::Dirty, format!("{} is too large for git to read", at())));
                }
                _ => {}
            }
            if tracked && name == ".gitattributes" && self.file(path).is_none() {
                return Err(Kept::looked(Reason::HiddenChanges, format!("{} is not tracked", at())));
            }
        }
        match status.kind {
            Kind::Special if tracked => Err(Kept::looked(Reason::Dirty, format!("{} is a special file", at()))),
            Kind::File if status.size >= LARGE_BYTES && self.file(path).is_some() => {
                self.found.large.push(Large { path: path.clone(), size: status.size });
                Ok(())
            }
            Kind::Directory if self.file(path).is_some_and(|entry| entry.mode == GITLINK) => {
                // A submodule's own repository is neither looked into nor touched.
                Ok(())
            }
            // Git passes over what is deeper than the system's calls can name.
            Kind::Directory if depth + 1 >= DEPTH || self.prefix + path.len() > PATH_BYTES => {
                Err(Kept::looked(Reason::TooLarge, format!("{} is nested too deeply", at())))
            }
            // And over what it can't open.
            Kind::Directory if !self.can_open(status) => {
                Err(Kept::looked(Reason::Unreadable, format!("{} can't be opened by its owner", at())))
            }
            Kind::Directory => {
                let child = directory.child(name).map_err(|fault| kept_for(fault, path))?;
                self.below(&child, path, depth + 1)
            }
            _ => Ok(()),
        }
    }

    fn file(&self, path: &[u8]) -> Option<&TreeEntry> {
        self.trees.iter().find_map(|tree| tree.file(path))
    }

    /// True when the contained git, which runs under the owner's uid and in no group of others, can list a directory.
    fn can_open(&self, status: Status) -> bool {
        let needed = if status.uid == self.owner { 0o500 } else { 0o005 };
        status.mode & needed == needed
    }

    /// A repository within the work tree: in a tracked directory it would hide what is below it. Elsewhere git asks only
    /// whether it is one.
    fn nested(
        &mut self,
        directory: &Directory,
        name: &OsStr,
        kind: Kind,
        path: &[u8],
        tracked: bool,
    ) -> Result<(), Kept> {
        let at = shown(path);
        if tracked {
            return Err(Kept::looked(Reason::HiddenChanges, format!("`{at}` is a repository in a tracked directory")));
        }
        let plain = match kind {
            Kind::File => true,
            Kind::Directory => directory.child(name).is_ok_and(|git| {
                matches!(git.look(OsStr::new("HEAD")).map(|head| head.kind), Ok(Kind::File) | Err(Fault::Missing))
            }),
            Kind::Link | Kind::Special => false,
        };
        if let Some(slash) = path.iter().rposition(|byte| *byte == b'/').filter(|_| plain) {
            self.found.nested.push(path[..slash].to_vec());
        }
        if self.found.nested.len() > NESTED {
            return Err(Kept::looked(Reason::TooLarge, "it has too many nested repositories"));
        }
        if plain { Ok(()) } else { Err(Kept::looked(Reason::Dirty, format!("`{at}` is no plain repository"))) }
    }
}

fn kept_for(fault: Fault, path: &[u8]) -> Kept {
    let reason = match fault {
        Fault::TooLarge => Reason::TooLarge,
        // It was there a moment ago: something is at work in it.
        Fault::Missing | Fault::NotPlain => Reason::GitBusy,
        // What can't be read is, as far as git can tell, changed.
        Fault::Unreadable(_) => Reason::Unreadable,
    };
    Kept::asked(reason, format!("`{}` {fault}", shown(path)))
}

/// Checks that an update writes over nothing that is not tracked, and into no directory that it can't write to.
///
/// # Errors
/// With the reason to leave the clone as it is.
pub(crate) fn check_room(top: &Directory, tree: &Tree, changes: &Changes, owner: u32) -> Result<(), Kept> {
    for path in &changes.added {
        check_path(top, tree, changes, path, owner, true)?;
    }
    for path in changes.changed.iter().chain(&changes.removed) {
        check_path(top, tree, changes, path, owner, false)?;
    }
    for path in &changes.submodules {
        check_submodule(top, path)?;
    }
    Ok(())
}

fn check_path(
    top: &Directory,
    tree: &Tree,
    changes: &Changes,
    path: &[u8],
    owner: u32,
    added: bool,
) -> Result<(), Kept> {
    let in_the_way = |at: &[u8]| Kept::asked(Reason::WouldOverwrite, format!("`{}` is in the way", shown(at)));
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let mut open: Option<Directory> = None;
    let mut length = 0;
    for (number, part) in parts.iter().enumerate() {
        let directory = open.as_ref().unwrap_or(top);
        let name = OsStr::from_bytes(part);
        length += part.len() + usize::from(number > 0);
        let so_far = &path[..length];
        let last = number + 1 == parts.len();
        let status = match directory.look(name) {
            Ok(status) => status,
            Err(Fault::Missing) => return check_directory(directory, so_far, owner),
            Err(fault) => return Err(kept_for(fault, so_far)),
        };
        if last {
            check_directory(directory, so_far, owner)?;
            let expected = !added || (status.kind == Kind::Directory && only_tracked(directory, name, so_far, tree)?);
            return if expected { Ok(()) } else { Err(in_the_way(so_far)) };
        }
        match status.kind {
            Kind::Directory => open = Some(directory.child(name).map_err(|fault| kept_for(fault, so_far))?),
            // A tracked file makes room for a directory.
            _ if changes.removed.contains(so_far) => return Ok(()),
            _ => return Err(in_the_way(so_far)),
        }
    }
    Ok(())
}

/// A submodule that goes, or becomes a file, takes its checkout with it: there must be none.
fn check_submodule(top: &Directory, path: &[u8]) -> Result<(), Kept> {
    let mut parts = path.split(|byte| *byte == b'/').map(OsStr::from_bytes);
    let mut open = parts.next().map_or(Err(Fault::Missing), |part| top.child(part));
    for part in parts {
        open = open.and_then(|directory| directory.child(part));
    }
    match open.and_then(|directory| directory.names(0)) {
        Ok(_) | Err(Fault::Missing) => Ok(()),
        Err(_) => Err(Kept::asked(Reason::WouldOverwrite, format!("the submodule `{}` is checked out", shown(path)))),
    }
}

fn check_directory(directory: &Directory, path: &[u8], owner: u32) -> Result<(), Kept> {
    let status = directory.status().map_err(|fault| kept_for(fault, path))?;
    if status.uid == owner && status.mode & 0o300 == 0o300 {
        return Ok(());
    }
    let detail = format!("the directory of `{}` can't be written to", shown(path));
    Err(Kept::asked(Reason::Unreadable, detail))
}

/// True when everything below a directory is tracked, so that it is empty once those files are gone.
fn only_tracked(directory: &Directory, name: &OsStr, path: &[u8], tree: &Tree) -> Result<bool, Kept> {
    let mut waiting: Vec<(Directory, Vec<u8>)> =
        vec![(directory.child(name).map_err(|fault| kept_for(fault, path))?, path.to_vec())];
    while let Some((directory, path)) = waiting.pop() {
        let names: Vec<OsString> = directory.names(ENTRIES).map_err(|fault| kept_for(fault, &path))?;
        for name in names {
            let below = [path.as_slice(), b"/", name.as_bytes()].concat();
            let status = directory.look(&name).map_err(|fault| kept_for(fault, &below))?;
            if status.kind == Kind::Directory {
                if waiting.len() >= DEPTH {
                    return Ok(false);
                }
                waiting.push((directory.child(&name).map_err(|fault| kept_for(fault, &below))?, below));
            } else if tree.file(&below).is_none() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
