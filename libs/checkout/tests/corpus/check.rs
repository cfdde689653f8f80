//! What must hold once the host is done.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use mosaic_checkout::{Checkout, Reason, Verdict};

use crate::agent::Agent;
use crate::bed::Expect;
use crate::roots::{File, Root};

/// Deepest directory that is compared.
const DEPTH: usize = 200;
/// Files from this size on, in bytes, are compared by size and times only.
const LARGE: u64 = 64 * 1024 * 1024;

/// All that can be said about a tree, but the times of access.
#[derive(Debug, Default)]
pub(crate) struct Fingerprint(BTreeMap<Vec<u8>, String>);

impl Fingerprint {
    pub(crate) fn of(top: &Path) -> Self {
        let mut all = Self::default();
        all.add(top, top, 0);
        all
    }

    fn add(&mut self, top: &Path, path: &Path, depth: usize) {
        let name = path.strip_prefix(top).expect("below").as_os_str().as_bytes().to_vec();
        let Ok(metadata) = path.symlink_metadata() else { return };
        let kind = metadata.file_type();
        let content = if kind.is_symlink() {
            format!("{:?}", std::fs::read_link(path))
        } else if kind.is_file() && metadata.len() <= LARGE {
            let mut hasher = DefaultHasher::new();
            std::fs::read(path).unwrap_or_default().hash(&mut hasher);
            format!("{:x}", hasher.finish())
        } else {
            String::new()
        };
        let text = format!(
            "mode {:o} uid {} inode {} size {} modified {}.{:09} changed {}.{:09} {content}",
            metadata.mode(),
            metadata.uid(),
            metadata.ino(),
            metadata.len(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
        );
        self.0.insert(name, text);
        if kind.is_dir() && depth < DEPTH {
            for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
                self.add(top, &entry.path(), depth + 1);
            }
        }
    }

    /// Where another differs, with both states; at most a few.
    pub(crate) fn difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = String> + 'a {
        let gone = self.0.iter().filter(|(name, text)| other.0.get(*name) != Some(text));
        let new = other.0.iter().filter(|(name, _)| !self.0.contains_key(*name));
        let show = |name: &[u8]| name.escape_ascii().to_string();
        let gone = gone.map(move |(name, text)| {
            let now = other.0.get(name).map_or("gone", String::as_str);
            format!("`{}`: {text} -> {now}", show(name))
        });
        gone.chain(new.map(move |(name, text)| format!("`{}`: new, {text}", show(name)))).take(4)
    }
}

/// The verdict must be the expected one, with a text that may be shown.
pub(crate) fn verdict(done: &Checkout, expect: Expect) -> Vec<String> {
    let mut faults = Vec::new();
    let fits = match (expect, done.reason) {
        (Expect::Moved, None) => done.verdict == Verdict::FastForwarded,
        (Expect::Kept(reasons), Some(reason)) => {
            matches!(done.verdict, Verdict::CheckoutKept | Verdict::Refused) && reasons.contains(&reason)
        }
        _ => false,
    };
    if !fits {
        faults.push(format!("expected {expect:?}, got {:?} {:?}: {}", done.verdict, done.reason, done.detail));
    }
    if done.detail.chars().any(char::is_control) {
        faults.push(format!("a control character in {:?}", done.detail));
    }
    faults
}

/// What is not trusted must be a list that may be shown, with the reason in it where files alone gave it.
pub(crate) fn list(done: &Checkout) -> Vec<String> {
    let mut faults = Vec::new();
    let shown = |at: &str| at.len() < 1000 && !at.chars().any(char::is_control);
    if done.distrusted.len() > 64 || !done.distrusted.iter().all(|found| shown(&found.at)) {
        faults.push(format!("can't be shown: {:?}", done.distrusted));
    }
    if done.reason == Some(Reason::ConfigChanged) && done.distrusted.is_empty() {
        faults.push(format!("nothing is listed for {}", done.detail));
    }
    faults
}

/// The clone must be untouched, or exactly at the tip.
pub(crate) fn clone(done: &Checkout, agent: &Agent<'_>, root: &Root, before: &Fingerprint) -> Vec<String> {
    if done.verdict == Verdict::FastForwarded {
        return forwarded(agent, root, before);
    }
    before.difference(&Fingerprint::of(&agent.clone)).map(|at| format!("KEPT BUT CHANGED: {at}")).collect()
}

fn forwarded(agent: &Agent<'_>, root: &Root, before: &Fingerprint) -> Vec<String> {
    let mut faults = Vec::new();
    let branch = std::fs::read_to_string(agent.dot_git().join("refs/heads").join(&root.branch)).unwrap_or_default();
    let packed = std::fs::read_to_string(agent.dot_git().join("packed-refs")).unwrap_or_default();
    let packed = packed.contains(&format!("{} refs/heads/{}\n", root.tip, root.branch));
    if branch.trim_end() != root.tip && !(branch.is_empty() && packed) {
        faults.push(format!("the branch is at {branch:?}"));
    }
    faults.extend(files(&agent.clone, root));
    let now = Fingerprint::of(&agent.clone);
    for (name, text) in &before.0 {
        // What git does not track in the clone is the agent's.
        let tracked = root.files.contains_key(name) || name.starts_with(b".git/") || text.contains("mode 4");
        let removed = root.base_paths.contains(name);
        if !tracked && !removed && now.0.get(name) != Some(text) {
            faults.push(format!("the agent's `{}` changed", name.escape_ascii()));
        }
    }
    let left = now.0.keys().filter(|name| name.ends_with(b".lock") || name.ends_with(b".new"));
    faults
        .extend(left.filter(|name| !before.0.contains_key(*name)).map(|name| format!("left {}", name.escape_ascii())));
    faults
}

/// All files of the root's tip must be in the clone, as git's own checkout has them.
pub(crate) fn files(clone: &Path, root: &Root) -> Vec<String> {
    root.files.iter().filter_map(|(path, file)| wrong_file(clone, path, file)).collect()
}

/// The agent's own git must find nothing to say about a clone that was brought up to date.
pub(crate) fn sound(agent: &Agent<'_>) -> Vec<String> {
    let expected = [
        (&["rev-parse", "HEAD", "@{upstream}"][..], format!("{0}\n{0}", agent.root.tip)),
        (&["status", "--porcelain", "--ignore-submodules=all"], String::new()),
        (&["diff-index", "--cached", "--ignore-submodules=all", "HEAD"], String::new()),
        (&["fsck", "--no-dangling", "--no-progress", "--connectivity-only"], String::new()),
    ];
    let wrong = expected.into_iter().filter_map(|(arguments, expected)| {
        let said = agent.ask_git(arguments);
        (said.trim_end() != expected).then(|| format!("git {arguments:?}: {said:?}"))
    });
    wrong.collect()
}

fn wrong_file(clone: &Path, path: &[u8], file: &File) -> Option<String> {
    let at = clone.join(std::ffi::OsStr::from_bytes(path));
    let mut parent = at.parent()?;
    while parent != clone {
        if parent.is_symlink() {
            return Some(format!("`{}` is below a link", path.escape_ascii()));
        }
        parent = parent.parent()?;
    }
    let right = match (file, at.symlink_metadata()) {
        (File::Submodule, _) => true,
        (File::Link(target), Ok(metadata)) => {
            metadata.is_symlink() && std::fs::read_link(&at).is_ok_and(|found| found.as_os_str().as_bytes() == target)
        }
        (File::Regular { content, executable }, Ok(metadata)) => {
            let same = || std::fs::read(&at).is_ok_and(|found| found == *content);
            metadata.is_file() && (metadata.mode() & 0o100 != 0) == *executable && same()
        }
        (_, Err(_)) => false,
    };
    (!right).then(|| format!("`{}` is not the root's", path.escape_ascii()))
}
