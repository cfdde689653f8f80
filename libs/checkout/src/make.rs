//! Making a clone: in a place of the host's, from the mirror, then renamed to where it belongs.

use std::path::Path;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::git::{Shown, TRANSFER_TIME};
use crate::mirror::{Mirror, MirrorError, Tip, make_directory};
use crate::{Failed, Request};

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
    let boxed = |arguments: &[&str]| {
        let (variables, contained) = ([("GIT_CONFIG_GLOBAL", &*global)], (containment, request.owner));
        mirror.git.boxed(contained, &shown, &variables, arguments, (b"", TRANSFER_TIME))
    };
    // From the mirror, which has the one branch: no other, no stash, nothing that was amended away.
    boxed(&[
        "clone",
        "--quiet",
        "--no-local",
        "--single-branch",
        "--no-tags",
        "--template=",
        "--no-recurse-submodules",
        "--branch",
        &tip.branch,
        "--end-of-options",
        &source,
        &target,
    ])?;
    boxed(&["-C", &target, "config", "remote.origin.url", &root])?;
    Ok(())
}

/// Moves the clone to its place, where nothing may be yet.
fn publish(stage: &Path, clone: &Path) -> Result<(), MirrorError> {
    let renamed = renameat2(AT_FDCWD, &stage.join("clone"), AT_FDCWD, clone, RenameFlags::RENAME_NOREPLACE);
    renamed.map_err(|errno| MirrorError::io("create", clone)(errno.into()))
}
