//! Making a clone: in a place of the host's, from the mirror, then renamed to where it belongs.

use std::path::Path;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::git::{Shown, TRANSFER_TIME, boxed_script};
use crate::mirror::{Mirror, MirrorError, Tip, make_directory};
use crate::{Failed, Request};

/// Clones the mirror, which has the one branch: no other, no stash, nothing that was amended away. No reflog is begun, since
/// it would say where the mirror is.
const CLONE: [&str; 9] = [
    "-c",
    "core.logAllRefUpdates=false",
    "clone",
    "--quiet",
    "--no-local",
    "--single-branch",
    "--no-tags",
    "--template=",
    "--no-recurse-submodules",
];

/// Makes it a clone of the root, and one like any other: its reflogs begin with the first thing that is done in it, and what
/// branch the root is on is noted, whatever the mirror's own `HEAD` says.
const SETTLE: &str = r#"
set -eu
"$@" config remote.origin.url "$ROOT"
"$@" config core.logAllRefUpdates true
"$@" symbolic-ref "$REMOTE/HEAD" "$TRACKING"
"#;

/// Makes the clone that `request` wants, at `tip`.
pub(crate) fn make(mirror: &Mirror<'_>, request: &Request, tip: &Tip) -> Result<(), MirrorError> {
    let stage = request.state.join("stage");
    let _left_by_a_crash = std::fs::remove_dir_all(&stage);
    make_directory(&stage)?;
    let made = clone_into(mirror, request, tip, &stage).and_then(|()| publish(&stage, &request.clone));
    // Nothing but the clone is left, and that only where it belongs.
    let _gone = std::fs::remove_dir_all(&stage);
    made
}

fn clone_into(mirror: &Mirror<'_>, request: &Request, tip: &Tip, stage: &Path) -> Result<(), MirrorError> {
    let Some(containment) = &request.containment else {
        let source = std::io::Error::other("nothing contains git here: install bubblewrap");
        return Err(Failed::Start { program: "git".to_owned(), source }.into());
    };
    if nix::unistd::geteuid().is_root() {
        let owned = std::os::unix::fs::chown(stage, Some(request.owner), Some(request.owner));
        owned.map_err(MirrorError::io("hand over", stage))?;
    }
    let root = request.root.to_string_lossy();
    let shown = [
        Shown { host: &mirror.path, inside: "/mirror", writable: false },
        Shown { host: stage, inside: "/stage", writable: true },
        Shown { host: mirror.git.global, inside: "/gitconfig", writable: false },
    ];
    let [source, place, global] = shown.map(|shown| containment.path_of(&shown));
    let target = format!("{place}/clone");
    let contained = (containment, request.owner);
    let line = [&CLONE[..], &["--branch", &tip.branch, "--end-of-options", &source, &target]].concat();
    let variables = [("GIT_CONFIG_GLOBAL", &*global)];
    mirror.git.boxed(contained, &shown, &variables, &line, (b"", TRANSFER_TIME))?;
    let (remote, branch) = ("refs/remotes/origin", &tip.branch);
    let variables = [("ROOT", &*root), ("REMOTE", remote), ("TRACKING", &format!("{remote}/{branch}"))];
    boxed_script(mirror.git, contained, &shown, SETTLE, &variables, &["-C", &target])?;
    Ok(())
}

/// Moves the clone to its place, where nothing may be yet.
fn publish(stage: &Path, clone: &Path) -> Result<(), MirrorError> {
    let renamed = renameat2(AT_FDCWD, &stage.join("clone"), AT_FDCWD, clone, RenameFlags::RENAME_NOREPLACE);
    renamed.map_err(|errno| MirrorError::io("create", clone)(errno.into()))
}
