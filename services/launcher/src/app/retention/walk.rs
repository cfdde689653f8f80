//! A walk over a tree that an agent may have made, after its sandbox is gone.
//!
//! One directory is open at a time, so that no depth exhausts descriptors, and names are looked up below it only: no link is
//! followed and no path is too long. What is held in memory are the names of the directories on the way, which are bounded.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::libc;
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmod, fchmodat, fstat, fstatat};

/// Bytes of names that are held at most.
const NAME_BYTES: usize = 128 * 1024 * 1024;
/// What a name costs beside its bytes.
const NAME_COST: usize = 48;
/// Longest path below the top, in bytes: no file system lets anybody use one without effort, and each entry spells it out.
const PATH_BYTES: usize = 256 * 1024;
/// Most bytes of a path in a message.
const MESSAGE_BYTES: usize = 1024;

/// Something in the tree can't be read.
#[derive(Debug, thiserror::Error)]
#[error("`{}`: {source}", path.display())]
pub(super) struct Unreadable {
    path: PathBuf,
    source: io::Error,
}

impl Unreadable {
    /// An error of the operating system, about `path` below the top.
    pub(super) fn at<E: Into<io::Error>>(path: &Path) -> impl Fn(E) -> io::Error {
        move |source| {
            let source = source.into();
            let shown = &path.as_os_str().as_bytes()[..path.as_os_str().len().min(MESSAGE_BYTES)];
            io::Error::new(source.kind(), Self { path: below(shown).to_owned(), source })
        }
    }

    /// True when `error` is one of these.
    pub(super) fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Self>)
    }
}

/// What is done about directories that their owner has closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// They are passed over.
    PassOver,
    /// They are opened for the time of the walk.
    Open,
}

/// Something in the tree.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    /// The directory that it is in.
    pub directory: &'a OwnedFd,
    /// Its name there.
    pub name: &'a OsStr,
    /// Its path below the top.
    pub path: &'a Path,
    /// What it is; a link itself, not what it leads to.
    pub stat: &'a FileStat,
}

impl Entry<'_> {
    /// What kind of thing it is.
    pub(super) fn kind(&self) -> SFlag {
        kind(self.stat)
    }
}

/// The part of a mode that says what kind of thing it is.
pub(super) fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

/// Permissions of something.
pub(super) fn permissions(stat: &FileStat) -> Mode {
    Mode::from_bits_truncate(stat.st_mode)
}

/// Shows everything below the directory `top` to `visit`, each directory before what is in it, in the order of the names.
///
/// # Errors
/// [`Unreadable`] when something can't be read or the tree is beyond the bounds; what `visit` returns, when that fails. Every
/// directory is as closed as it was before then.
pub(super) fn walk(top: &Path, closed: Closed, visit: &mut dyn FnMut(&Entry<'_>) -> io::Result<()>) -> io::Result<()> {
    let Some(mut walk) = Walk::begin(top, closed).map_err(Unreadable::at(top))? else { return Ok(()) };
    let walked = walk.run(visit);
    while walked.is_err() && walk.leave().is_ok_and(|left| left) {}
    walked
}

/// A directory on the way from the top.
struct Level {
    names: std::vec::IntoIter<OsString>,
    /// Bytes that the names take.
    cost: usize,
    /// What it is known by on the way back.
    id: (libc::dev_t, libc::ino_t),
    /// How it is closed again.
    restore: Option<Mode>,
    /// Length of its path.
    path: usize,
}

struct Walk {
    closed: Closed,
    directory: OwnedFd,
    levels: Vec<Level>,
    path: Vec<u8>,
    cost: usize,
}

impl Walk {
    /// At the top; `None` when that is closed and to be passed over.
    fn begin(top: &Path, closed: Closed) -> io::Result<Option<Self>> {
        let parent = open(top.parent().unwrap_or(Path::new("/")), directory_flags(), Mode::empty())?;
        let name = top.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let stat = fstatat(&parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        let Some((directory, restore)) = enter(&parent, name, &stat, closed)? else { return Ok(None) };
        let mut walk = Self { closed, directory, levels: Vec::new(), path: Vec::new(), cost: 0 };
        walk.push(&stat, restore)?;
        Ok(Some(walk))
    }

    fn run(&mut self, visit: &mut dyn FnMut(&Entry<'_>) -> io::Result<()>) -> io::Result<()> {
        loop {
            let Some(level) = self.levels.last_mut() else { return Ok(()) };
            let Some(name) = level.names.next() else {
                let path = level.path;
                self.leave().map_err(Unreadable::at(below(&self.path[..path])))?;
                continue;
            };
            self.path.truncate(level.path);
            if !self.path.is_empty() {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(name.as_bytes());
            if self.path.len() > PATH_BYTES {
                return Err(Unreadable::at(below(&self.path))(io::Error::other("directories are nested too deep")));
            }
            let stat = fstatat(&self.directory, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
                .map_err(Unreadable::at(below(&self.path)))?;
            visit(&Entry { directory: &self.directory, name: &name, path: below(&self.path), stat: &stat })?;
            if kind(&stat) == SFlag::S_IFDIR {
                self.descend(&name, &stat).map_err(Unreadable::at(below(&self.path)))?;
            }
        }
    }

    fn descend(&mut self, name: &OsStr, stat: &FileStat) -> io::Result<()> {
        if let Some((directory, restore)) = enter(&self.directory, name, stat, self.closed)? {
            self.directory = directory;
            self.push(stat, restore)?;
        }
        Ok(())
    }

    /// Takes the directory that was just opened as the next level.
    fn push(&mut self, stat: &FileStat, restore: Option<Mode>) -> io::Result<()> {
        let (id, path) = ((stat.st_dev, stat.st_ino), self.path.len());
        let mut level = Level { names: Vec::new().into_iter(), cost: 0, id, restore, path };
        let names = names(&self.directory, NAME_BYTES - self.cost);
        if let Ok((names, cost)) = names {
            self.cost += cost;
            level.cost = cost;
            level.names = names.into_iter();
            self.levels.push(level);
            return Ok(());
        }
        self.levels.push(level);
        names.map(|_| ())
    }

    /// Goes up from the level that is done; false at the top.
    fn leave(&mut self) -> io::Result<bool> {
        let Some(done) = self.levels.pop() else { return Ok(false) };
        self.cost -= done.cost;
        let up = match self.levels.last() {
            Some(level) => {
                let up = openat(&self.directory, "..", directory_flags(), Mode::empty())?;
                let stat = fstat(&up)?;
                if (stat.st_dev, stat.st_ino) != level.id {
                    return Err(io::Error::other("a directory was moved while it was read"));
                }
                Some(up)
            }
            None => None,
        };
        if let Some(mode) = done.restore {
            fchmod(&self.directory, mode)?;
        }
        let more = up.is_some();
        if let Some(up) = up {
            self.directory = up;
        }
        Ok(more)
    }
}

fn below(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

/// Opens the directory `name`, and says how to close it again.
fn enter(
    parent: &OwnedFd,
    name: &OsStr,
    stat: &FileStat,
    closed: Closed,
) -> io::Result<Option<(OwnedFd, Option<Mode>)>> {
    let mode = permissions(stat);
    let open_to_us = nix::unistd::geteuid().is_root() || mode.contains(Mode::S_IRUSR | Mode::S_IXUSR);
    if !open_to_us && closed == Closed::PassOver {
        return Ok(None);
    }
    if !open_to_us {
        // It is a directory, and nobody is left who could put a link in its place.
        fchmodat(parent, name, mode | Mode::S_IRWXU, FchmodatFlags::FollowSymlink)?;
    }
    let directory = openat(parent, name, directory_flags(), Mode::empty())?;
    Ok(Some((directory, (!open_to_us).then_some(mode))))
}

/// Names in a directory, in their order, and what they cost; at most `bytes`.
fn names(directory: &OwnedFd, bytes: usize) -> io::Result<(Vec<OsString>, usize)> {
    let mut listing = Dir::openat(directory.as_fd(), ".", directory_flags(), Mode::empty())?;
    let (mut names, mut cost) = (Vec::new(), 0);
    for entry in listing.iter() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        cost += name.len() + NAME_COST;
        if cost > bytes {
            return Err(io::Error::other("a directory has too many entries"));
        }
        names.push(OsString::from_vec(name.to_vec()));
    }
    names.sort_unstable();
    Ok((names, cost))
}

fn directory_flags() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn seen(top: &Path, closed: Closed) -> io::Result<Vec<String>> {
        let mut seen = Vec::new();
        walk(top, closed, &mut |entry| {
            seen.push(entry.path.display().to_string());
            Ok(())
        })?;
        Ok(seen)
    }

    #[test]
    fn everything_is_shown_once_in_order_and_no_link_is_followed() {
        let scratch = tempfile::tempdir().expect("scratch");
        let top = scratch.path().join("top");
        fs::create_dir_all(top.join("b/c")).expect("made");
        fs::write(top.join("b/c/file"), "x").expect("written");
        fs::write(top.join("a"), "x").expect("written");
        std::os::unix::fs::symlink("/etc", top.join("link")).expect("link");
        std::os::unix::fs::symlink("..", top.join("b/up")).expect("link");
        assert_eq!(seen(&top, Closed::Open).expect("walked"), ["a", "b", "b/c", "b/c/file", "b/up", "link"]);
        assert!(seen(&top.join("link"), Closed::Open).is_err(), "a link is no directory");
    }

    #[test]
    fn closed_directories_are_opened_for_the_walk_only() {
        if nix::unistd::geteuid().is_root() {
            return;
        }
        let scratch = tempfile::tempdir().expect("scratch");
        let top = scratch.path().join("top");
        fs::create_dir_all(top.join("closed/inner")).expect("made");
        fs::write(top.join("closed/inner/file"), "x").expect("written");
        let modes = [("closed/inner", 0o400), ("closed", 0o000), ("", 0o100)];
        for (path, mode) in modes {
            fs::set_permissions(top.join(path), fs::Permissions::from_mode(mode)).expect("closed");
        }
        assert_eq!(seen(&top, Closed::PassOver).expect("walked"), Vec::<String>::new());
        let all = seen(&top, Closed::Open).expect("walked");
        assert_eq!(all, ["closed", "closed/inner", "closed/inner/file"]);
        walk(&top, Closed::Open, &mut |entry| {
            if entry.name == "file" { Err(io::Error::other("enough")) } else { Ok(()) }
        })
        .expect_err("stopped");
        for (path, mode) in modes.into_iter().rev() {
            let found = fs::symlink_metadata(top.join(path)).expect("there").permissions().mode();
            assert_eq!(found & 0o777, mode, "{path}");
            fs::set_permissions(top.join(path), fs::Permissions::from_mode(0o700)).expect("opened");
        }
    }

    #[test]
    fn a_tree_that_is_deeper_than_paths_and_descriptor_tables_is_walked() {
        let scratch = tempfile::tempdir().expect("scratch");
        let top = scratch.path().join("top");
        fs::create_dir(&top).expect("made");
        let mut directory = open(&top, directory_flags(), Mode::empty()).expect("open");
        for _ in 0..3_000 {
            nix::sys::stat::mkdirat(&directory, "dd", Mode::S_IRWXU).expect("made");
            directory = openat(&directory, "dd", directory_flags(), Mode::empty()).expect("open");
        }
        drop(directory);
        assert_eq!(seen(&top, Closed::Open).expect("walked").len(), 3_000);
        mosaic_data_root::remove_tree(&top).expect("removed");
    }
}
