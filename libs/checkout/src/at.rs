//! Files of a clone, reached from open directories only: one name at a time, no link followed, every read bounded.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nix::dir::Type;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, socket or device.
    Special,
}

/// What lstat(2) says of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// What it is.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Names that lead to it.
    pub links: u64,
    /// Device that it is on.
    pub device: u64,
    /// Size in bytes.
    pub size: u64,
    /// When content or status last changed, in seconds since 1970.
    pub changed: i64,
}

/// Why a file could not be read as what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// There is none.
    #[error("is not there")]
    Missing,
    /// It is a link, a special file, a directory instead of a file, or has a second name.
    #[error("is not a plain file or directory")]
    NotPlain,
    /// It is larger, or has more entries, than anything honest.
    #[error("is too large")]
    TooLarge,
    /// The system refused.
    #[error("can't be read ({0})")]
    Unreadable(Errno),
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::ENOENT => Self::Missing,
            Errno::ELOOP | Errno::ENOTDIR | Errno::EISDIR => Self::NotPlain,
            errno => Self::Unreadable(errno),
        }
    }
}

impl From<Type> for Kind {
    fn from(kind: Type) -> Self {
        match kind {
            Type::File => Self::File,
            Type::Directory => Self::Directory,
            Type::Symlink => Self::Link,
            Type::Fifo | Type::CharacterDevice | Type::BlockDevice | Type::Socket => Self::Special,
        }
    }
}

impl From<FileStat> for Status {
    fn from(stat: FileStat) -> Self {
        let format = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
        Self {
            kind: match format {
                SFlag::S_IFREG => Kind::File,
                SFlag::S_IFDIR => Kind::Directory,
                SFlag::S_IFLNK => Kind::Link,
                _ => Kind::Special,
            },
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            links: stat.st_nlink,
            device: stat.st_dev,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            changed: stat.st_ctime,
        }
    }
}

/// An open directory.
#[derive(Debug)]
pub struct Directory(OwnedFd);

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Directory {
    /// Opens the directory `path`. Its last component must not be a link; those before it are the caller's own.
    ///
    /// # Errors
    /// When it is no directory or can't be opened.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        Ok(Self(nix::fcntl::open(path, directory_flags(), Mode::empty())?))
    }

    /// Opens the directory `name` in it.
    ///
    /// # Errors
    /// When it is no directory or can't be opened.
    pub fn child(&self, name: &OsStr) -> Result<Self, Fault> {
        Ok(Self(openat(&self.0, name, directory_flags(), Mode::empty())?))
    }

    /// Opens the directory `path` below it, one name at a time.
    ///
    /// # Errors
    /// When one of them is no directory or can't be opened.
    pub fn below(&self, path: &Path) -> Result<Self, Fault> {
        path.iter().try_fold(self.child(OsStr::new("."))?, |directory, name| directory.child(name))
    }

    /// What it is itself.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn status(&self) -> Result<Status, Fault> {
        Ok(fstat(&self.0)?.into())
    }

    /// What `name` in it is.
    ///
    /// # Errors
    /// When there is none or the system refuses.
    pub fn look(&self, name: &OsStr) -> Result<Status, Fault> {
        Ok(fstatat(&self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW)?.into())
    }

    /// Names of its entries, at most `most`.
    ///
    /// # Errors
    /// When there are more, or the system refuses.
    pub fn names(&self, most: usize) -> Result<Vec<OsString>, Fault> {
        Ok(self.entries(most)?.into_iter().map(|(name, _)| name).collect())
    }

    /// Names of its entries, at most `most`, with what they are where the file system says so at once.
    ///
    /// # Errors
    /// When there are more, or the system refuses.
    pub fn entries(&self, most: usize) -> Result<Vec<(OsString, Option<Kind>)>, Fault> {
        let mut listing = nix::dir::Dir::openat(&self.0, ".", directory_flags(), Mode::empty())?;
        let mut names = Vec::new();
        for entry in listing.iter() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if names.len() >= most {
                return Err(Fault::TooLarge);
            }
            names.push((name.to_owned(), entry.file_type().map(Kind::from)));
        }
        Ok(names)
    }

    /// The content of the file `name`, which has one name and at most `most` bytes.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn read(&self, name: &OsStr, most: usize) -> Result<Vec<u8>, Fault> {
        let (file, status) = self.file(name)?;
        if status.links != 1 {
            return Err(Fault::NotPlain);
        }
        if status.size > most as u64 {
            return Err(Fault::TooLarge);
        }
        let mut content = Vec::new();
        let read = file.take(most as u64 + 1).read_to_end(&mut content);
        read.map_err(|error| Fault::Unreadable(Errno::from_raw(error.raw_os_error().unwrap_or(0))))?;
        if content.len() > most { Err(Fault::TooLarge) } else { Ok(content) }
    }

    /// Opens the file `name`, whatever other names it has, and says what it is.
    ///
    /// # Errors
    /// When it is no regular file or can't be opened.
    pub fn file(&self, name: &OsStr) -> Result<(std::fs::File, Status), Fault> {
        // To open a device can do something already.
        if self.look(name)?.kind != Kind::File {
            return Err(Fault::NotPlain);
        }
        // Only an owner may read without leaving a trace; where that is not us, the trace is no change that counts.
        let file = match openat(&self.0, name, file_flags() | OFlag::O_NOATIME, Mode::empty()) {
            Err(Errno::EPERM) => openat(&self.0, name, file_flags(), Mode::empty())?,
            opened => opened?,
        };
        let status = Status::from(fstat(&file)?);
        if status.kind == Kind::File { Ok((file.into(), status)) } else { Err(Fault::NotPlain) }
    }

    /// Where the link `name` leads.
    ///
    /// # Errors
    /// When it is no link or the system refuses.
    pub fn target(&self, name: &OsStr) -> Result<OsString, Fault> {
        Ok(readlinkat(&self.0, name)?)
    }
}

fn file_flags() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC
}

fn directory_flags() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC
}

/// Bytes as people may read them: no control character, nothing that is not text, at most 200 characters.
#[must_use]
pub fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                plain if plain == ' ' || plain.is_alphanumeric() || plain.is_ascii_punctuation() => text.push(plain),
                other => text.extend(other.escape_unicode()),
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
        if text.len() > 200 {
            text.truncate(text.floor_char_boundary(200));
            text.push_str("...");
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_plain_file_is_read() {
        let scratch = tempfile::tempdir().expect("scratch");
        let write = |name: &str, content: &str| std::fs::write(scratch.path().join(name), content).expect("written");
        write("plain", "x");
        write("twin", "x");
        std::fs::hard_link(scratch.path().join("twin"), scratch.path().join("twin2")).expect("linked");
        std::os::unix::fs::symlink("plain", scratch.path().join("link")).expect("linked");
        std::fs::create_dir(scratch.path().join("directory")).expect("made");
        nix::unistd::mkfifo(&scratch.path().join("pipe"), Mode::S_IRWXU).expect("made");
        let huge = std::fs::File::create(scratch.path().join("huge")).expect("made");
        huge.set_len(40 << 30).expect("sparse");
        let directory = Directory::open(scratch.path()).expect("opened");
        let read = |name: &str| directory.read(OsStr::new(name), 16);
        assert_eq!(read("plain"), Ok(b"x".to_vec()));
        for name in ["twin", "link", "directory", "pipe"] {
            assert_eq!(read(name), Err(Fault::NotPlain), "{name}");
        }
        assert_eq!(read("huge"), Err(Fault::TooLarge));
        assert_eq!(read("none"), Err(Fault::Missing));
        assert_eq!(directory.child(OsStr::new("link")).map(drop), Err(Fault::NotPlain));
        assert_eq!(directory.names(3), Err(Fault::TooLarge));
    }

    #[test]
    fn what_is_shown_has_no_control_characters() {
        assert_eq!(shown(b"a\x1b[31m\nb\\\xff\xe2\x80\xae"), "a\\u{1b}[31m\\u{a}b\\\\\\xff\\u{202e}");
        assert!(shown(&[b'x'; 5000]).len() < 210);
    }
}
