use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::DataRootError;

/// How long a child may take to execute, which has inherited the lock of a process that is gone; and how often it is looked
/// at.
const CHILD_LIMIT: Duration = Duration::from_millis(500);
const CHILD_PAUSE: Duration = Duration::from_millis(2);

/// A lock that this process holds until the value is dropped or the process ends, however it ends.
///
/// It is an open file description lock (fcntl(2)), which others can ask about without taking it. The file stays: removing
/// it would let two processes lock two files of the same name.
#[derive(Debug)]
pub struct ProcessLock {
    _file: File,
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
    /// Takes the lock `path` or says who has it; never waits for a process that lives. A dead one's lock may live for a
    /// moment in a child that it was just about to execute: that is waited for, half a second at most.
    ///
    /// # Errors
    /// [`LockHeld::By`] when another process has it.
    pub fn acquire(path: &Path) -> Result<Self, LockHeld> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let mut file = options.open(path).map_err(DataRootError::io("open", path))?;
        let deadline = Instant::now() + CHILD_LIMIT;
        loop {
            match fcntl(&file, FcntlArg::F_OFD_SETLK(&whole_file())) {
                Ok(_) => break,
                Err(Errno::EAGAIN | Errno::EACCES) => {}
                Err(errno) => return Err(DataRootError::io("lock", path)(errno.into()).into()),
            }
            let pid = read_pid(&mut file);
            if pid.is_some_and(lives_elsewhere) || Instant::now() > deadline {
                return Err(LockHeld::By { pid });
            }
            std::thread::sleep(CHILD_PAUSE);
        }
        write_pid(&mut file).map_err(DataRootError::io("write", path))?;
        Ok(Self { _file: file })
    }

    /// Who holds the lock `path` now; `None` when nobody does. Takes nothing, so that it is in nobody's way.
    #[must_use]
    pub fn holder(path: &Path) -> Option<Holder> {
        let mut file = File::open(path).ok()?;
        let mut lock = whole_file();
        fcntl(&file, FcntlArg::F_OFD_GETLK(&mut lock)).ok()?;
        if i32::from(lock.l_type) == libc::F_UNLCK { None } else { Some(Holder { pid: read_pid(&mut file) }) }
    }
}

/// Who holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Its process id, as it wrote it; `None` while it is just about to.
    pub pid: Option<u32>,
}

fn whole_file() -> libc::flock {
    let narrow = |value: i32| i16::try_from(value).expect("lock types and origins are small");
    libc::flock { l_type: narrow(libc::F_WRLCK), l_whence: narrow(libc::SEEK_SET), l_start: 0, l_len: 0, l_pid: 0 }
}

/// True of a process that lives and is not this one.
fn lives_elsewhere(pid: u32) -> bool {
    let Ok(id) = i32::try_from(pid) else { return false };
    pid != std::process::id() && kill(Pid::from_raw(id), None) != Err(Errno::ESRCH)
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
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
        let by_us = Some(Holder { pid: Some(std::process::id()) });
        assert_eq!((ProcessLock::holder(&path), ProcessLock::holder(&path)), (by_us, by_us), "asking takes nothing");
        // What a child holds that is about to execute, the next one gets.
        let inherited = held._file.try_clone().expect("the same description");
        drop(held);
        let child = std::thread::spawn(move || {
            std::thread::sleep(CHILD_LIMIT / 10);
            drop(inherited);
        });
        drop(ProcessLock::acquire(&path).expect("waited for"));
        child.join().expect("no panic");
        assert_eq!(ProcessLock::holder(&path), None);
        ProcessLock::acquire(&path).expect("free again");
    }
}
