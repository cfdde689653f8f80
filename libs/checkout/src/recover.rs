//! Undoing an update of a clone during which the host was killed.
//!
//! It is undone only if all that differs is what the update itself was writing: an agent may have worked in the clone since.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::Stopped;
use crate::advance::{finish, undo};
use crate::at::{Directory, Kind, shown};
use crate::git::TIME;
use crate::journal::Journal;
use crate::look::{Clone, Expected, look};
use crate::shadow::Shadow;
use crate::tree::{Changes, Tree};
use crate::verdict::{Kept, Reason};
use crate::worktree;

/// By how many seconds the clock that stamps files may differ, and a killed program may be late.
const SLACK_SECONDS: i64 = 10;

/// True when an update has left its locks or its stage in the clone.
pub(crate) fn is_pending(clone: &Path, journal: &Journal) -> bool {
    let Ok(git) = Directory::open(clone).and_then(|top| top.child(OsStr::new(".git"))) else { return false };
    let branch = format!("refs/heads/{}.lock", journal.branch);
    let ours = |path: &str| {
        let mut parts = path.split('/').peekable();
        let mut open: Option<Directory> = None;
        while let Some(part) = parts.next() {
            let directory = open.as_ref().unwrap_or(&git);
            if parts.peek().is_none() {
                return directory.read(OsStr::new(part), 256).is_ok_and(|found| found == journal.lock().as_bytes());
            }
            let Ok(child) = directory.child(OsStr::new(part)) else { return false };
            open = Some(child);
        }
        false
    };
    git.look(OsStr::new(&journal.stage())).is_ok() || ours("index.lock") || ours(&branch)
}

/// Finishes the update if its branch was moved already, else puts back what was there before it.
///
/// # Errors
/// With the reason to leave the clone as it is.
pub(crate) fn recover(shadow: &Shadow<'_>, journal: &Journal, expected: Expected<'_>) -> Result<(), Stopped> {
    let lock = journal.lock();
    let clone = look(shadow.clone, Expected { ours: Some(&lock), ..expected })?;
    let (Some(base), Some(tip)) = (journal.base(), journal.tip()) else { return Ok(()) };
    let failed = |error: crate::Failed| Kept::asked(Reason::GitFailed, error.to_string());
    if clone.base == tip {
        return Ok(finish(shadow, journal).map_err(failed)?);
    }
    if clone.base != base {
        return Err(busy("its branch is elsewhere").into());
    }
    let changes = Changes::between(shadow.mirror, base, tip)?;
    let (before, after) = (Tree::of(shadow.mirror, base)?, Tree::of(shadow.mirror, tip)?);
    worktree::walk(&clone.top, &[&before, &after], expected.owner, shadow.clone.as_os_str().len())?;
    shadow.stage(base).map_err(failed)?;
    let from_base = differing(&shadow.compare("all").map_err(failed)?.bytes);
    // Against the index of the tip, with HEAD at the base.
    shadow.git(&["read-tree", "--reset", &tip.to_string()]).map_err(failed)?;
    let from_tip = differing(&shadow.compare("no").map_err(failed)?.bytes);
    check_ours(&clone, &changes, &before, (&from_base, &from_tip), journal)?;
    Ok(undo(shadow, journal).map_err(failed)?)
}

fn busy(detail: &str) -> Kept {
    Kept::asked(Reason::GitBusy, format!("an update was cut short, and {detail}"))
}

/// A path whose file differs from the index, and whether it is there.
type Differing = Vec<(Vec<u8>, bool)>;

/// Reads what git-status(1) says of the work tree with `-z`; what it says of the index is passed over.
fn differing(status: &[u8]) -> Differing {
    let lines = status.split(|byte| *byte == 0).filter(|line| line.len() > 3 && line[1] != b' ');
    lines.map(|line| (line[3..].to_vec(), line[1] != b'D')).collect()
}

/// Every file must be as it was before or as it is to be, or missing; a single one may be half written.
fn check_ours(
    clone: &Clone,
    changes: &Changes,
    before: &Tree,
    (from_base, from_tip): (&Differing, &Differing),
    journal: &Journal,
) -> Result<(), Kept> {
    let concerned: HashSet<&[u8]> =
        changes.added.iter().chain(&changes.changed).chain(&changes.removed).map(Vec::as_slice).collect();
    if let Some((path, _)) = from_base.iter().find(|(path, _)| !concerned.contains(path.as_slice())) {
        return Err(busy(&format!("`{}` was changed since", shown(path))));
    }
    let changed: HashSet<&[u8]> = from_base.iter().map(|(path, _)| path.as_slice()).collect();
    let is_base = |path: &[u8]| before.file(path).is_some() && !changed.contains(path);
    let neither: Vec<&[u8]> =
        from_tip.iter().filter(|(path, there)| *there && !is_base(path)).map(|(path, _)| path.as_slice()).collect();
    match neither.as_slice() {
        [] => Ok(()),
        [path] if was_being_written(clone, path, journal.started) => Ok(()),
        [path, ..] => Err(busy(&format!("`{}` is neither what it was nor what it was to be", shown(path)))),
    }
}

/// True when a file was last changed while the update ran; nobody but the system sets that time.
fn was_being_written(clone: &Clone, path: &[u8], started: i64) -> bool {
    let mut open: Option<Directory> = None;
    let mut parts = path.split(|byte| *byte == b'/').map(OsStr::from_bytes).peekable();
    while let Some(part) = parts.next() {
        let directory = open.as_ref().unwrap_or(&clone.top);
        if parts.peek().is_none() {
            let latest = started + i64::try_from(TIME.as_secs()).unwrap_or(0) + SLACK_SECONDS;
            return directory.look(part).is_ok_and(|status| {
                status.kind == Kind::File && (started - SLACK_SECONDS..=latest).contains(&status.changed)
            });
        }
        match directory.child(part) {
            Ok(child) => open = Some(child),
            Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_work_trees_side_of_a_status_counts() {
        let status = b" M a\0D  b\0?? c d\0MD e\0 D f\0A  g\0";
        let found = differing(status);
        let expected = [(&b"a"[..], true), (b"c d", true), (b"e", false), (b"f", false)];
        assert_eq!(found, expected.map(|(path, there)| (path.to_vec(), there)));
    }
}
