//! What the files of a clone are, byte for byte, beside what a commit says of them. No link is followed, no git runs, and
//! neither the clone's index nor its rules have a say.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::{Read as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use mosaic_record::LeftOutReason;
use sha1::{Digest as _, Sha1};

use crate::at::{Directory, Fault, Kind, Status};
use crate::parse::ObjectId;
use crate::tree::{GITLINK, Tree};

/// Most entries that are looked at.
const ENTRIES: usize = 2_000_000;
/// Deepest nesting; each level is an open directory.
const DEPTH: usize = 200;
/// Longest path that git can open, in bytes, with room for a name: less than PATH_MAX.
const PATH_BYTES: usize = 4096 - 256 - 2;
/// How long the look may take.
const TIME: Duration = Duration::from_secs(120);
/// Largest file that is compared byte for byte; a larger one counts as changed.
const HASHED_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// Largest file that git reads for its rules, in bytes.
const RULES_BYTES: u64 = 1024 * 1024;

/// A plain file's mode in a tree, of one that may be executed, and a link's.
pub(super) const PLAIN: u32 = 0o100_644;
pub(super) const EXECUTABLE: u32 = 0o100_755;
pub(super) const LINK: u32 = 0o120_000;

/// A file that is not what the commit says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Changed {
    /// Path below the clone.
    pub(super) path: Vec<u8>,
    /// Mode in a tree.
    pub(super) mode: u32,
    /// Size in bytes.
    pub(super) size: u64,
    /// True when the commit has it, or the clone's index.
    pub(super) tracked: bool,
}

/// Something that is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) reason: LeftOutReason,
    pub(super) path: Vec<u8>,
    /// Size in bytes, of a file.
    pub(super) size: Option<u64>,
}

/// The files of a clone beside a commit.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Files that differ, or that the commit does not have, in ascending order of path.
    pub(super) changed: Vec<Changed>,
    /// Files of the commit that are gone.
    pub(super) removed: Vec<Vec<u8>>,
    /// What can't be taken.
    pub(super) left: Vec<Left>,
    /// Directories within the clone that are repositories.
    pub(super) nested: Vec<Vec<u8>>,
    /// True when git can be asked about rules without being kept busy by them.
    pub(super) rules_are_plain: bool,
}

/// Compares the files below `top` with `tree`; `staged` paths count as tracked, whatever rules say.
pub(super) fn compare(top: &Directory, tree: &Tree, staged: &HashSet<Vec<u8>>) -> Files {
    let files = Files { rules_are_plain: true, ..Files::default() };
    let deadline = Instant::now() + TIME;
    let mut walk =
        Walk { tree, staged, entries: 0, deadline, files, seen: HashSet::new(), closed: Vec::new(), over: false };
    walk.below(top, &mut Vec::new(), 0);
    let Walk { mut files, seen, closed, over, .. } = walk;
    // What could not be looked at is not said to be gone.
    let is_closed = |path: &[u8]| {
        over || closed.iter().any(|closed: &Vec<u8>| path.starts_with(closed) && path.get(closed.len()) == Some(&b'/'))
    };
    for entry in tree.entries() {
        if !seen.contains(&entry.path) && !is_closed(&entry.path) {
            files.removed.push(entry.path.clone());
        }
    }
    files.changed.sort_by(|one, other| one.path.cmp(&other.path));
    files.left.sort_by(|one, other| one.path.cmp(&other.path));
    files
}

struct Walk<'a> {
    tree: &'a Tree,
    staged: &'a HashSet<Vec<u8>>,
    entries: usize,
    deadline: Instant,
    files: Files,
    /// Files of the commit that are there, changed or not.
    seen: HashSet<Vec<u8>>,
    /// Directories that were not looked into.
    closed: Vec<Vec<u8>>,
    /// True when not all of it was looked at.
    over: bool,
}

impl Walk<'_> {
    fn leave(&mut self, reason: LeftOutReason, path: &[u8], size: Option<u64>) {
        self.files.left.push(Left { reason, path: path.to_vec(), size });
    }

    fn close(&mut self, reason: LeftOutReason, path: &[u8]) {
        self.leave(reason, path, None);
        self.closed.push(path.to_vec());
    }

    fn below(&mut self, directory: &Directory, path: &mut Vec<u8>, depth: usize) {
        if Instant::now() > self.deadline {
            self.over = true;
            return self.leave(LeftOutReason::OverLimit, path, None);
        }
        let names = match directory.names(ENTRIES - self.entries) {
            Ok(names) => names,
            Err(Fault::TooLarge) => return self.close(LeftOutReason::OverLimit, path),
            Err(_) => return self.close(LeftOutReason::Unreadable, path),
        };
        self.entries += names.len();
        if names.is_empty() && depth > 0 {
            self.leave(LeftOutReason::EmptyDirectory, path, None);
        }
        for name in &names {
            if depth == 0 && name == ".git" {
                continue;
            }
            let length = path.len();
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
            self.entry(directory, name, path, depth);
            path.truncate(length);
        }
    }

    fn entry(&mut self, directory: &Directory, name: &OsStr, path: &mut Vec<u8>, depth: usize) {
        let Ok(status) = directory.look(name) else { return self.close(LeftOutReason::Unreadable, path) };
        if name == ".git" {
            self.files.nested.push(parent(path).to_vec());
            return self.leave(LeftOutReason::NestedRepository, path, None);
        }
        if is_unsafe(name.as_bytes()) {
            return self.close(LeftOutReason::UnsafeName, path);
        }
        if [".gitignore", ".gitattributes", ".gitmodules"].iter().any(|rules| name == *rules) {
            let plain = matches!(status.kind, Kind::File | Kind::Directory) && status.size <= RULES_BYTES;
            self.files.rules_are_plain &= plain || status.kind == Kind::Link;
        }
        match status.kind {
            Kind::Special => self.leave(LeftOutReason::SpecialFile, path, None),
            Kind::Directory => self.directory(directory, name, path, depth),
            Kind::File => self.file(directory, name, path, status),
            Kind::Link => self.link(directory, name, path),
        }
    }

    fn directory(&mut self, directory: &Directory, name: &OsStr, path: &mut Vec<u8>, depth: usize) {
        if self.tree.file(path).is_some_and(|entry| entry.mode == GITLINK) {
            // A submodule: what is in its checkout is its own repository's.
            self.seen.insert(path.clone());
            if directory.child(name).and_then(|child| child.look(OsStr::new(".git"))).is_ok() {
                self.files.nested.push(path.clone());
                self.leave(LeftOutReason::NestedRepository, path, None);
            }
            return;
        }
        if depth + 1 >= DEPTH || path.len() > PATH_BYTES {
            return self.close(LeftOutReason::OverLimit, path);
        }
        match directory.child(name) {
            Ok(child) => self.below(&child, path, depth + 1),
            Err(_) => self.close(LeftOutReason::Unreadable, path),
        }
    }

    fn file(&mut self, directory: &Directory, name: &OsStr, path: &[u8], status: Status) {
        let mode = if status.mode & 0o100 == 0 { PLAIN } else { EXECUTABLE };
        if let Some(entry) = self.tree.file(path) {
            self.seen.insert(path.to_vec());
            if entry.mode == mode
                && status.size <= HASHED_BYTES
                && Instant::now() < self.deadline
                && let Ok((file, opened)) = directory.file(name)
                && id_of(file, opened.size).is_some_and(|id| id == entry.id)
            {
                return;
            }
        }
        self.changed(path, mode, status.size);
    }

    fn link(&mut self, directory: &Directory, name: &OsStr, path: &[u8]) {
        let Ok(target) = directory.target(name) else { return self.close(LeftOutReason::Unreadable, path) };
        let target = target.as_bytes();
        if let Some(entry) = self.tree.file(path) {
            self.seen.insert(path.to_vec());
            if entry.mode == LINK && id_of(target, target.len() as u64) == Some(entry.id) {
                return;
            }
        }
        self.changed(path, LINK, target.len() as u64);
    }

    fn changed(&mut self, path: &[u8], mode: u32, size: u64) {
        let tracked = self.tree.file(path).is_some() || self.staged.contains(path);
        self.files.changed.push(Changed { path: path.to_vec(), mode, size, tracked });
    }
}

fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(b"", |slash| &path[..slash])
}

/// The id of the blob with this content of `size` bytes; `None` when it can't be read or is not of that size.
fn id_of(mut content: impl std::io::Read, size: u64) -> Option<ObjectId> {
    let mut hash = Sha1::new();
    hash.update(format!("blob {size}\0").as_bytes());
    let mut buffer = [0; 64 * 1024];
    let mut read = 0;
    loop {
        let more = content.read(&mut buffer).ok()?;
        if more == 0 {
            break;
        }
        read += more as u64;
        // A sparse file may be larger than anything that is worth reading; its size alone tells that it is changed.
        if read > size {
            return None;
        }
        hash.update(&buffer[..more]);
    }
    (read == size).then(|| ObjectId::from_bytes(hash.finalize().into()))
}

/// True for a name that git takes for `.git` on some file system, and so refuses in trees (git-fsck(1), `hasDotgit`).
pub(super) fn is_unsafe(name: &[u8]) -> bool {
    // On HFS+ these characters are passed over.
    let text = String::from_utf8_lossy(name);
    let ignored = |c: &char| matches!(*c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let plain: String = text.chars().filter(|c| !ignored(c)).collect::<String>().to_lowercase();
    // On NTFS so are a stream's name, and dots and spaces at the end; and there are short names.
    let stem = plain.split([':', '\\']).next().unwrap_or_default().trim_end_matches(['.', ' ']);
    stem == ".git" || stem == "git~1" || plain.split('\\').any(|part| part == ".git")
}

/// Opens files of a clone one after the other, in ascending order of path: directories stay open as long as they are needed.
#[derive(Debug)]
pub(super) struct Opener<'a> {
    top: &'a Directory,
    open: Vec<(Vec<u8>, Directory)>,
}

impl<'a> Opener<'a> {
    pub(super) fn new(top: &'a Directory) -> Self {
        Self { top, open: Vec::new() }
    }

    /// The directory that holds `path`, and its name there.
    fn place<'p>(&mut self, path: &'p [u8]) -> Result<(&Directory, &'p OsStr), Fault> {
        let mut parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let name = parts.pop().unwrap_or_default();
        let common = self.open.iter().zip(&parts).take_while(|((open, _), part)| open.as_slice() == **part).count();
        self.open.truncate(common);
        for part in &parts[common..] {
            let child = self.open.last().map_or(self.top, |(_, open)| open).child(OsStr::from_bytes(part))?;
            self.open.push((part.to_vec(), child));
        }
        Ok((self.open.last().map_or(self.top, |(_, open)| open), OsStr::from_bytes(name)))
    }

    /// Writes the content of a file or link, which must be of the size that was seen.
    ///
    /// # Errors
    /// When it can't be read, or has changed since.
    pub(super) fn copy(&mut self, changed: &Changed, to: &mut dyn Write) -> std::io::Result<()> {
        let failed = |fault: Fault| std::io::Error::other(fault);
        let (directory, name) = self.place(&changed.path).map_err(failed)?;
        if changed.mode == LINK {
            let target: OsString = directory.target(name).map_err(failed)?;
            if target.len() as u64 != changed.size {
                return Err(std::io::Error::other("a link changed while it was read"));
            }
            return to.write_all(target.as_bytes());
        }
        let (file, _) = directory.file(name).map_err(failed)?;
        let copied = std::io::copy(&mut file.take(changed.size), to)?;
        if copied == changed.size { Ok(()) } else { Err(std::io::Error::other("a file changed while it was read")) }
    }

    /// True when a file can be read.
    pub(super) fn is_readable(&mut self, changed: &Changed) -> bool {
        let Ok((directory, name)) = self.place(&changed.path) else { return false };
        changed.mode == LINK || directory.file(name).is_ok()
    }
}

/// Counts of what was left out, by reason.
pub(super) fn counted(left: &[Left]) -> Vec<mosaic_record::LeftOut> {
    let mut by_reason: BTreeMap<LeftOutReason, (u64, &[u8])> = BTreeMap::new();
    for Left { reason, path, .. } in left {
        by_reason.entry(*reason).or_insert((0, path)).0 += 1;
    }
    let counted = |(reason, (count, first))| mosaic_record::LeftOut { reason, count, first: crate::at::shown(first) };
    by_reason.into_iter().map(counted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_that_git_gives() {
        let id = |content: &[u8]| id_of(content, content.len() as u64).expect("an id").to_string();
        assert_eq!(id(b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(id(b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!(id_of(&b"longer"[..], 3), None);
    }

    #[test]
    fn what_some_file_system_takes_for_dot_git_is_unsafe() {
        for name in
            [".git", ".GIT", ".git ", ".git...", "git~1", "GIT~1", ".git::$INDEX_ALLOCATION", ".g\u{200c}it", "a\\.git"]
        {
            assert!(is_unsafe(name.as_bytes()), "{name:?}");
        }
        for name in [".gitignore", "git", ".github", "x.git", "a\\b", "git~12"] {
            assert!(!is_unsafe(name.as_bytes()), "{name:?}");
        }
    }
}
