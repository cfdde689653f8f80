use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use mosaic_shim::protocol::Identity;

/// Makes the private state of a run, empty, for `owner` (absent: for ourselves).
///
/// # Errors
/// When it is there already or can't be made; nothing of ours is left then.
pub(crate) fn make(path: &Path, owner: Option<Identity>) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    match owner {
        Some(Identity { uid, gid }) => std::os::unix::fs::chown(path, Some(uid), Some(gid)).inspect_err(|_| {
            let _stays_empty = fs::remove_dir(path);
        }),
        None => Ok(()),
    }
}
