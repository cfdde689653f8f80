//! Snapshots of a work tree: every byte of it, the files that rules ignore apart, and the tree that a reviewer reads.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{BufWriter, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use mosaic_record::LeftOutReason;

use super::HarvestLimits;
use super::diff;
use super::files::{Changed, EXECUTABLE, Files, LINK, Left, Opener};
use super::repository::Repository;
use super::stream::{self, Snapshot};
use super::theirs::text;
use crate::at::Directory;
use crate::git::{Failed, Shown};
use crate::parse::ObjectId;
use crate::tree::{Tree, TreeEntry};

/// Every byte, as it is on disk.
pub(super) const RAW: &str = "refs/agent/snap/raw";
/// Files that rules ignore.
pub(super) const IGNORED: &str = "refs/agent/snap/ignored";

/// Of what a harvest may take, ignored files get at most one part in this many.
const IGNORED_PART: u64 = 4;

/// What is taken of the files of a clone.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    /// What a person calls the work.
    pub(super) work: Vec<Changed>,
    /// What rules ignore.
    pub(super) ignored: Vec<Changed>,
    /// What is beyond limits, or can't be read.
    pub(super) left: Vec<Left>,
}

/// Sorts what has changed by what rules say, and keeps to the limits.
pub(super) fn sort(changed: Vec<Changed>, ignored: &Ignored, opener: &mut Opener<'_>, limits: HarvestLimits) -> Sorted {
    let mut sorted = Sorted::default();
    let mut room = limits;
    let (apart, work): (Vec<_>, Vec<_>) =
        changed.into_iter().partition(|file| !file.tracked && ignored.has(&file.path));
    let mut take = |files: Vec<Changed>, room: &mut HarvestLimits, taken: &mut Vec<Changed>, left: &mut Vec<Left>| {
        for file in files {
            let reason = if file.size > room.bytes || room.entries == 0 {
                LeftOutReason::OverLimit
            } else if !opener.is_readable(&file) {
                LeftOutReason::Unreadable
            } else {
                room.bytes -= file.size;
                room.entries -= 1;
                taken.push(file);
                continue;
            };
            left.push(Left { reason, size: Some(file.size), path: file.path });
        }
    };
    take(work, &mut room, &mut sorted.work, &mut sorted.left);
    let mut rest = HarvestLimits {
        entries: room.entries.min(limits.entries / IGNORED_PART),
        bytes: room.bytes.min(limits.bytes / IGNORED_PART),
    };
    take(apart, &mut rest, &mut sorted.ignored, &mut sorted.left);
    sorted
}

/// What rules ignore.
#[derive(Debug, Default)]
pub(super) struct Ignored {
    files: HashSet<Vec<u8>>,
    directories: HashSet<Vec<u8>>,
}

impl Ignored {
    /// Asks git, in a box, what the rules in the work tree ignore of what `base` does not have.
    pub(super) fn ask(repository: &Repository<'_>, clone: &Shown<'_>, base: ObjectId) -> Result<Self, Failed> {
        let (index, tree) = (repository.seen("scratch/index"), repository.seen_in(clone, ""));
        let variables = [("GIT_INDEX_FILE", index.as_str())];
        repository.git_with(&variables, &["read-tree", &base.to_string()], b"")?;
        let asked = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
        let line: Vec<&str> = ["--work-tree", tree.as_str()].into_iter().chain(asked).collect();
        let listed = repository.git_with(&variables, &line, b"")?.bytes;
        let mut ignored = Self::default();
        for path in listed.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            match path.strip_suffix(b"/") {
                Some(directory) => ignored.directories.insert(directory.to_vec()),
                None => ignored.files.insert(path.to_vec()),
            };
        }
        Ok(ignored)
    }

    fn has(&self, path: &[u8]) -> bool {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        self.files.contains(path) || slashes.into_iter().any(|at| self.directories.contains(&path[..at]))
    }
}

/// Puts the snapshots into the repository.
pub(super) fn import(
    repository: &Repository<'_>,
    top: &Directory,
    base: ObjectId,
    (files, sorted): (&Files, &Sorted),
    date: i64,
) -> Result<(), Failed> {
    let from = base.to_string();
    let raw = Snapshot { name: RAW, from: Some(&from), date, removed: &files.removed, files: &sorted.work };
    let ignored = Snapshot { name: IGNORED, from: None, date, removed: &[], files: &sorted.ignored };
    let snapshots = if sorted.ignored.is_empty() { vec![raw] } else { vec![raw, ignored] };
    let mut why = None;
    let mut feed = |to: &mut dyn std::io::Write| {
        let written = stream::write(to, &snapshots, &mut Opener::new(top));
        written.inspect_err(|error| why = Some(error.to_string()))
    };
    let line = ["fast-import", "--quiet", "--done", "--date-format=raw"];
    let imported = repository.git(&line, &mut feed as crate::git::Feed<'_>);
    match (imported, why) {
        (Err(failed @ Failed::Exit { .. }), Some(why)) => {
            tracing::debug!(%failed, "A stream of files was cut short");
            Err(Failed::Start { program: "git fast-import".to_owned(), source: std::io::Error::other(why) })
        }
        (imported, _) => imported.map(drop),
    }
}

/// The tree that a reviewer reads: the files as git would store them under the rules of `base`, so that a file whose line ends
/// those rules convert does not show as rewritten. Returns its id.
pub(super) fn reviewable(
    repository: &Repository<'_>,
    top: &Directory,
    (base, tree): (ObjectId, &Tree),
    (files, sorted): (&Files, &Sorted),
) -> Result<String, Failed> {
    let is_rules = |path: &[u8]| path == b".gitattributes" || path.ends_with(b"/.gitattributes");
    let converts = |entry: &TreeEntry| is_rules(&entry.path);
    if !tree.entries().iter().any(converts) {
        return Ok(text(&repository.git(&["rev-parse", &format!("{RAW}^{{tree}}")], b"")?.bytes));
    }
    let io = |source: std::io::Error| Failed::Start { program: "git update-index".to_owned(), source };
    let place = repository.path().join("scratch/tree");
    make_directory(&place).map_err(io)?;
    let index = repository.seen("scratch/index");
    let (work_tree, variables) = (repository.seen("scratch/tree"), [("GIT_INDEX_FILE", index.as_str())]);
    repository.git_with(&variables, &["read-tree", &base.to_string()], b"")?;
    // The work tree has no rules, so that those of the index are in force; they are replaced last.
    let is_converted = |file: &&Changed| file.mode != LINK && !is_rules(&file.path);
    let mut opener = Opener::new(top);
    let mut paths = Vec::new();
    for file in sorted.work.iter().filter(is_converted) {
        write_out(&place, file, &mut opener).map_err(io)?;
        paths.extend_from_slice(&file.path);
        paths.push(0);
    }
    if !paths.is_empty() {
        let line = ["--work-tree", &work_tree, "update-index", "--add", "--replace", "-z", "--stdin"];
        repository.git_with(&variables, &line, paths.as_slice())?;
    }
    let gone = files.removed.iter().map(|path| (path.as_slice(), 0, ObjectId::from_bytes([0; 20])));
    let deltas = diff::between(repository, &base.to_string(), RAW)?;
    let exact = deltas.iter().filter(|delta| delta.mode == LINK || is_rules(&delta.path));
    let exact = exact.map(|delta| (delta.path.as_slice(), delta.mode, delta.id));
    let lines: Vec<u8> = gone
        .chain(exact)
        .flat_map(|(path, mode, id)| [format!("{mode:o} {id}\t").as_bytes(), path, b"\0"].concat())
        .collect();
    if !lines.is_empty() {
        repository.git_with(&variables, &["update-index", "--replace", "-z", "--index-info"], lines.as_slice())?;
    }
    Ok(text(&repository.git_with(&variables, &["write-tree"], b"")?.bytes))
}

/// Writes one file below `place`, for a contained git to read.
fn write_out(place: &Path, file: &Changed, opener: &mut Opener<'_>) -> std::io::Result<()> {
    let path = place.join(OsStr::from_bytes(&file.path));
    if let Some(parent) = path.parent() {
        make_directory(parent)?;
    }
    let mode = if file.mode == EXECUTABLE { 0o755 } else { 0o644 };
    let written = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
    // Whatever this process's mask is.
    written.set_permissions(std::fs::Permissions::from_mode(mode))?;
    let mut written = BufWriter::new(written);
    opener.copy(file, &mut written)?;
    written.flush()
}

/// Makes a directory that a contained git can pass through, and those above it.
fn make_directory(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_directory(parent)?;
    }
    std::fs::create_dir(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}
