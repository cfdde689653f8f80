use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::protocol::{Exposed, Identity};

const NONE: Option<&str> = None;

/// Makes the exposed directories reachable for somebody who may not enter their parents.
///
/// A data root is private to its owner, so that an adapter that runs under another uid could not even enter its own
/// workspace. Rather than opening the data root to everybody, the adapter gets a mount namespace in which the topmost
/// directory that it can't enter holds nothing but the way to the exposed ones.
pub(crate) fn expose(exposed: &[Exposed], identity: Option<Identity>) -> io::Result<()> {
    let Some(identity) = identity else { return Ok(()) };
    let closed = |directory: &Path| !may_enter(directory, identity);
    let covered: BTreeSet<PathBuf> =
        exposed.iter().filter_map(|entry| topmost_closed(Path::new(&entry.path), closed)).collect();
    if covered.is_empty() {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
    // Opened here: only what belongs to this namespace can be mounted in it.
    let handles =
        exposed.iter().map(|entry| Ok((entry, open(Path::new(&entry.path))?))).collect::<io::Result<Vec<_>>>()?;
    for directory in &covered {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("tmpfs"), directory, Some("tmpfs"), flags, Some("mode=0711,size=1m"))?;
    }
    for (entry, handle) in &handles {
        if covered.iter().any(|directory| Path::new(&entry.path).starts_with(directory)) {
            bind(entry, handle)?;
        }
    }
    for directory in &covered {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(NONE, directory, NONE, flags, NONE)?;
    }
    Ok(())
}

fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    opened.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn bind(entry: &Exposed, handle: &File) -> io::Result<()> {
    let target = Path::new(&entry.path);
    DirBuilder::new().recursive(true).mode(0o711).create(target)?;
    let source = format!("/proc/self/fd/{}", handle.as_raw_fd());
    mount(Some(source.as_str()), target, NONE, MsFlags::MS_BIND, NONE)?;
    if entry.read_only {
        mount(NONE, target, NONE, MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, NONE)?;
    }
    Ok(())
}

fn may_enter(directory: &Path, identity: Identity) -> bool {
    std::fs::metadata(directory).is_ok_and(|metadata| {
        let execute = if metadata.uid() == identity.uid {
            0o100
        } else if metadata.gid() == identity.gid {
            0o010
        } else {
            0o001
        };
        metadata.mode() & execute != 0
    })
}

/// The first directory on the way to `path`, which is not itself part of the way, that is closed.
fn topmost_closed(path: &Path, closed: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let way: Vec<&Path> = path.ancestors().skip(1).collect();
    way.into_iter().rev().find(|directory| closed(directory)).map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topmost_closed_directory_is_the_one_to_cover() {
        let closed =
            |names: &'static [&'static str]| move |path: &Path| names.iter().any(|name| path == Path::new(name));
        let path = Path::new("/root/data/runs/r-1/private");
        assert_eq!(topmost_closed(path, closed(&[])), None);
        assert_eq!(topmost_closed(path, closed(&["/root/data", "/root"])), Some("/root".into()));
        assert_eq!(topmost_closed(path, closed(&["/root/data/runs"])), Some("/root/data/runs".into()));
        assert_eq!(topmost_closed(path, closed(&["/root/data/runs/r-1/private"])), None, "the directory itself is not");
    }
}
