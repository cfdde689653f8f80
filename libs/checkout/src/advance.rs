//! Bringing a clean clone to the root's tip. Git's own locks are taken first; index and branch change places last, each by a
//! rename. What was begun and can't be finished is undone.

use std::path::Path;

use crate::git::Failed;
use crate::journal::Journal;
use crate::mirror::MirrorError;
use crate::parse::ObjectId;
use crate::shadow::Shadow;
use crate::verdict::{Kept, Reason};

/// Takes the locks of index and branch, as git does: a lock that is there is somebody's. Exit status 10 says so, and also that
/// the branch has been moved before. A lock has its content from the moment at which it is there. Then objects, the work tree,
/// index, branch, and the locks are given back. Programs are started sparingly: each costs as much as all that the shell does.
const ADVANCE: &str = r#"
set -eu
cd "$CLONE/.git"
ref=refs/heads/$BRANCH
mkdir "$STAGE"
[ -d "${ref%/*}" ] && [ -d objects/pack ] || mkdir -p "${ref%/*}" objects/pack
printf '%s' "$LOCK" >"$STAGE/one"
printf '%s' "$LOCK" >"$STAGE/two"
mv -n "$STAGE/one" index.lock
if [ -e "$STAGE/one" ]; then rm -rf "$STAGE"; exit 10; fi
mv -n "$STAGE/two" "$ref.lock"
if [ -e "$STAGE/two" ]; then rm -rf "$STAGE" index.lock; exit 10; fi
if [ -e "$ref" ]; then IFS= read -r at <"$ref" && [ "$at" = "$BASE" ]; else grep -qxF "$BASE $ref" packed-refs; fi ||
  { rm -rf "$STAGE" "$ref.lock" index.lock; exit 10; }
cp "$PACK"/pack-* "$STAGE"
sync "$STAGE"/pack-*
mv -f "$STAGE"/pack-*.pack "$STAGE"/pack-*.idx objects/pack/
/usr/bin/setpriv --pdeathsig KILL -- "$@" read-tree -m -u "$BASE" "$TIP"
cp "$INDEX" "$STAGE/index"
printf '%s\n' "$TIP" >"$STAGE/branch"
sync "$STAGE/index" "$STAGE/branch"
: >"$STAGE/published"
mv -fT "$STAGE/index" index
mv -fT "$STAGE/branch" "$ref"
"#;

/// Moves the tracking ref, and gives the locks back: what is ours, in the order in which they say least.
///
/// By now the branch is moved, and nothing is undone any more. Exit status 12 says that locks are left.
const FINISH: &str = r#"
set +e
cd "$CLONE/.git" || exit 12
ref=refs/heads/$BRANCH
tracking=refs/remotes/origin/$BRANCH
[ -d "${tracking%/*}" ] && [ -d "$STAGE" ] || mkdir -p "${tracking%/*}" "$STAGE"
printf '%s\n' "$TIP" >"$STAGE/tracking" && mv -fT "$STAGE/tracking" "$tracking"
rm -rf "$STAGE" "$ref.lock" index.lock || exit 12
"#;

/// Puts back what the clone was: the work tree, and the index if it had been replaced.
const UNDO: &str = r#"
set -eu
cd "$CLONE/.git"
ref=refs/heads/$BRANCH
rm -f "$INDEX.lock"
"$@" read-tree --reset "$TIP"
/usr/bin/setpriv --pdeathsig KILL -- "$@" read-tree --reset -u "$BASE"
if [ -e "$STAGE/published" ]; then
  cp "$INDEX" "$STAGE/index"
  mv -fT "$STAGE/index" index
fi
rm -rf "$STAGE"
for lock in "$ref.lock" index.lock; do
  if [ -e "$lock" ] && [ "$(cat "$lock")" = "${LOCK%?}" ]; then rm -f "$lock"; fi
done
"#;

/// Moves the clone from `base` to `tip`; `state` is where the journal is kept.
///
/// # Errors
/// With the reason why it was left where it was.
pub(crate) fn advance(
    shadow: &Shadow<'_>,
    journal_path: &Path,
    branch: &str,
    (base, tip): (ObjectId, ObjectId),
) -> Result<(), Kept> {
    let failed = |error: &dyn std::fmt::Display| Kept::asked(Reason::GitFailed, error.to_string());
    pack(shadow, base, tip).map_err(|error| failed(&error))?;
    let journal = Journal::begin(branch, base, tip);
    journal.write(journal_path).map_err(|error| failed(&error))?;
    let moved = run(shadow, &journal, &format!("{ADVANCE}{FINISH}"));
    match moved {
        Ok(_) => {
            note(shadow.note("HEAD", &format!("{tip}\n")));
            note(Journal::remove(journal_path));
            Ok(())
        }
        Err(Failed::Exit { status, words, .. }) if status.code() == Some(12) => {
            // The journal stays: the next checkout gives the locks back.
            tracing::warn!(words, "Could not give the locks of a clone back");
            Ok(())
        }
        Err(Failed::Exit { status, .. }) if status.code() == Some(10) => {
            note(Journal::remove(journal_path));
            Err(Kept::asked(Reason::GitBusy, "a lock of git's is held, or its branch is being moved"))
        }
        Err(error) => {
            match undo(shadow, &journal) {
                Ok(()) => note(Journal::remove(journal_path)),
                // The journal stays: the next checkout tries again.
                Err(left) => tracing::warn!(error = %left, "Could not undo an update of a clone"),
            }
            Err(failed(&error))
        }
    }
}

/// Puts the clone back to where the journal says that it was.
pub(crate) fn undo(shadow: &Shadow<'_>, journal: &Journal) -> Result<(), Failed> {
    run(shadow, journal, UNDO)?;
    if let Some(base) = journal.base() {
        note(shadow.note("HEAD", &format!("{base}\n")));
    }
    Ok(())
}

/// Finishes an update whose branch has been moved.
pub(crate) fn finish(shadow: &Shadow<'_>, journal: &Journal) -> Result<(), Failed> {
    run(shadow, journal, FINISH)
}

fn run(shadow: &Shadow<'_>, journal: &Journal, script: &str) -> Result<(), Failed> {
    let id = |id: Option<ObjectId>| id.map(|id| id.to_string()).unwrap_or_default();
    let (base, tip) = (id(journal.base()), id(journal.tip()));
    let (lock, stage) = (journal.lock(), journal.stage());
    let variables =
        [("BRANCH", &*journal.branch), ("BASE", &*base), ("TIP", &*tip), ("LOCK", &*lock), ("STAGE", &*stage)];
    shadow.script(script, &variables).map(drop)
}

/// What can't be noted costs the next checkout time, and nothing else.
fn note(result: Result<(), MirrorError>) {
    if let Err(error) = result {
        tracing::warn!(%error, "Could not note where a clone is");
    }
}

/// Writes all objects that the clone can lack into a pack of the host's. A pack also wins over loose objects of the agent's.
fn pack(shadow: &Shadow<'_>, base: ObjectId, tip: ObjectId) -> Result<(), MirrorError> {
    let place = shadow.pack();
    let removed =
        std::fs::read_dir(&place).and_then(|mut left| left.try_for_each(|entry| std::fs::remove_file(entry?.path())));
    removed.map_err(MirrorError::io("empty", &place))?;
    let prefix = place.join("pack");
    let wanted = format!("{tip}\n^{base}\n");
    shadow.mirror.asked_with(&["pack-objects", "--quiet", "--revs", &prefix.to_string_lossy()], wanted.as_bytes())?;
    Ok(())
}
