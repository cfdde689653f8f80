use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use mosaic_ids::{Digest, RunId};
use mosaic_record::Backend;

use crate::sandbox::Anchor;

/// Name of the record in the directory of an execution.
const NAME: &str = "execution.json";

/// Largest record that is read, in bytes.
const RECORD_BYTES: u64 = 64 * 1024;

/// What must be known to find an execution again after a crash: written before anything runs.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExecutionRecord {
    /// The run.
    pub(crate) run_id: RunId,
    /// The epoch that it works under.
    pub(crate) epoch: i64,
    /// Name of the sandbox.
    pub(crate) sandbox: String,
    /// What the sandbox is made of.
    pub(crate) backend: Backend,
    /// Digest of the bundle.
    pub(crate) bundle_digest: Digest,
    /// Digest of the shim.
    pub(crate) shim_digest: Digest,
    /// Directories of the sandbox's control groups.
    pub(crate) groups: Vec<PathBuf>,
    /// The process that the sandbox stands and falls with; absent before it is there.
    pub(crate) anchor: Option<Anchor>,
}

/// Writes the record whole or not at all; makes the directory when it is missing. What it is for, a process of ours that
/// was killed, leaves it in the kernel's hands; when the machine stops, every sandbox is gone anyway.
///
/// # Errors
/// When it can't be written.
pub(crate) fn write(directory: &Path, record: &ExecutionRecord) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let (path, temporary) = (directory.join(NAME), directory.join(".execution.json.tmp"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&serde_json::to_vec_pretty(record).map_err(io::Error::other)?)?;
    fs::rename(&temporary, &path)
}

/// True when there is a record in `directory`, readable or not.
///
/// # Errors
/// When that can't be told.
pub(crate) fn exists(directory: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(directory.join(NAME)) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The record in `directory`; `None` when there is none, as after a crash before it was written.
///
/// # Errors
/// When it can't be read or is not one.
pub(crate) fn read(directory: &Path) -> io::Result<Option<ExecutionRecord>> {
    let file = match File::open(directory.join(NAME)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(RECORD_BYTES).read_to_string(&mut text)?;
    serde_json::from_str(&text).map(Some).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_leads_back_to_itself_and_a_missing_one_is_none() {
        let scratch = tempfile::tempdir().expect("scratch");
        let directory = scratch.path().join("r-1");
        assert_eq!(read(&directory).expect("readable"), None);
        assert!(!exists(&directory).expect("known"));
        let record = ExecutionRecord {
            run_id: "r-1".parse().expect("run id"),
            epoch: 3,
            sandbox: "r-1-abc".to_owned(),
            backend: Backend::Bubblewrap,
            bundle_digest: Digest::of(b"bundle"),
            shim_digest: Digest::of(b"shim"),
            groups: vec!["/sys/fs/cgroup/pids/r-1-abc".into()],
            anchor: Some(Anchor { pid: 7, start_time: 99 }),
        };
        write(&directory, &record).expect("written");
        assert_eq!(read(&directory).expect("readable"), Some(record));
        assert!(exists(&directory).expect("known"));
    }
}
