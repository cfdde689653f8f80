//! What is in a `:run` workspace, as `workspace.tar.gz`, before the workspace is removed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use mosaic_ids::Digest;
use mosaic_record::{Archive, RunRecord};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, readlinkat};
use nix::libc;
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmod, fchmodat, fstat};
use sha2::Digest as _;
use tokio_util::sync::CancellationToken;

use super::measure;
use super::walk::{Closed, Entry, Unreadable, permissions, walk};

/// File below a run's directory.
const NAME: &str = "workspace.tar.gz";
/// Name of the workspace inside of the archive.
const TOP: &str = "workspace";
/// File inside of the archive that lists what has no content that could be kept.
const LEFT_OUT: &str = "not-archived.txt";
/// Most bytes of that list.
const LEFT_OUT_BYTES: usize = 1024 * 1024;
/// Most bytes that are archived, by the lengths of the files: holes would be written out.
const LENGTH: u64 = 64 * 1024 * 1024 * 1024;
/// How much is written before free space is looked at again, in bytes.
const LOOK_EVERY: u64 = 4 * 1024 * 1024;

/// Why there is no archive.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArchiveError {
    /// What is to be archived is beyond what is archived.
    #[error("it has {length} bytes, more than the {LENGTH} that are archived")]
    TooLong {
        /// Length of all files.
        length: u64,
    },
    /// Something in it can't be read.
    #[error("can't read it: {0}")]
    Read(#[source] io::Error),
    /// The archive can't be written.
    #[error("can't write `{}`: {source}", path.display())]
    Write {
        /// The archive.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// What bounds the making of an archive.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    /// What has to stay free on the file system, in bytes.
    pub reserve: u64,
    /// Cancelled when there is no time left.
    pub stop: CancellationToken,
}

/// Archives `workspace` into `directory`, whole or not at all. The owner, device and lengths of links of nothing in it are
/// trusted: it is what an agent left. Blocks on the file system.
///
/// # Errors
/// When something can't be read or written, or is out of bounds; nothing is left then.
pub(super) fn archive(directory: &Path, workspace: &Path, bounds: &Bounds) -> Result<Archive, ArchiveError> {
    let length = measure::tree(workspace).length;
    if length > LENGTH {
        return Err(ArchiveError::TooLong { length });
    }
    let (path, temporary) = (directory.join(NAME), directory.join(NAME).with_extension("gz.tmp"));
    let failed = |source| ArchiveError::Write { path: path.clone(), source };
    let made = write(&temporary, workspace, bounds).and_then(|sink| {
        sink.file.sync_all()?;
        fs::rename(&temporary, &path)?;
        File::open(directory)?.sync_all()?;
        Ok(sink)
    });
    match made {
        Ok(sink) => {
            let digest = Digest::from_hash(&sink.hash.finalize());
            Ok(Archive { name: NAME.to_owned(), digest, size_bytes: sink.written })
        }
        Err(error) => {
            let _what_is_there = fs::remove_file(&temporary);
            Err(if Unreadable::is(&error) { ArchiveError::Read(error) } else { failed(error) })
        }
    }
}

/// Removes an archive that no record names, and what a launcher that was killed has left of one. Blocks on the file system.
pub(super) fn remove_unrecorded(directory: &Path, record: &RunRecord) {
    let is_recorded = record.pruned.iter().filter_map(|pruned| pruned.archive.as_ref()).any(|found| found.name == NAME);
    let path = directory.join(NAME);
    let temporary = path.with_extension("gz.tmp");
    for left in [Some(temporary), Some(path).filter(|_| !is_recorded)].into_iter().flatten() {
        if let Err(error) = fs::remove_file(&left)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %left.display(), %error, "Could not remove an archive that was not finished");
        }
    }
}

fn write(temporary: &Path, workspace: &Path, bounds: &Bounds) -> io::Result<Sink> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(temporary)?;
    let sink = Sink { file, hash: sha2::Sha256::new(), written: 0, looked: 0, bounds: bounds.clone() };
    sink.look()?;
    let mut archive = tar::Builder::new(GzEncoder::new(sink, Compression::fast()));
    let top = nix::sys::stat::lstat(workspace).map_err(Unreadable::at(Path::new(TOP)))?;
    archive.append_data(&mut header(&top, tar::EntryType::Directory, 0), TOP, io::empty())?;
    let mut left_out = LeftOut::default();
    walk(workspace, Closed::Open, &mut |entry| append(&mut archive, entry, &mut left_out))?;
    left_out.append_to(&mut archive, &top)?;
    archive.into_inner()?.finish()
}

/// Appends one entry of the tree.
fn append(archive: &mut tar::Builder<GzEncoder<Sink>>, entry: &Entry<'_>, left_out: &mut LeftOut) -> io::Result<()> {
    let path = Path::new(TOP).join(entry.path);
    let stat = entry.stat;
    match entry.kind() {
        SFlag::S_IFDIR => archive.append_data(&mut header(stat, tar::EntryType::Directory, 0), &path, io::empty()),
        SFlag::S_IFREG => {
            let length = stat.st_size.unsigned_abs();
            let file = open(entry).map_err(Unreadable::at(&path))?;
            let content = Exactly { file, left: length, path: &path };
            archive.append_data(&mut header(stat, tar::EntryType::Regular, length), &path, content)
        }
        SFlag::S_IFLNK => {
            let target = readlinkat(entry.directory, entry.name).map_err(Unreadable::at(&path))?;
            link(archive, &mut header(stat, tar::EntryType::Symlink, 0), &path, &target)
        }
        kind => {
            left_out.add(kind, &path);
            Ok(())
        }
    }
}

/// Appends a link, whose target stays as it is spelled.
fn link(
    archive: &mut tar::Builder<GzEncoder<Sink>>,
    header: &mut tar::Header,
    path: &Path,
    target: &OsStr,
) -> io::Result<()> {
    if header.set_link_name_literal(target.as_bytes()).is_ok() {
        return archive.append_data(header, path, io::empty());
    }
    archive.append_link(header, path, target)
}

fn header(stat: &FileStat, kind: tar::EntryType, length: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(permissions(stat).bits());
    header.set_uid(stat.st_uid.into());
    header.set_gid(stat.st_gid.into());
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or_default());
    header.set_size(length);
    header
}

/// Opens the file that `entry` was when it was looked at.
fn open(entry: &Entry<'_>) -> io::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    let again = || openat(entry.directory, entry.name, flags, Mode::empty());
    let file: OwnedFd = match again() {
        Err(Errno::EACCES) => {
            // What its owner has closed, its owner can open; it is a file, and nobody is left who could change that.
            let mode = permissions(entry.stat);
            fchmodat(entry.directory, entry.name, mode | Mode::S_IRUSR, FchmodatFlags::FollowSymlink)?;
            let file = again()?;
            fchmod(&file, mode)?;
            file
        }
        opened => opened?,
    };
    let stat = fstat(&file)?;
    if (stat.st_dev, stat.st_ino) != (entry.stat.st_dev, entry.stat.st_ino) {
        return Err(io::Error::other("it was replaced while it was read"));
    }
    Ok(File::from(file))
}

/// A file of a known length: shorter is an error, longer is cut.
struct Exactly<'a> {
    file: File,
    left: u64,
    path: &'a Path,
}

impl Read for Exactly<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let read = self.file.read(&mut buffer[..most]).map_err(Unreadable::at(self.path))?;
        if read == 0 {
            return Err(Unreadable::at(self.path)(io::Error::other("it became shorter while it was read")));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// What has no content that could be kept: sockets, pipes and devices.
#[derive(Debug, Default)]
struct LeftOut {
    list: String,
    more: u64,
}

impl LeftOut {
    fn add(&mut self, kind: SFlag, path: &Path) {
        let kind = match kind {
            SFlag::S_IFSOCK => "socket",
            SFlag::S_IFIFO => "pipe",
            SFlag::S_IFBLK | SFlag::S_IFCHR => "device",
            _ => "unknown",
        };
        if self.list.len() < LEFT_OUT_BYTES {
            // Quoted: a name may have a newline in it.
            self.list.push_str(&format!("{kind} {path:?}\n"));
        } else {
            self.more += 1;
        }
    }

    fn append_to(mut self, archive: &mut tar::Builder<GzEncoder<Sink>>, top: &FileStat) -> io::Result<()> {
        if self.list.is_empty() {
            return Ok(());
        }
        if self.more > 0 {
            self.list.push_str(&format!("and {} more\n", self.more));
        }
        let mut header = header(top, tar::EntryType::Regular, self.list.len() as u64);
        header.set_mode(0o600);
        archive.append_data(&mut header, LEFT_OUT, self.list.as_bytes())
    }
}

/// The archive's file: counts, digests and leaves the reserve alone.
struct Sink {
    file: File,
    hash: sha2::Sha256,
    written: u64,
    looked: u64,
    bounds: Bounds,
}

impl Sink {
    /// Fails when the reserve would be touched or there is no time left.
    fn look(&self) -> io::Result<()> {
        if self.bounds.stop.is_cancelled() {
            return Err(io::Error::other(Ending));
        }
        let free = crate::app::disk::free_of(&self.file)?;
        if free < self.bounds.reserve {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

/// There is no time left.
#[derive(Debug, thiserror::Error)]
#[error("the launcher ends")]
struct Ending;

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.written - self.looked >= LOOK_EVERY {
            self.look()?;
            self.looked = self.written;
        }
        let written = self.file.write(data)?;
        self.hash.update(&data[..written]);
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests;
