use std::ffi::OsStr;
use std::path::PathBuf;

/// Where `program` is: the first file of that name in `path`, a list of directories as PATH is one, with its links resolved.
#[must_use]
pub fn locate(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    let directories = path.into_iter().flat_map(std::env::split_paths).filter(|directory| directory.is_absolute());
    directories.map(|directory| directory.join(program)).find(|file| file.is_file())?.canonicalize().ok()
}
