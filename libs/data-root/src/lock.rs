use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};

use crate::DataRootError;

/// A lock that this process holds until the value is dropped or the process ends, however it ends.
///
/// The file stays: removing it would let two processes lock two files of the same name.
#[derive(Debug)]
pub struct ProcessLock {
    _file: Flock<File>,
}

/// Why a lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockHeld {
    /// Another process has it.
    #[error("held by process {}", pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string()))]
    By {
        /// Its id, as it wrote it.
        pid: Option<u32>,
    },
    /// The lock's file can't be used.
    #[error(transparent)]
    File(#[from] DataRootError),
}

impl ProcessLock {
    /// Takes the lock `path` or says who has it; never waits.
    ///
    /// # Errors
    /// [`LockHeld::By`] when another process has it.
    pub fn acquire(path: &Path) -> Result<Self, LockHeld> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(nix::libc::O_NOFOLLOW);
        let file = options.open(path).map_err(DataRootError::io("open", path))?;
        let mut lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((mut file, nix::errno::Errno::EWOULDBLOCK)) => return Err(LockHeld::By { pid: read_pid(&mut file) }),
            Err((_, errno)) => return Err(DataRootError::io("lock", path)(errno.into()).into()),
        };
        write_pid(&mut lock).map_err(DataRootError::io("write", path))?;
        Ok(Self { _file: lock })
    }
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn write_pid(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_once_and_names_its_holder() {
        let scratch = tempfile::tempdir().expect("scratch");
        let path = scratch.path().join("x.lock");
        let held = ProcessLock::acquire(&path).expect("free");
        match ProcessLock::acquire(&path) {
            Err(LockHeld::By { pid }) => assert_eq!(pid, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
        drop(held);
        ProcessLock::acquire(&path).expect("free again");
    }
}
