//! Looking at `.git`: what must be there, what must not, and what an untouched clone says. Files alone are read; no git runs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::at::{Directory, Fault, Kind, Status, shown};
use crate::parse::{Head, ObjectId, packed_refs, parse_config, parse_head, parse_loose_ref};
use crate::settings::{foreign, names_root};
use crate::verdict::{Kept, Reason};

/// Most entries below `.git`.
pub(crate) const ENTRIES: usize = 400_000;
/// Deepest nesting below `.git`.
pub(crate) const DEPTH: usize = 120;
/// Largest `config`, in bytes.
pub(crate) const CONFIG_BYTES: usize = 64 * 1024;
/// Largest `HEAD` or file of a ref, in bytes.
pub(crate) const REF_BYTES: usize = 4096;
/// Largest `packed-refs`, in bytes.
pub(crate) const PACKED_REFS_BYTES: usize = 64 * 1024 * 1024;
/// Largest `index`, in bytes.
pub(crate) const INDEX_BYTES: usize = 512 * 1024 * 1024;

/// Files that change what the repository is, and that no clone of ours has.
const FOREIGN: [&str; 11] = [
    "commondir",
    "gitdir",
    "config.worktree",
    "reftable",
    "shallow",
    "info/grafts",
    "info/sparse-checkout",
    "info/attributes",
    "objects/info/alternates",
    "objects/info/http-alternates",
    "refs/replace",
];
/// Files that git leaves while it is at work, or was interrupted.
const BUSY: [&str; 12] = [
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "MERGE_RR",
    "MERGE_AUTOSTASH",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_START",
    "AUTO_MERGE",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
];
/// Directories that hold names of remotes in the way of old gits.
const OLD_REMOTES: [&str; 2] = ["remotes", "branches"];

/// A clone that is one, with its `.git` open.
#[derive(Debug)]
pub(crate) struct Clone {
    /// Its work tree.
    pub(crate) top: Directory,
    /// Its `.git`.
    pub(crate) git: Directory,
    /// The commit that its branch is at.
    pub(crate) base: ObjectId,
}

/// What a clone must be like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected<'a> {
    /// Its owner.
    pub(crate) owner: u32,
    /// The root that it is a clone of.
    pub(crate) root: &'a Path,
    /// The root's branch.
    pub(crate) branch: &'a str,
    /// What a lock says that this host has left when it was killed.
    pub(crate) ours: Option<&'a str>,
}

/// Looks at the clone `path`.
///
/// # Errors
/// With the reason to leave it as it is.
pub(crate) fn look(path: &Path, expected: Expected<'_>) -> Result<Clone, Kept> {
    let top = Directory::open(path).map_err(|fault| kept_for(fault, "the clone's directory"))?;
    let git = top.child(OsStr::new(".git")).map_err(|fault| kept_for(fault, "`.git`"))?;
    let status = git.status().map_err(|fault| kept_for(fault, "`.git`"))?;
    let own = top.status().map_err(|fault| kept_for(fault, "the clone's directory"))?;
    for (status, name) in [(own, "the clone's directory"), (status, "`.git`")] {
        if status.mode & 0o700 != 0o700 {
            return Err(Kept::looked(Reason::Unreadable, format!("{name} is not open to its owner")));
        }
        if status.uid != expected.owner {
            let detail = format!("{name} belongs to uid {}, not to uid {}", status.uid, expected.owner);
            return Err(Kept::looked(Reason::NotAClone, detail));
        }
        if status.device != own.device {
            return Err(Kept::looked(Reason::NotAClone, format!("{name} is on another file system")));
        }
    }
    walk(&git, own, expected.ours)?;
    check_needed(&git)?;
    check_foreign(&git)?;
    check_config(&git, expected)?;
    let branch = head(&git)?;
    if branch != expected.branch {
        let detail = format!("it is on `{}`, the root on `{}`", shown(branch.as_bytes()), expected.branch);
        return Err(Kept::looked(Reason::OtherBranch, detail));
    }
    let base = branch_commit(&git, &branch)?;
    Ok(Clone { top, git, base })
}

fn kept_for(fault: Fault, what: &str) -> Kept {
    let reason = match fault {
        Fault::Missing | Fault::NotPlain => Reason::NotAClone,
        Fault::TooLarge => Reason::TooLarge,
        Fault::Unreadable(_) => Reason::Unreadable,
    };
    Kept::looked(reason, format!("{what} {fault}"))
}

/// The same for a name that was listed a moment ago: where it is gone, something is at work there.
fn kept_within(fault: Fault, what: &str) -> Kept {
    match fault {
        Fault::Missing => Kept::looked(Reason::GitBusy, format!("{what} {fault} any more")),
        fault => kept_for(fault, what),
    }
}

/// Walks all of `.git`: nothing but directories, and files of one name, on one file system.
fn walk(git: &Directory, top: Status, ours: Option<&str>) -> Result<(), Kept> {
    let mut walk = Walk { top, ours, entries: 0, busy: None };
    walk.below(git, Path::new(""), 0)?;
    match walk.busy {
        None => Ok(()),
        Some(detail) => Err(Kept::looked(Reason::GitBusy, detail)),
    }
}

struct Walk<'a> {
    /// The clone's directory.
    top: Status,
    /// What a lock of the host's own says.
    ours: Option<&'a str>,
    entries: usize,
    /// The first sign of git at work.
    busy: Option<String>,
}

impl Walk<'_> {
    fn below(&mut self, directory: &Directory, path: &Path, depth: usize) -> Result<(), Kept> {
        let at = |name: &OsStr| format!("`.git/{}`", shown(path.join(name).as_os_str().as_bytes()));
        let names = directory.names(ENTRIES - self.entries).map_err(|fault| kept_for(fault, &at(OsStr::new(""))))?;
        self.entries += names.len();
        for name in &names {
            let status = directory.look(name).map_err(|fault| kept_within(fault, &at(name)))?;
            self.check_plain(status, &at(name))?;
            if self.busy.is_none() && is_busy(path, name) && !self.is_ours(directory, name) {
                self.busy = Some(format!("{} is there", at(name)));
            }
            if status.kind == Kind::Directory {
                if depth + 1 >= DEPTH {
                    return Err(Kept::looked(Reason::TooLarge, format!("{} is nested too deeply", at(name))));
                }
                let child = directory.child(name).map_err(|fault| kept_within(fault, &at(name)))?;
                self.below(&child, &path.join(name), depth + 1)?;
            }
        }
        Ok(())
    }

    fn is_ours(&self, directory: &Directory, name: &OsStr) -> bool {
        self.ours.is_some_and(|ours| directory.read(name, REF_BYTES).is_ok_and(|found| found == ours.as_bytes()))
    }

    fn check_plain(&self, status: Status, at: &str) -> Result<(), Kept> {
        let (plain, needed) = match status.kind {
            Kind::Directory => (true, 0o700),
            Kind::File => (status.links == 1, 0o400),
            Kind::Link | Kind::Special => (false, 0),
        };
        if !plain || status.device != self.top.device {
            let detail = format!("{at} is not a plain file or directory of this clone alone");
            return Err(Kept::looked(Reason::NotAClone, detail));
        }
        if status.uid != self.top.uid || status.mode & needed != needed {
            return Err(Kept::looked(Reason::Unreadable, format!("{at} is not open to its owner")));
        }
        Ok(())
    }
}

/// Locks that matter to an update, and states that git leaves when it was interrupted.
pub(crate) fn is_busy(path: &Path, name: &OsStr) -> bool {
    let top = path.as_os_str().is_empty();
    let lock = name.as_bytes().ends_with(b".lock");
    let of_refs = path.starts_with("refs") || path.starts_with("logs");
    (lock && (top || of_refs)) || (top && BUSY.iter().any(|state| name == *state))
}

/// What git itself needs to take `.git` for a repository; it would look for another one elsewhere without it.
fn check_needed(git: &Directory) -> Result<(), Kept> {
    let needed =
        [("HEAD", Kind::File), ("config", Kind::File), ("objects", Kind::Directory), ("refs", Kind::Directory)];
    for (name, kind) in needed {
        if !git.look(OsStr::new(name)).is_ok_and(|status| status.kind == kind) {
            return Err(Kept::looked(Reason::NotAClone, format!("`.git/{name}` is not what it is in a repository")));
        }
    }
    Ok(())
}

fn check_foreign(git: &Directory) -> Result<(), Kept> {
    for name in FOREIGN {
        if exists(git, name)? {
            return Err(Kept::looked(Reason::NotAClone, format!("`.git/{name}` is there")));
        }
    }
    for name in OLD_REMOTES {
        let Ok(directory) = git.child(OsStr::new(name)) else { continue };
        if directory.names(ENTRIES).map_or(true, |names| !names.is_empty()) {
            return Err(Kept::looked(Reason::NotAClone, format!("`.git/{name}` names a remote")));
        }
    }
    match git.look(OsStr::new("index")) {
        Ok(status) if status.kind == Kind::File && status.size <= INDEX_BYTES as u64 => {}
        Ok(_) => return Err(Kept::looked(Reason::TooLarge, "`.git/index` is too large")),
        Err(fault) => return Err(Kept::looked(Reason::Dirty, format!("`.git/index` {fault}"))),
    }
    Ok(())
}

/// True when `path`, of names below `git`, is there. The walk has found neither a link nor a special file.
fn exists(git: &Directory, path: &str) -> Result<bool, Kept> {
    let mut open: Option<Directory> = None;
    let (parents, name) = path.rsplit_once('/').map_or(("", path), |(parents, name)| (parents, name));
    for parent in parents.split('/').filter(|parent| !parent.is_empty()) {
        match open.as_ref().unwrap_or(git).child(OsStr::new(parent)) {
            Ok(child) => open = Some(child),
            Err(Fault::Missing) => return Ok(false),
            Err(fault) => return Err(kept_for(fault, &format!("`.git/{path}`"))),
        }
    }
    match open.as_ref().unwrap_or(git).look(OsStr::new(name)) {
        Ok(_) => Ok(true),
        Err(Fault::Missing) => Ok(false),
        Err(fault) => Err(kept_for(fault, &format!("`.git/{path}`"))),
    }
}

/// The configuration must say what `git clone` wrote: these keys with these values, each at most once.
fn check_config(git: &Directory, expected: Expected<'_>) -> Result<(), Kept> {
    let changed = |detail: String| Kept::looked(Reason::ConfigChanged, detail);
    let content = git.read(OsStr::new("config"), CONFIG_BYTES).map_err(|fault| match fault {
        Fault::TooLarge => changed("`.git/config` is too large".to_owned()),
        fault => kept_for(fault, "`.git/config`"),
    })?;
    let entries = parse_config(&content).map_err(|malformed| changed(format!("`.git/config` {malformed}")))?;
    if let Some((name, _)) = foreign(&entries, Some(expected.root.as_os_str())).next() {
        return Err(changed(format!("`.git/config` sets {}", shown(name.as_bytes()))));
    }
    if entries.iter().any(names_root) { Ok(()) } else { Err(changed("`.git/config` names no root".to_owned())) }
}

fn head(git: &Directory) -> Result<String, Kept> {
    let content = git.read(OsStr::new("HEAD"), REF_BYTES).map_err(|fault| kept_for(fault, "`.git/HEAD`"))?;
    match parse_head(&content) {
        Ok(Head::Branch(branch)) => Ok(branch),
        Ok(Head::Detached(id)) => Err(Kept::looked(Reason::Detached, format!("it is on no branch, at {id}"))),
        Err(malformed) => Err(Kept::looked(Reason::NotAClone, format!("`.git/HEAD` {malformed}"))),
    }
}

/// The commit of a branch: its own file, or the one line of `packed-refs` that names it.
fn branch_commit(git: &Directory, branch: &str) -> Result<ObjectId, Kept> {
    let mut parts: Vec<OsString> = vec!["refs".into(), "heads".into()];
    parts.extend(branch.split('/').map(OsString::from));
    let name = parts.pop().unwrap_or_default();
    let mut open: Option<Directory> = None;
    let mut loose = true;
    for part in &parts {
        match open.as_ref().unwrap_or(git).child(part) {
            Ok(child) => open = Some(child),
            Err(Fault::Missing) => {
                loose = false;
                break;
            }
            Err(fault) => return Err(kept_for(fault, &format!("`.git/refs/heads/{branch}`"))),
        }
    }
    if loose {
        match open.as_ref().unwrap_or(git).read(&name, REF_BYTES) {
            Ok(content) => {
                return parse_loose_ref(&content).map_err(|malformed| {
                    Kept::looked(Reason::HiddenChanges, format!("`.git/refs/heads/{branch}` {malformed}"))
                });
            }
            Err(Fault::Missing) => {}
            Err(fault) => return Err(kept_for(fault, &format!("`.git/refs/heads/{branch}`"))),
        }
    }
    packed_commit(git, branch)
}

fn packed_commit(git: &Directory, branch: &str) -> Result<ObjectId, Kept> {
    let not_one = |detail: &str| Kept::looked(Reason::NotAClone, format!("`.git/packed-refs` {detail}"));
    let content = match git.read(OsStr::new("packed-refs"), PACKED_REFS_BYTES) {
        Ok(content) => content,
        Err(Fault::Missing) => {
            return Err(Kept::looked(Reason::NotAClone, format!("its branch `{branch}` is at no commit")));
        }
        Err(fault) => return Err(kept_for(fault, "`.git/packed-refs`")),
    };
    let wanted = format!("refs/heads/{branch}");
    let mut found = None;
    for line in packed_refs(&content) {
        let line = line.map_err(|malformed| not_one(&malformed.to_string()))?;
        if line.name == wanted.as_bytes() && found.replace(line.id).is_some() {
            return Err(not_one("names its branch twice"));
        }
    }
    found.ok_or_else(|| not_one("does not name its branch"))
}
