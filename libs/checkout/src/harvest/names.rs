//! Commits that a clone names: its branches and tags, stashes, what its reflogs and unfinished operations remember, and loose
//! objects that nothing names any more. Files alone are read; no git runs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use crate::at::{Directory, Fault, Kind, shown};
use crate::parse::{Head, ObjectId, packed_refs, parse_head};

/// Most ids that are looked for.
const IDS: usize = 200_000;
/// Most entries of all directories of refs and reflogs together.
const ENTRIES: usize = 400_000;
/// Deepest nesting of refs.
const DEPTH: usize = 60;
/// Largest file of a name, in bytes.
const NAME_BYTES: usize = 64 * 1024;
/// Largest reflog, or list of packed refs, in bytes.
const LOG_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of reflogs that are read in all.
const LOGS_BYTES: usize = 256 * 1024 * 1024;

/// Files at the top of `.git` that name commits.
const PSEUDO: [&str; 8] = [
    "ORIG_HEAD",
    "MERGE_HEAD",
    "FETCH_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "MERGE_AUTOSTASH",
    "BISECT_HEAD",
];
/// Directories of operations that were not finished.
const UNFINISHED: [&str; 3] = ["rebase-merge", "rebase-apply", "sequencer"];

/// What a clone names.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Branch that is checked out.
    pub(super) branch: Option<String>,
    /// Commit that is checked out.
    pub(super) head: Option<ObjectId>,
    /// Every id, with the first name that was found for it. Whether there is such an object is not known.
    pub(super) ids: BTreeMap<ObjectId, String>,
    /// Ids of loose objects, which may be anything.
    pub(super) loose: Vec<ObjectId>,
    /// What could not be read, for people.
    pub(super) unreadable: Vec<String>,
}

/// Reads what `git`, the clone's `.git`, names.
pub(super) fn collect(git: &Directory) -> Names {
    let mut collector = Collector { names: Names::default(), entries: 0, log_bytes: 0 };
    collector.refs(git);
    collector.head(git);
    for name in PSEUDO {
        collector.file(git, OsStr::new(name), name);
    }
    for name in UNFINISHED {
        if let Ok(directory) = git.child(OsStr::new(name)) {
            collector.directory(&directory, name, 0, Collector::file);
        }
    }
    if let Ok(logs) = git.child(OsStr::new("logs")) {
        collector.directory(&logs, "logs", 0, Collector::log);
    }
    if let Ok(worktrees) = git.child(OsStr::new("worktrees")) {
        collector.directory(&worktrees, "worktrees", 0, Collector::log);
    }
    collector.loose(git);
    collector.names
}

struct Collector {
    names: Names,
    entries: usize,
    log_bytes: usize,
}

type Visit = fn(&mut Collector, &Directory, &OsStr, &str);

impl Collector {
    fn add(&mut self, id: ObjectId, name: &str) {
        // Git writes zeros where there is no commit.
        if id == ObjectId::from_bytes([0; 20]) || self.names.ids.len() >= IDS {
            return;
        }
        self.names.ids.entry(id).or_insert_with(|| name.to_owned());
    }

    fn unreadable(&mut self, name: &str, fault: Fault) {
        if fault != Fault::Missing && self.names.unreadable.len() < 1000 {
            self.names.unreadable.push(format!("{name} {fault}"));
        }
    }

    /// Packed refs first: a loose one is the newer.
    fn refs(&mut self, git: &Directory) {
        match git.read(OsStr::new("packed-refs"), LOG_BYTES) {
            Ok(content) => {
                for found in packed_refs(&content).flatten() {
                    self.add(found.id, &shown(found.name));
                }
            }
            Err(fault) => self.unreadable("packed-refs", fault),
        }
        match git.child(OsStr::new("refs")) {
            Ok(refs) => self.directory(&refs, "refs", 0, Self::file),
            Err(fault) => self.unreadable("refs", fault),
        }
    }

    fn head(&mut self, git: &Directory) {
        let content = match git.read(OsStr::new("HEAD"), NAME_BYTES) {
            Ok(content) => content,
            Err(fault) => return self.unreadable("HEAD", fault),
        };
        match parse_head(&content) {
            Ok(Head::Detached(id)) => {
                self.names.head = Some(id);
                self.add(id, "HEAD");
            }
            Ok(Head::Branch(branch)) => {
                self.names.head = branch_commit(git, &branch);
                self.names.branch = Some(branch);
            }
            Err(malformed) => self.names.unreadable.push(format!("HEAD {malformed}")),
        }
    }

    /// Visits every file below a directory.
    fn directory(&mut self, directory: &Directory, name: &str, depth: usize, visit: Visit) {
        let entries = match directory.names(ENTRIES.saturating_sub(self.entries)) {
            Ok(entries) => entries,
            Err(fault) => return self.unreadable(name, fault),
        };
        self.entries += entries.len();
        for entry in entries {
            let below = format!("{name}/{}", shown(entry.as_bytes()));
            match directory.look(&entry).map(|status| status.kind) {
                Ok(Kind::Directory) if depth < DEPTH => match directory.child(&entry) {
                    Ok(child) => self.directory(&child, &below, depth + 1, visit),
                    Err(fault) => self.unreadable(&below, fault),
                },
                Ok(Kind::File) => visit(self, directory, &entry, &below),
                Ok(_) => self.unreadable(&below, Fault::NotPlain),
                Err(fault) => self.unreadable(&below, fault),
            }
        }
    }

    /// A file whose lines begin with an id.
    fn file(&mut self, directory: &Directory, name: &OsStr, at: &str) {
        match directory.read(name, NAME_BYTES) {
            Ok(content) => {
                for line in content.split(|byte| *byte == b'\n') {
                    if let Some(id) = line.get(..40).and_then(ObjectId::from_hex) {
                        self.add(id, at);
                    }
                }
            }
            Err(fault) => self.unreadable(at, fault),
        }
    }

    /// A reflog: each line begins with the id before and the id after.
    fn log(&mut self, directory: &Directory, name: &OsStr, at: &str) {
        let most = LOG_BYTES.min(LOGS_BYTES.saturating_sub(self.log_bytes));
        match directory.read(name, most) {
            Ok(content) => {
                self.log_bytes += content.len();
                for line in content.split(|byte| *byte == b'\n') {
                    for id in [line.get(..40), line.get(41..81)].into_iter().flatten().filter_map(ObjectId::from_hex) {
                        self.add(id, at);
                    }
                }
            }
            Err(fault) => self.unreadable(at, fault),
        }
    }

    /// The ids of loose objects: the names of their files.
    fn loose(&mut self, git: &Directory) {
        let Ok(objects) = git.child(OsStr::new("objects")) else { return };
        for high in 0..=255_u8 {
            let prefix = format!("{high:02x}");
            let Ok(directory) = objects.child(OsStr::new(&prefix)) else { continue };
            for name in directory.names(IDS).unwrap_or_default() {
                let hex: Vec<u8> = [prefix.as_bytes(), name.as_bytes()].concat();
                if let Some(id) = ObjectId::from_hex(&hex).filter(|_| self.names.loose.len() < IDS) {
                    self.names.loose.push(id);
                }
            }
        }
    }
}

/// The commit of a branch: of its own file, else the last that `packed-refs` says.
fn branch_commit(git: &Directory, branch: &str) -> Option<ObjectId> {
    let loose = || {
        let mut parts: Vec<OsString> = ["refs", "heads"].map(OsString::from).to_vec();
        parts.extend(branch.split('/').map(OsString::from));
        let name = parts.pop()?;
        let mut open: Option<Directory> = None;
        for part in parts {
            open = Some(open.as_ref().unwrap_or(git).child(&part).ok()?);
        }
        let content = open.as_ref()?.read(&name, NAME_BYTES).ok()?;
        content.get(..40).and_then(ObjectId::from_hex)
    };
    let packed = || {
        let content = git.read(OsStr::new("packed-refs"), LOG_BYTES).ok()?;
        let wanted = format!("refs/heads/{branch}");
        packed_refs(&content).flatten().filter(|found| found.name == wanted.as_bytes()).last().map(|found| found.id)
    };
    loose().or_else(packed)
}
