//! The commits and the staged content of a clone, bundled in a box that alone sees the clone's objects.

use std::collections::{BTreeMap, HashMap, HashSet};

use mosaic_record::LeftOutReason;

use super::files::{Left, is_unsafe};
use super::names::Names;
use super::repository::Repository;
use crate::at::Directory;
use crate::git::Failed;
use crate::mirror::Mirror;
use crate::parse::{Index, IndexEntry, ObjectId};
use crate::tree::Tree;

/// Refs of the snapshots of what is staged, by stage; the first is what `git add` staged, the others are the sides of a merge
/// that was not finished.
pub(super) const STAGES: [&str; 4] =
    ["refs/agent/snap/index", "refs/agent/snap/stage-1", "refs/agent/snap/stage-2", "refs/agent/snap/stage-3"];
/// What precedes the id in the ref of a commit.
pub(super) const COMMITS: &str = "refs/agent/commit/";
/// Directory of a repository that files come from.
const OUT: &str = "out";
/// Name of the bundle between two of them.
const BUNDLE: &str = "theirs";
/// Commits that are carried one by one, when they can't be carried together.
const ONE_BY_ONE: usize = 64;

/// What a clone's objects hold beside the root's history.
#[derive(Debug, Default)]
pub(super) struct Theirs {
    /// Refs from which all of it can be reached.
    refs: Vec<String>,
    /// Commits and tags, with their names.
    pub(super) tips: BTreeMap<ObjectId, String>,
    /// What could not be taken.
    pub(super) left: Vec<Left>,
    /// Refs that lead to an object which is not what its id says, or which git refuses.
    pub(super) damaged: Vec<String>,
}

/// Finds what `names` and `index` name and the root's history does not have.
pub(super) fn find(
    repository: &Repository<'_>,
    mirror: &Mirror<'_>,
    names: &Names,
    index: Option<&Index>,
    tip: ObjectId,
) -> Result<Theirs, Failed> {
    let mut theirs = Theirs::default();
    commits(repository, mirror, names, &mut theirs)?;
    if let Some(index) = index
        && !is_as_committed(mirror, names, index)
    {
        theirs.refs = stage(repository, names, index, &mut theirs)?;
    }
    theirs.refs.extend(independent(repository, &theirs.tips, tip));
    Ok(theirs)
}

/// Brings what was found into the quarantine, where objects are checked and ids computed anew; together, or one by one where
/// something is damaged, so that what is not is taken all the same.
pub(super) fn hand_over(from: &Repository<'_>, to: &Repository<'_>, theirs: &mut Theirs, tip: ObjectId) {
    let refs = std::mem::take(&mut theirs.refs);
    if refs.is_empty() || carry(from, to, &refs, tip).is_ok() {
        return;
    }
    for (number, name) in refs.iter().enumerate() {
        let (reason, why) = if number >= ONE_BY_ONE {
            (LeftOutReason::OverLimit, "too many are damaged".to_owned())
        } else if let Err(error) = carry(from, to, std::slice::from_ref(name), tip) {
            theirs.damaged.push(name.clone());
            (LeftOutReason::UnreadableObject, error.to_string())
        } else {
            continue;
        };
        tracing::info!(name, why, "Could not take a commit out of a clone");
        theirs.left.push(Left { reason, path: name.clone().into_bytes(), size: None });
    }
}

/// Carries refs with what they lead to from one repository to the other, as a bundle.
fn carry(from: &Repository<'_>, to: &Repository<'_>, refs: &[String], tip: ObjectId) -> std::io::Result<()> {
    let failed = |failed: Failed| std::io::Error::other(failed);
    let bundle = from.seen(&format!("{OUT}/{BUNDLE}"));
    let input = format!("{}\n^{tip}\n", refs.join("\n"));
    let create = ["bundle", "create", "--version=2", "--quiet", &bundle, "--stdin"];
    from.git(&create, input.as_bytes()).map_err(failed)?;
    let out = Directory::open(&from.path().join(OUT)).map_err(std::io::Error::other)?;
    let (written, _) = out.file(BUNDLE.as_ref()).map_err(std::io::Error::other)?;
    to.receive(written, |name| name.starts_with("refs/agent/")).map_err(failed)
}

/// Finds which of the named ids, and which loose objects, are commits or tags that the root's history does not have.
fn commits(repository: &Repository<'_>, mirror: &Mirror<'_>, names: &Names, theirs: &mut Theirs) -> Result<(), Failed> {
    let unnamed = names.loose.iter().filter(|id| !names.ids.contains_key(id));
    let all: Vec<ObjectId> = names.ids.keys().chain(unnamed).copied().collect();
    let known = types(&mirror.asked_with(&CHECK, &lines(&all))?);
    let new: Vec<ObjectId> = all.into_iter().filter(|id| !known.contains_key(id)).collect();
    if new.is_empty() {
        return Ok(());
    }
    let found = types(&repository.git(&CHECK, lines(&new).as_slice())?.bytes);
    let mut create = String::new();
    for id in new {
        let name = names.ids.get(&id);
        match (found.get(&id).map(String::as_str), name) {
            (Some("commit" | "tag"), _) => {
                create.push_str(&format!("create {COMMITS}{id} {id}\n"));
                theirs.tips.insert(id, name.cloned().unwrap_or_else(|| "unnamed".to_owned()));
            }
            (None, Some(name)) => {
                let path = format!("{name} {id}").into_bytes();
                theirs.left.push(Left { reason: LeftOutReason::UnreadableObject, path, size: None });
            }
            // A file or a directory, which its commit brings along; or a loose object that can't be read.
            _ => {}
        }
    }
    repository.git(&["update-ref", "--stdin"], create.as_bytes()).map(drop)
}

const CHECK: [&str; 2] = ["cat-file", "--batch-check=%(objectname) %(objecttype)"];

fn lines(ids: &[ObjectId]) -> Vec<u8> {
    ids.iter().flat_map(|id| format!("{id}\n").into_bytes()).collect()
}

/// The type of each object that is there.
fn types(checked: &[u8]) -> HashMap<ObjectId, String> {
    let line = |line: &[u8]| {
        let (id, kind) = line.split_at_checked(40)?;
        let kind = std::str::from_utf8(kind.strip_prefix(b" ")?).ok()?;
        matches!(kind, "commit" | "tag" | "tree" | "blob").then_some((ObjectId::from_hex(id)?, kind.to_owned()))
    };
    checked.split(|byte| *byte == b'\n').filter_map(line).collect()
}

/// Refs of the commits that no other of them leads to; of all of them when their history is damaged.
fn independent(repository: &Repository<'_>, tips: &BTreeMap<ObjectId, String>, tip: ObjectId) -> Vec<String> {
    let all = || tips.keys().map(|id| format!("{COMMITS}{id}"));
    let mut input = lines(&tips.keys().copied().collect::<Vec<_>>());
    input.extend_from_slice(format!("^{tip}\n").as_bytes());
    let Ok(listed) = repository.git(&["rev-list", "--parents", "--stdin"], input.as_slice()) else {
        return all().collect();
    };
    let mut parents = HashSet::new();
    for line in listed.bytes.split(|byte| *byte == b'\n') {
        parents.extend(line.split(|byte| *byte == b' ').skip(1).filter_map(ObjectId::from_hex));
    }
    tips.keys().filter(|id| !parents.contains(id)).map(|id| format!("{COMMITS}{id}")).collect()
}

/// True when nothing is staged beside a commit of the root's.
fn is_as_committed(mirror: &Mirror<'_>, names: &Names, index: &Index) -> bool {
    names.head.is_some_and(|head| Tree::of(mirror, head).is_ok_and(|tree| tree.is_staged_by(index)))
}

/// Makes a commit of what is staged, one for each stage that has entries, unless it is what is committed. Returns their refs.
fn stage(
    repository: &Repository<'_>,
    names: &Names,
    index: &Index,
    theirs: &mut Theirs,
) -> Result<Vec<String>, Failed> {
    let committed = names.head.and_then(|head| {
        let found = repository.git(&["rev-parse", "--verify", "--quiet", &format!("{head}^{{tree}}")], b"").ok()?;
        Some(text(&found.bytes))
    });
    let ids: HashSet<ObjectId> = index.entries.iter().map(|entry| entry.id).collect();
    let ids: Vec<ObjectId> = ids.into_iter().collect();
    let there = types(&repository.git(&CHECK, lines(&ids).as_slice())?.bytes);
    let mut refs = Vec::new();
    for (stage, name) in (0_u8..).zip(STAGES) {
        let mut input = Vec::new();
        for entry in index.entries.iter().filter(|entry| entry.stage == stage && !entry.intent_to_add) {
            match refused(entry, &there) {
                None => {
                    input.extend_from_slice(format!("{:o} {}\t", entry.mode, entry.id).as_bytes());
                    input.extend_from_slice(&entry.path);
                    input.push(0);
                }
                Some(reason) => theirs.left.push(Left { reason, path: entry.path.clone(), size: None }),
            }
        }
        if input.is_empty() {
            continue;
        }
        let file = repository.seen(&format!("scratch/index-{stage}"));
        let variables = [("GIT_INDEX_FILE", file.as_str())];
        repository.git_with(&variables, &["update-index", "-z", "--index-info"], input.as_slice())?;
        let tree = repository.git_with(&variables, &["write-tree", "--missing-ok"], b"")?.bytes;
        let tree = text(&tree);
        if stage == 0 && committed.as_ref() == Some(&tree) {
            continue;
        }
        let commit = text(&repository.git(&["commit-tree", "-m", name, &tree], b"")?.bytes);
        repository.git(&["update-ref", name, &commit], b"")?;
        refs.push(name.to_owned());
    }
    Ok(refs)
}

/// The one line that a git wrote.
pub(crate) fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).trim_end().to_owned()
}

/// Why a staged entry can't be in a tree.
fn refused(entry: &IndexEntry, there: &HashMap<ObjectId, String>) -> Option<LeftOutReason> {
    let bad = |part: &[u8]| part.is_empty() || part == b"." || part == b".." || is_unsafe(part);
    if entry.path.split(|byte| *byte == b'/').any(bad) {
        return Some(LeftOutReason::UnsafeName);
    }
    match entry.mode {
        0o160_000 => None,
        0o100_644 | 0o100_755 | 0o120_000 if there.get(&entry.id).is_some_and(|kind| kind == "blob") => None,
        _ => Some(LeftOutReason::UnreadableStage),
    }
}

/// The index of a clone, by our own parser; `None` when there is none that says everything.
pub(super) fn index_of(git: &Directory) -> Option<Index> {
    let content = git.read(std::ffi::OsStr::new("index"), crate::look::INDEX_BYTES).ok()?;
    crate::parse::parse_index(&content).ok().filter(|index| !index.partial)
}
