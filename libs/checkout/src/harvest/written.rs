//! The files that a harvest leaves: a patch, a bundle, and what they hold in words for machines.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use mosaic_ids::Digest;
use mosaic_record::HarvestFile;
use sha2::Digest as _;

use crate::at::Directory;

/// Names of the files.
pub(crate) const PATCH: &str = "work.patch";
pub(crate) const BUNDLE: &str = "work.bundle";
pub(crate) const HANDOFF: &str = "handoff.json";

/// A directory that takes its place when everything is in it.
#[derive(Debug)]
pub(crate) struct Files<'a> {
    place: &'a Path,
    stage: PathBuf,
    named: &'a str,
}

impl<'a> Files<'a> {
    /// Begins to write what will be at `place`; `named` is how the result calls it.
    pub(crate) fn begin(place: &'a Path, named: &'a str) -> std::io::Result<Self> {
        let mut stage = place.as_os_str().to_owned();
        stage.push(".new");
        let stage = PathBuf::from(stage);
        remove(&stage)?;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&stage)?;
        Ok(Self { place, stage, named })
    }

    /// Takes over a file of at most `most` bytes that a contained git has written.
    pub(crate) fn take(&self, from: &Directory, name: &'static str, most: u64) -> std::io::Result<HarvestFile> {
        let (file, status) = from.file(name.as_ref()).map_err(std::io::Error::other)?;
        if status.size > most {
            return Err(std::io::Error::other(format!("`{name}` has {} bytes; at most {most} are taken", status.size)));
        }
        self.copy(file.take(most), name)
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &'static str, content: &[u8]) -> std::io::Result<HarvestFile> {
        self.copy(content, name)
    }

    fn copy(&self, mut from: impl std::io::Read, name: &str) -> std::io::Result<HarvestFile> {
        let path = self.stage.join(name);
        let mut to = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let (digest, size_bytes) = copy(&mut from, &mut to)?;
        Ok(HarvestFile { name: format!("{}/{name}", self.named), digest, size_bytes })
    }

    /// Puts the directory in its place, on disk.
    pub(crate) fn publish(self) -> std::io::Result<()> {
        File::open(&self.stage)?.sync_all()?;
        remove(self.place)?;
        std::fs::rename(&self.stage, self.place)?;
        match self.place.parent() {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    }
}

/// Copies to a file until it is on disk. Returns the digest and the number of the bytes.
pub(crate) fn copy(from: &mut impl std::io::Read, to: &mut File) -> std::io::Result<(Digest, u64)> {
    let (mut hash, mut size, mut buffer) = (sha2::Sha256::new(), 0, vec![0; 64 * 1024]);
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        to.write_all(&buffer[..read])?;
        size += read as u64;
    }
    to.sync_all()?;
    Ok((Digest::from_hash(&hash.finalize()), size))
}

/// Removes a directory of the host's own, if it is there.
pub(crate) fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
