//! Locks on files of a data root.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mosaic_data_root::ProcessLock;
use nix::unistd::Pid;

use super::Leftover;

/// Every lock on a file below `data`, whatever its kind, that none of the processes `live` holds.
pub(super) fn held(data: &Path, live: &[Pid]) -> Vec<Leftover> {
    let files = files_by_inode(data);
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let is_live = |pid: i32| live.contains(&Pid::from_raw(pid));
    let mut found = Vec::new();
    for line in locks.lines() {
        // proc(5): `1: POSIX ADVISORY WRITE 42 08:01:1234 0 EOF`; a lock that is waited for has `->` in front.
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let Some(place) = fields.iter().position(|field| field.matches(':').count() == 2) else { continue };
        let inode = fields[place].rsplit(':').next().and_then(|inode| inode.parse().ok());
        let Some(path) = inode.and_then(|inode: u64| files.get(&inode)) else { continue };
        // An open file description has no process; what we lock so, names its holder in the file.
        let holder = match fields[place - 1].parse().unwrap_or(-1) {
            -1 => ProcessLock::holder(path).and_then(|holder| i32::try_from(holder.pid?).ok()),
            pid => Some(pid),
        };
        if !holder.is_some_and(is_live) && same_device(path, fields[place]) {
            found.push(Leftover::Lock(format!("{}: {line}", path.display())));
        }
    }
    found
}

fn files_by_inode(data: &Path) -> HashMap<u64, PathBuf> {
    let mut files = HashMap::new();
    let mut directories = vec![data.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => directories.push(entry.path()),
                Ok(metadata) => drop(files.insert(metadata.ino(), entry.path())),
                Err(_gone) => {}
            }
        }
    }
    files
}

/// True when `path` lies on the device of a place as /proc/locks writes it: `08:01:1234`, in hexadecimal.
fn same_device(path: &Path, place: &str) -> bool {
    let mut parts = place.split(':').map(|part| u64::from_str_radix(part, 16).unwrap_or(u64::MAX));
    let (major, minor) = (parts.next(), parts.next());
    let Ok(metadata) = fs::symlink_metadata(path) else { return false };
    let device = metadata.dev();
    major == Some(nix::sys::stat::major(device)) && minor == Some(nix::sys::stat::minor(device))
}
