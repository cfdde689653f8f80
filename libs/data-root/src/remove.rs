use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::{fs, io};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmodat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

/// Removes a directory that an agent may have written, after its sandbox is gone. What is not there is removed already.
///
/// An agent may leave directories nested deeper than any stack or descriptor table: what lies deep is moved up before it
/// is removed, so that this needs the same memory for every tree. No link is followed.
///
/// # Errors
/// When something can't be removed.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        // Its owner may have closed it.
        Ok(metadata) if metadata.is_dir() => open_for_owner(AT_FDCWD, path.as_os_str()),
        _ => {}
    }
    let top = nix::fcntl::open(path, directory_flags(), Mode::empty())?;
    let mut moved = 0_u64;
    loop {
        let names = entries(&top)?;
        if names.is_empty() {
            break;
        }
        for name in &names {
            if !is_directory(&top, name)? {
                unlinkat(&top, name.as_os_str(), UnlinkatFlags::NoRemoveDir)?;
                continue;
            }
            lift_directories(&top, name, &mut moved)?;
            unlinkat(&top, name.as_os_str(), UnlinkatFlags::RemoveDir)?;
        }
    }
    drop(top);
    fs::remove_dir(path)
}

/// Removes the files of `name` and moves its directories up beside it.
fn lift_directories(top: &OwnedFd, name: &OsStr, moved: &mut u64) -> io::Result<()> {
    open_for_owner(top, name);
    let directory = openat(top, name, directory_flags(), Mode::empty())?;
    loop {
        let children = entries(&directory)?;
        if children.is_empty() {
            return Ok(());
        }
        for child in &children {
            if is_directory(&directory, child)? {
                lift(&directory, child, top, moved)?;
            } else {
                unlinkat(&directory, child.as_os_str(), UnlinkatFlags::NoRemoveDir)?;
            }
        }
    }
}

/// Moves the directory `child` to a name of its own in `top`.
fn lift(directory: &OwnedFd, child: &OsStr, top: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    open_for_owner(directory, child);
    loop {
        *moved += 1;
        let target = OsString::from(format!(".removed-{moved}"));
        match renameat(directory, child, top, target.as_os_str()) {
            Err(Errno::EEXIST | Errno::ENOTEMPTY | Errno::ENOTDIR) => {}
            renamed => return Ok(renamed?),
        }
    }
}

/// What its owner has closed, its owner can open again; root need not. `name` is a directory, and nobody changes that
/// any more.
fn open_for_owner(parent: impl AsFd, name: &OsStr) {
    let _shows_when_used = fchmodat(parent, name, Mode::S_IRWXU, FchmodatFlags::FollowSymlink);
}

fn directory_flags() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
}

/// Names of one batch at most: a directory may hold millions.
const BATCH: usize = 1024;

fn entries(directory: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut listing = Dir::openat(directory, ".", directory_flags(), Mode::empty())?;
    let names = listing.iter().filter_map(|entry| match entry {
        Ok(entry) => {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            (name != "." && name != "..").then(|| Ok(name.to_owned()))
        }
        Err(error) => Some(Err(error.into())),
    });
    names.take(BATCH).collect()
}

fn is_directory(parent: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    let stat = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    Ok(SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch() -> (tempfile::TempDir, std::path::PathBuf) {
        let scratch = tempfile::tempdir().expect("scratch");
        let path = scratch.path().join("tree");
        fs::create_dir(&path).expect("made");
        (scratch, path)
    }

    #[test]
    fn a_tree_that_is_deeper_than_the_descriptor_table_is_removed() {
        let (_scratch, path) = scratch();
        let mut directory = nix::fcntl::open(&path, directory_flags(), Mode::empty()).expect("open");
        for _ in 0..1_500 {
            nix::sys::stat::mkdirat(&directory, "d", Mode::S_IRWXU).expect("made");
            directory = openat(&directory, "d", directory_flags(), Mode::empty()).expect("open");
        }
        drop(directory);
        remove_tree(&path).expect("removed");
        assert!(!path.exists());
    }

    #[test]
    fn links_are_removed_and_not_followed_and_closed_directories_are_opened() {
        let (scratch, path) = scratch();
        let outside = scratch.path().join("outside");
        fs::create_dir(&outside).expect("made");
        fs::write(outside.join("precious"), "x").expect("written");
        std::os::unix::fs::symlink(&outside, path.join("link")).expect("link");
        fs::create_dir_all(path.join("a/b/c")).expect("made");
        fs::write(path.join("a/b/.removed-1"), "x").expect("written");
        fs::write(path.join(".removed-1"), "x").expect("written");
        for closed in ["a/b", "a", ""] {
            fs::set_permissions(path.join(closed), std::os::unix::fs::PermissionsExt::from_mode(0o000))
                .expect("closed");
        }
        remove_tree(&path).expect("removed");
        assert!(!path.exists() && outside.join("precious").exists());
        remove_tree(&path).expect("nothing to do");
    }

    #[test]
    fn more_entries_than_one_batch_are_removed() {
        let (_scratch, path) = scratch();
        for number in 0..BATCH + 10 {
            fs::write(path.join(number.to_string()), "").expect("written");
        }
        fs::create_dir(path.join("many")).expect("made");
        for number in 0..BATCH + 10 {
            fs::write(path.join("many").join(number.to_string()), "").expect("written");
        }
        remove_tree(&path).expect("removed");
    }
}
