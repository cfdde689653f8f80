use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use mosaic_ids::{Digest, Name, RunId};

use crate::{DataRootError, Service};

/// Says that a directory is a data root.
const MARKER: &str = ".mosaic-data-root";
const MARKER_TEXT: &str = "{\"dataRootVersion\":1}\n";

/// Longest path of a Unix socket that the kernel takes, without the final NUL (unix(7)).
const SOCKET_PATH_BYTES: usize = 107;

/// A directory that is ours, and where everything in it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataRoot {
    path: PathBuf,
    owner: u32,
}

impl DataRoot {
    /// Opens a data root to work on it as a host; makes it when `path` is missing or empty.
    ///
    /// # Errors
    /// When the path is relative or too long, belongs to somebody else, or holds something that is not ours.
    pub fn create_or_open(path: &Path) -> Result<Self, DataRootError> {
        check_path(path)?;
        private_parent(path)?;
        let uid = nix::unistd::geteuid().as_raw();
        let metadata = fs::metadata(path).map_err(DataRootError::io("read", path))?;
        if metadata.permissions().mode() & 0o022 != 0 {
            return Err(DataRootError::Exposed { path: path.into() });
        }
        let owner = metadata.uid();
        if owner != uid {
            return Err(DataRootError::NotOwner { path: path.into(), owner, uid });
        }
        mark(path)?;
        let root = Self::open(path)?;
        for directory in
            [root.run_dir(), root.credentials(), root.broker(), root.runs(), root.state(), root.per_run_sockets()]
        {
            private_directory(&directory, uid)?;
        }
        for directory in [root.workspaces(), root.sessions(), root.adapters()] {
            private_directory(&directory, uid)?;
        }
        Ok(root)
    }

    /// Opens a data root that is there already, to attach to its host.
    ///
    /// # Errors
    /// When the path is relative or too long, or is no data root.
    pub fn open(path: &Path) -> Result<Self, DataRootError> {
        check_path(path)?;
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(DataRootError::Missing { path: path.into() });
            }
            Err(error) => return Err(DataRootError::io("read", path)(error)),
        };
        if !path.join(MARKER).exists() {
            return Err(DataRootError::NotOurs { path: path.into() });
        }
        Ok(Self { path: path.into(), owner: metadata.uid() })
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Uid of its owner; a client sends its token to nobody else (root excepted).
    #[must_use]
    pub const fn owner(&self) -> u32 {
        self.owner
    }

    /// Sockets, locks and the host's log.
    #[must_use]
    pub fn run_dir(&self) -> PathBuf {
        self.path.join("run")
    }

    /// Sockets of single runs, under short names.
    #[must_use]
    pub fn per_run_sockets(&self) -> PathBuf {
        self.path.join("run/x")
    }

    /// Where a service listens.
    #[must_use]
    pub fn socket(&self, service: Service) -> PathBuf {
        self.run_dir().join(format!("{service}.sock"))
    }

    /// The lock that a service holds while it works on this data root.
    #[must_use]
    pub fn lock(&self, service: Service) -> PathBuf {
        self.run_dir().join(format!("{service}.lock"))
    }

    /// The lock that the host holds: at most one host a data root.
    #[must_use]
    pub fn host_lock(&self) -> PathBuf {
        self.run_dir().join("host.lock")
    }

    /// What the live host is: pid, build, digest of its configuration.
    #[must_use]
    pub fn host_file(&self) -> PathBuf {
        self.run_dir().join("host.json")
    }

    /// Log of a background host.
    #[must_use]
    pub fn host_log(&self) -> PathBuf {
        self.run_dir().join("host.log")
    }

    /// The broker's directory.
    #[must_use]
    pub fn broker(&self) -> PathBuf {
        self.path.join("broker")
    }

    /// The ledger on SQLite.
    #[must_use]
    pub fn ledger(&self) -> PathBuf {
        self.broker().join("ledger.db")
    }

    /// Directories of runs.
    #[must_use]
    pub fn runs(&self) -> PathBuf {
        self.path.join("runs")
    }

    /// Directory of one run: its documents, output and record.
    #[must_use]
    pub fn run(&self, run: &RunId) -> PathBuf {
        self.runs().join(run)
    }

    /// Bundle of one run.
    #[must_use]
    pub fn bundle(&self, run: &RunId) -> PathBuf {
        self.run(run).join("bundle")
    }

    /// The work that was taken out of a run's clones, a directory a project.
    #[must_use]
    pub fn harvest(&self, run: &RunId) -> PathBuf {
        self.run(run).join("harvest")
    }

    /// Named workspaces.
    #[must_use]
    pub fn workspaces(&self) -> PathBuf {
        self.path.join("workspaces")
    }

    /// One named workspace.
    #[must_use]
    pub fn workspace(&self, name: &Name) -> PathBuf {
        self.workspaces().join(name)
    }

    /// Workspace that dies with its run.
    #[must_use]
    pub fn run_workspace(&self, run: &RunId) -> PathBuf {
        self.run(run).join("workspace")
    }

    /// Private state of a run, which its sandbox writes; removed with the sandbox.
    #[must_use]
    pub fn run_state(&self, run: &RunId) -> PathBuf {
        self.run(run).join("private")
    }

    /// What the adapter of a run wrote to standard output.
    #[must_use]
    pub fn run_stdout(&self, run: &RunId) -> PathBuf {
        self.run(run).join("stdout.txt")
    }

    /// What the adapter of a run wrote to standard error.
    #[must_use]
    pub fn run_stderr(&self, run: &RunId) -> PathBuf {
        self.run(run).join("stderr.txt")
    }

    /// What the runner keeps of an execution until its end is reported.
    #[must_use]
    pub fn execution(&self, run: &RunId) -> PathBuf {
        self.state_of(Service::Runner).join(run)
    }

    /// Adapter sessions.
    #[must_use]
    pub fn sessions(&self) -> PathBuf {
        self.path.join("sessions")
    }

    /// One adapter session.
    #[must_use]
    pub fn session(&self, name: &Name) -> PathBuf {
        self.sessions().join(name)
    }

    /// Adapters of one's own.
    #[must_use]
    pub fn adapters(&self) -> PathBuf {
        self.path.join("adapters")
    }

    /// What launcher and runner keep for themselves; never mounted into a sandbox.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.path.join("state")
    }

    /// What one service keeps for itself.
    #[must_use]
    pub fn state_of(&self, service: Service) -> PathBuf {
        self.state().join(service.name())
    }

    /// What the launcher is about to remove, until it is gone: names of parts of runs, and sessions themselves.
    #[must_use]
    pub fn removing(&self) -> PathBuf {
        self.state_of(Service::Launcher).join("removing")
    }

    /// What the launcher keeps of the project whose root has this digest: its mirror of it, and its indexes of clones.
    #[must_use]
    pub fn checkout_state(&self, root: &Digest) -> PathBuf {
        self.state_of(Service::Launcher).join("projects").join(&root.as_str()[..16])
    }

    /// Results of integrations, while they are checked and handed out.
    #[must_use]
    pub fn integrations(&self) -> PathBuf {
        self.state_of(Service::Launcher).join("integrations")
    }

    /// The copy of the shim with this digest.
    #[must_use]
    pub fn shim(&self, digest: &Digest) -> PathBuf {
        self.state().join("shim").join(digest)
    }

    /// True for the file that says that this is a data root.
    #[must_use]
    pub fn is_marker(&self, path: &Path) -> bool {
        path == self.path.join(MARKER)
    }

    /// Everything that Mosaic itself has put here, in the order in which it can be removed: the ledger knows of the rest
    /// until it is gone, and the locks go last. `adapters/` is not among them: people have written what is there.
    #[must_use]
    pub fn own_directories(&self) -> [PathBuf; 7] {
        [
            self.runs(),
            self.workspaces(),
            self.sessions(),
            self.state(),
            self.broker(),
            self.credentials(),
            self.run_dir(),
        ]
    }

    /// Tokens and their hashes.
    #[must_use]
    pub fn credentials(&self) -> PathBuf {
        self.path.join("credentials")
    }
}

/// Checks a path before anything is made there.
///
/// # Errors
/// When it is relative, or too long for sockets below it.
pub fn check_path(path: &Path) -> Result<(), DataRootError> {
    if !path.is_absolute() {
        return Err(DataRootError::NotAbsolute { path: path.into() });
    }
    let bytes = path.as_os_str().len() + "/run/launcher.sock".len();
    if bytes > SOCKET_PATH_BYTES {
        return Err(DataRootError::TooLong { path: path.into(), bytes });
    }
    Ok(())
}

/// Makes the data root's own directory when it is missing; one that exists keeps its mode.
fn private_parent(path: &Path) -> Result<(), DataRootError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(DataRootError::io("create", path))
}

/// Marks an empty directory as ours. Several processes may do so at once: whoever finds it marked goes on.
fn mark(path: &Path) -> Result<(), DataRootError> {
    let marker = path.join(MARKER);
    let is_empty = fs::read_dir(path).map_err(DataRootError::io("read", path))?.next().is_none();
    if !is_empty {
        return if marker.exists() { Ok(()) } else { Err(DataRootError::NotOurs { path: path.into() }) };
    }
    let write = || -> std::io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&marker)?;
        std::io::Write::write_all(&mut file, MARKER_TEXT.as_bytes())
    };
    write().map_err(DataRootError::io("write", &marker))
}

/// Makes `path` a real directory of mode 0700 that belongs to `uid`.
fn private_directory(path: &Path, uid: u32) -> Result<(), DataRootError> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(DataRootError::io("create", path)(error)),
    }
    let metadata = fs::symlink_metadata(path).map_err(DataRootError::io("read", path))?;
    if !metadata.is_dir() || metadata.uid() != uid {
        return Err(DataRootError::NotPrivate { path: path.into(), uid });
    }
    if metadata.permissions().mode() & 0o777 != 0o700 {
        let mode = fs::Permissions::from_mode(0o700);
        fs::set_permissions(path, mode).map_err(DataRootError::io("set the mode of", path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_or_missing_directory_becomes_a_data_root_and_any_other_is_refused() {
        let scratch = tempfile::tempdir().expect("scratch");
        let fresh = scratch.path().join("a/b");
        DataRoot::create_or_open(&fresh).expect("a missing one is made");
        DataRoot::create_or_open(&fresh).expect("it is ours afterwards");

        let foreign = scratch.path().join("foreign");
        fs::create_dir(&foreign).expect("directory");
        fs::write(foreign.join("thesis.tex"), "precious").expect("file");
        assert!(matches!(DataRoot::create_or_open(&foreign), Err(DataRootError::NotOurs { .. })));
        assert_eq!(fs::read_dir(&foreign).expect("readable").count(), 1, "nothing was added");
    }

    #[test]
    fn relative_and_too_long_paths_are_refused() {
        assert!(matches!(DataRoot::open(Path::new("data")), Err(DataRootError::NotAbsolute { .. })));
        let long = PathBuf::from(format!("/{}", "x".repeat(100)));
        assert!(matches!(DataRoot::open(&long), Err(DataRootError::TooLong { .. })));
    }

    #[test]
    fn a_run_directory_that_is_a_link_is_refused() {
        let scratch = tempfile::tempdir().expect("scratch");
        let path = scratch.path().join("data");
        DataRoot::create_or_open(&path).expect("made");
        fs::remove_dir_all(path.join("run")).expect("removed");
        std::os::unix::fs::symlink(scratch.path(), path.join("run")).expect("link");
        assert!(matches!(DataRoot::create_or_open(&path), Err(DataRootError::NotPrivate { .. })));
    }
}
