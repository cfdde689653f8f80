//! What a commit holds, as the mirror knows it, and what changes between two commits.

use std::collections::HashSet;

use crate::git::Failed;
use crate::mirror::Mirror;
use crate::parse::{Index, Malformed, ObjectId};

/// Type and permissions of a submodule's entry.
pub(crate) const GITLINK: u32 = 0o160_000;

/// Why a tree could not be listed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TreeError {
    /// Git failed.
    #[error(transparent)]
    Git(#[from] Failed),
    /// Git wrote what it does not write.
    #[error("git's list {0}")]
    Malformed(#[from] Malformed),
}

/// One file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeEntry {
    /// Path below the work tree.
    pub(crate) path: Vec<u8>,
    /// Type and permissions.
    pub(crate) mode: u32,
    /// The object.
    pub(crate) id: ObjectId,
}

/// All files of a commit, in ascending order of path.
#[derive(Debug)]
pub(crate) struct Tree {
    entries: Vec<TreeEntry>,
    directories: HashSet<Vec<u8>>,
}

impl Tree {
    /// Lists `commit`.
    pub(crate) fn of(mirror: &Mirror<'_>, commit: ObjectId) -> Result<Self, TreeError> {
        let listed = mirror.asked(&["ls-tree", "-r", "-z", "--full-tree", &commit.to_string()])?;
        let mut entries = Vec::new();
        let mut directories = HashSet::from([Vec::new()]);
        for line in listed.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let entry = tree_line(line).ok_or(Malformed)?;
            let mut end = entry.path.len();
            while let Some(slash) = entry.path[..end].iter().rposition(|byte| *byte == b'/') {
                if !directories.insert(entry.path[..slash].to_vec()) {
                    break;
                }
                end = slash;
            }
            entries.push(entry);
        }
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Self { entries, directories })
    }

    /// All of them, in ascending order of path.
    pub(crate) fn entries(&self) -> &[TreeEntry] {
        &self.entries
    }

    /// The file at `path`.
    pub(crate) fn file(&self, path: &[u8]) -> Option<&TreeEntry> {
        let at = self.entries.binary_search_by(|entry| entry.path.as_slice().cmp(path)).ok()?;
        self.entries.get(at)
    }

    /// True for a directory that has files of the tree below it.
    pub(crate) fn is_directory(&self, path: &[u8]) -> bool {
        self.directories.contains(path)
    }

    /// True when `index` stages exactly this tree.
    pub(crate) fn is_staged_by(&self, index: &Index) -> bool {
        !index.partial
            && index.entries.len() == self.entries.len()
            && index.entries.iter().zip(&self.entries).all(|(staged, entry)| {
                staged.stage == 0
                    && !staged.intent_to_add
                    && (staged.path.as_slice(), staged.mode, staged.id) == (entry.path.as_slice(), entry.mode, entry.id)
            })
    }
}

/// `<mode> <type> <id>\t<path>`, see git-ls-tree(1).
fn tree_line(line: &[u8]) -> Option<TreeEntry> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let (facts, path) = (std::str::from_utf8(&line[..tab]).ok()?, &line[tab + 1..]);
    let mut facts = facts.split(' ');
    let (mode, _kind, id) = (facts.next()?, facts.next()?, facts.next()?);
    Some(TreeEntry {
        path: path.to_vec(),
        mode: u32::from_str_radix(mode, 8).ok()?,
        id: ObjectId::from_hex(id.as_bytes())?,
    })
}

/// What changes between two commits.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Paths that only the later one has.
    pub(crate) added: Vec<Vec<u8>>,
    /// Paths that only the earlier one has.
    pub(crate) removed: HashSet<Vec<u8>>,
    /// Paths that both have, and that differ.
    pub(crate) changed: Vec<Vec<u8>>,
    /// Submodules that are removed, or become files.
    pub(crate) submodules: Vec<Vec<u8>>,
}

impl Changes {
    /// Lists what changes from `base` to `tip`.
    pub(crate) fn between(mirror: &Mirror<'_>, base: ObjectId, tip: ObjectId) -> Result<Self, TreeError> {
        let (base, tip) = (base.to_string(), tip.to_string());
        let listed = mirror.asked(&["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", &base, &tip])?;
        let mut changes = Self::default();
        let mut fields = listed.split(|byte| *byte == 0);
        while let Some(facts) = fields.next().filter(|facts| !facts.is_empty()) {
            let path = fields.next().ok_or(Malformed)?.to_vec();
            if facts.starts_with(b":160000") && facts.ends_with(b"D") | facts.ends_with(b"T") {
                changes.submodules.push(path.clone());
            }
            match facts.last() {
                Some(b'A') => changes.added.push(path),
                Some(b'D') => drop(changes.removed.insert(path)),
                Some(b'M' | b'T') => changes.changed.push(path),
                _ => return Err(Malformed.into()),
            }
        }
        Ok(changes)
    }
}
