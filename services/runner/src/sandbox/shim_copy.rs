use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mosaic_data_root::DataRoot;
use mosaic_ids::Digest;
use sha2::{Digest as _, Sha256};

/// How long a process that was forked meanwhile may take to execute.
const WRITERS_LIMIT: Duration = Duration::from_secs(10);

/// Bytes that are copied at once.
const COPY_BYTES: usize = 256 * 1024;

/// Makes the copy of `executable` that sandboxes run as their shim, if it is not there yet, and tells its digest.
///
/// A copy, because the executable may be replaced or removed while sandboxes need it.
///
/// # Errors
/// When it can't be read or the copy can't be written.
pub(crate) fn install(root: &DataRoot, executable: &Path) -> io::Result<(PathBuf, Digest)> {
    let digest = digest_of(executable)?;
    let target = root.shim(&digest);
    let directory = target.parent().expect("the copy lies in a directory");
    // One runner a data root: what is there was left by one that was killed while it copied.
    let temporary = directory.join(".copy.tmp");
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if digest_of(&target).is_ok_and(|present| present == digest) {
        return Ok((target, digest));
    }
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let made = copy(executable, &digest, &temporary).and_then(|()| fs::rename(&temporary, &target));
    if made.is_err() {
        // Half a copy may be all that a disk had room for.
        let _nothing_there = fs::remove_file(&temporary);
    }
    made.map(|()| (target, digest))
}

/// Copies `executable`, whose digest is `digest`, so that it can be executed at once.
fn copy(executable: &Path, digest: &Digest, to: &Path) -> io::Result<()> {
    let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o700).open(to)?;
    let copied = read_all(executable, |bytes| copy.write_all(bytes))?;
    copy.set_permissions(fs::Permissions::from_mode(0o555))?;
    copy.sync_all()?;
    drop(copy);
    if copied != *digest {
        return Err(io::Error::other("the executable changed while it was copied"));
    }
    wait_until_executable(to)
}

/// Waits until nobody has the copy open for writing: a process that another thread forked while we wrote holds our
/// descriptor until it executes, and until then nobody can execute the copy.
fn wait_until_executable(copy: &Path) -> io::Result<()> {
    let file = File::open(copy)?;
    let deadline = Instant::now() + WRITERS_LIMIT;
    loop {
        match read_lease(&file) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
            // A file system without leases can't tell; there the first start may have to be repeated.
            Ok(()) | Err(_) => return Ok(()),
        }
    }
}

/// Takes a read lease, which the kernel gives only while nobody has the file open for writing. It ends with the descriptor.
#[expect(unsafe_code, reason = "leases have no safe wrapper")]
fn read_lease(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the argument is an integer.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn digest_of(path: &Path) -> io::Result<Digest> {
    read_all(path, |_bytes| Ok(()))
}

fn read_all(path: &Path, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<Digest> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut hash = Sha256::new();
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(Digest::from_hash(&hash.finalize()));
        }
        hash.update(&buffer[..read]);
        take(&buffer[..read])?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_is_made_once_and_again_when_it_was_changed() {
        let scratch = tempfile::tempdir().expect("scratch");
        let root = DataRoot::create_or_open(&scratch.path().join("data")).expect("data root");
        let executable = scratch.path().join("exe");
        fs::write(&executable, "one").expect("written");
        let (path, digest) = install(&root, &executable).expect("copied");
        assert_eq!(digest, Digest::of(b"one"));
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o555);

        fs::remove_file(&path).expect("removed");
        fs::write(&path, "evil").expect("written");
        let half = path.with_file_name(".copy.tmp");
        fs::write(&half, "o").expect("written");
        let (again, _) = install(&root, &executable).expect("copied");
        assert_eq!(fs::read(again).expect("readable"), b"one");
        assert!(!half.exists(), "what a killed runner has left is gone");
    }
}
