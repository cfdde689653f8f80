//! The host's own copy of a root: a bare repository without a remote, which alone is asked what the root's history and trees
//! are.

use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::git::{Failed, Git, busy_path};
use crate::parse::{ObjectId, is_branch_name};

/// How long a checkout waits for others of its project.
const LOCK_TIME: Duration = Duration::from_secs(600);
/// Packs of a mirror from which on they are put into one.
const PACKS: usize = 40;

/// Why the host's own state of a project can't be used.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// A file of it can't be used.
    #[error("can't {action} `{}`", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The root is no repository that can be read.
    #[error("the root `{}` can't be read", root.display())]
    Root {
        /// The root.
        root: PathBuf,
        /// What git said.
        source: Failed,
    },
    /// The root has no branch checked out.
    #[error("the root `{}` has no branch checked out; check one out there", root.display())]
    NoBranch {
        /// The root.
        root: PathBuf,
    },
    /// The root has no such branch.
    #[error("the root `{}` has no branch `{branch}`", root.display())]
    UnknownBranch {
        /// The root.
        root: PathBuf,
        /// What was asked for; without control characters.
        branch: String,
    },
    /// Git failed on the host's own repositories.
    #[error(transparent)]
    Git(#[from] Failed),
}

impl MirrorError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// The state of one project on this host, locked for one checkout at a time.
#[derive(Debug)]
pub(crate) struct Mirror<'a> {
    /// Git with the trust that this root needs.
    pub(crate) git: Git<'a>,
    /// The bare repository.
    pub(crate) path: PathBuf,
    root: &'a Path,
    _lock: Flock<std::fs::File>,
}

/// Where a root is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tip {
    /// Its branch.
    pub(crate) branch: String,
    /// The commit of that branch.
    pub(crate) commit: ObjectId,
    /// The tree of that commit.
    pub(crate) tree: ObjectId,
}

/// Writes the configuration that trusts roots of other users, and nothing else (git-config(1), `safe.directory`).
pub(crate) fn write_global(state: &Path, root: &Path) -> Result<PathBuf, MirrorError> {
    make_directory(state)?;
    let path = state.join("gitconfig");
    let quoted = |path: &Path| path.display().to_string().replace('\\', "\\\\").replace('"', "\\\"");
    // The mirror is the host's, and seen by another uid when a clone is made of it.
    let trusted = [root.to_owned(), root.join(".git"), state.join("mirror.git"), PathBuf::from("/mirror")];
    let lines: String = trusted.iter().map(|path| format!("\tdirectory = \"{}\"\n", quoted(path))).collect();
    let text = format!("[safe]\n{lines}");
    if std::fs::read_to_string(&path).is_ok_and(|found| found == text) {
        return Ok(path);
    }
    // Several checkouts of one project may come here at once: each has a name of its own.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let temporary = state.join(format!("gitconfig.{}.{number}", std::process::id()));
    std::fs::write(&temporary, text).map_err(MirrorError::io("write", &temporary))?;
    // Read under another uid, whatever this process's mask is; the directory above is private.
    let readable = std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(0o644));
    readable.map_err(MirrorError::io("set the mode of", &temporary))?;
    std::fs::rename(&temporary, &path).map_err(MirrorError::io("write", &path))?;
    Ok(path)
}

/// Waits for the lock of a project, for as long as others may hold it.
fn lock(path: &Path) -> Result<Flock<std::fs::File>, MirrorError> {
    let mut options = std::fs::OpenOptions::new();
    let file = options.create(true).truncate(false).write(true).mode(0o600).open(path);
    let mut file = file.map_err(MirrorError::io("open", path))?;
    let deadline = Instant::now() + LOCK_TIME;
    let mut pause = Duration::from_millis(1);
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((unlocked, Errno::EWOULDBLOCK)) if Instant::now() < deadline => file = unlocked,
            Err((_, errno)) => return Err(MirrorError::io("lock", path)(errno.into())),
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// True when git says that there is no such branch, or that it has no commit.
fn is_unborn(words: &str) -> bool {
    words.contains("unknown revision") || words.contains("ambiguous argument")
}

fn remove_if_there(path: &Path) -> Result<(), MirrorError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(MirrorError::io("remove", path)),
    }
}

pub(crate) fn make_directory(path: &Path) -> Result<(), MirrorError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(MirrorError::io("create", path))
}

impl<'a> Mirror<'a> {
    /// Opens the mirror of `root` below `state`, makes it when it is missing, and waits for whoever uses it.
    pub(crate) fn open(git: Git<'a>, state: &Path, root: &'a Path) -> Result<Self, MirrorError> {
        let own = lock(&state.join("lock"))?;
        // What a host that was killed had started may still be at work.
        drop(lock(&busy_path(state))?);
        // Left by whoever was killed while it held the lock.
        for left in ["stage", "mirror.new"] {
            remove_if_there(&state.join(left))?;
        }
        let mirror = Self { git, path: state.join("mirror.git"), root, _lock: own };
        if !mirror.path.join("HEAD").exists() {
            let made = mirror.make()?;
            mirror.place(&made)?;
        }
        Ok(mirror)
    }

    /// Makes an empty mirror beside the place of the mirror.
    fn make(&self) -> Result<PathBuf, Failed> {
        let stage = self.path.with_extension("new");
        self.git.trusted(&["init", "--quiet", "--bare", "--template=", &stage.to_string_lossy()], b"")?;
        Ok(stage)
    }

    /// Puts a mirror that was made in the place of the mirror.
    fn place(&self, stage: &Path) -> Result<(), MirrorError> {
        remove_if_there(&self.path)?;
        std::fs::rename(stage, &self.path).map_err(MirrorError::io("create", &self.path))
    }

    /// Where the root is; `branch` instead of the one that it has checked out.
    pub(crate) fn tip(&self, branch: Option<&str>) -> Result<Tip, MirrorError> {
        let root = self.root.to_string_lossy();
        let no_branch = || {
            let root = self.root.to_owned();
            match branch {
                Some(branch) => MirrorError::UnknownBranch { root, branch: crate::at::shown(branch.as_bytes()) },
                None => MirrorError::NoBranch { root },
            }
        };
        // In one go: the branch that is checked out, its commit and that one's tree.
        let named = branch.map_or_else(|| "HEAD".to_owned(), |branch| format!("refs/heads/{branch}"));
        let (commit, tree) = (format!("{named}^{{commit}}"), format!("{named}^{{tree}}"));
        let asked = ["-C", &root, "rev-parse", &commit, &tree, "--symbolic-full-name", &named];
        let told = match self.git.trusted(&asked, b"") {
            Ok(told) => told,
            Err(Failed::Exit { ref words, .. }) if is_unborn(words) => return Err(no_branch()),
            Err(source) => return Err(MirrorError::Root { root: self.root.to_owned(), source }),
        };
        let mut told = told.split(|byte| *byte == b'\n');
        let mut id = || told.next().and_then(ObjectId::from_hex).ok_or_else(no_branch);
        let (commit, tree) = (id()?, id()?);
        let name = told.next().map(String::from_utf8_lossy).unwrap_or_default();
        let branch = name.strip_prefix("refs/heads/").filter(|branch| is_branch_name(branch.as_bytes()));
        Ok(Tip { branch: branch.ok_or_else(no_branch)?.to_owned(), commit, tree })
    }

    /// Brings the branch of the root into the mirror. Nothing of the root is written.
    ///
    /// What a killed git or a cut power supply has left in the mirror is no reason to fail: it is made anew then. Says whether it
    /// was.
    pub(crate) fn fetch(&self, tip: &Tip) -> Result<bool, MirrorError> {
        let kept = self.path.join("refs/heads").join(&tip.branch);
        if std::fs::read(&kept).is_ok_and(|id| id.trim_ascii_end() == tip.commit.to_string().as_bytes()) {
            return Ok(false);
        }
        let mut anew = false;
        if let Err(error) = self.fetch_into(&self.path, tip) {
            anew = true;
            tracing::warn!(%error, "The mirror of a root does not take its branch; it is made anew");
            let made = self.make()?;
            let fetched = self.fetch_into(&made, tip).map_err(MirrorError::from).and_then(|()| self.place(&made));
            if fetched.is_err() {
                remove_if_there(&made)?;
            }
            fetched?;
        }
        self.tidy();
        Ok(anew)
    }

    fn fetch_into(&self, mirror: &Path, tip: &Tip) -> Result<(), Failed> {
        let refspec = format!("+refs/heads/{0}:refs/heads/{0}", tip.branch);
        let (mirror, root) = (mirror.to_string_lossy(), self.root.to_string_lossy());
        // One pack a fetch, so that there are never many files; what the power supply takes is fetched again.
        let mut arguments = vec!["-c", "fetch.unpackLimit=1", "-c", "core.fsync=none", "--git-dir", &*mirror];
        arguments.extend(["fetch", "--quiet", "--no-tags", "--no-auto-maintenance", "--no-recurse-submodules"]);
        arguments.extend(["--no-write-fetch-head", "--end-of-options", &*root, &*refspec]);
        self.git.trusted(&arguments, b"").map(drop)
    }

    /// Keeps the number of packs small. What is not reached any more stays: a clone may be at it.
    fn tidy(&self) {
        let packs = std::fs::read_dir(self.path.join("objects/pack")).map_or(0, Iterator::count) / 2;
        if packs > PACKS
            && let Err(error) = self.asked(&["repack", "-a", "-d", "-k", "--quiet"])
        {
            tracing::warn!(%error, "Could not repack the mirror of a root");
        }
    }

    /// True when `ancestor` is `commit` or in its history, as the mirror knows it.
    pub(crate) fn is_ancestor(&self, ancestor: ObjectId, commit: ObjectId) -> Result<bool, MirrorError> {
        if ancestor == commit {
            return Ok(true);
        }
        let (ancestor, commit) = (ancestor.to_string(), commit.to_string());
        match self.asked(&["merge-base", "--is-ancestor", &ancestor, &commit]) {
            Ok(_) => Ok(true),
            // Not an ancestor, or a commit that the mirror does not have.
            Err(Failed::Exit { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks the mirror.
    pub(crate) fn asked(&self, arguments: &[&str]) -> Result<Vec<u8>, Failed> {
        self.asked_with(arguments, b"")
    }

    /// Asks the mirror, with `input` on standard input.
    pub(crate) fn asked_with(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, Failed> {
        let mirror = self.path.to_string_lossy();
        let mut all = vec!["--git-dir", &*mirror];
        all.extend_from_slice(arguments);
        self.git.trusted(&all, input)
    }
}
