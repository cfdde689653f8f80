//! Putting work that was taken out of a clone onto its root's branch: in a repository of the host's own, in a box. The root is
//! only read; what it is to have comes out as a bundle with one commit for a person to fetch.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mosaic_ids::Digest;
use mosaic_record::FileChange;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::at::{Directory, shown};
use crate::git::{Containment, Failed, Git};
use crate::harvest::repository::{Bench, Repository};
use crate::harvest::{About, WORK, diff, file_change, message, text, written};
use crate::mirror::{Mirror, MirrorError, write_global};
use crate::parse::{ObjectId, is_branch_name};

/// How long the gits of one call may take together.
const TIME: Duration = Duration::from_secs(300);
/// Ref of the one commit of a bundle that a person fetches.
pub const RESULT: &str = "refs/mosaic/result";
/// Most paths of a conflict that are told.
const CONFLICTS: usize = 1000;

/// Where the host keeps what it knows of a root, and what it works with.
#[derive(Debug, Clone)]
pub struct Place {
    /// Top directory of the root.
    pub root: PathBuf,
    /// The host's own directory for this project, as at the checkout.
    pub state: PathBuf,
    /// Absolute path of git.
    pub git: PathBuf,
    /// Uid that contained programs run under.
    pub owner: u32,
    /// What contains git; without it nothing is done.
    pub containment: Option<Containment>,
}

/// Work, as a harvest recorded it.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The bundle: a file of the host's own, whose digest was checked.
    pub bundle: PathBuf,
    /// Commit of the root's that the work is based on.
    pub base: String,
    /// Commit that holds the work.
    pub commit: String,
    /// Its tree.
    pub tree: String,
    /// What its run was.
    pub about: About,
}

/// What the work is put onto.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Onto {
    /// The tip of this branch of the root; of the one that it has checked out when absent.
    Tip(Option<String>),
    /// The commit that it is based on: it comes out as it was taken.
    Base,
}

/// Work on a root's branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Integrated {
    /// Branch of the root; absent where the work is on its base.
    pub branch: Option<String>,
    /// Commit of the root's that the result is on.
    pub onto: String,
    /// The result: one commit on `onto`. The recorded commit itself when that is on `onto`.
    pub tip: String,
    /// Its tree.
    pub tree: String,
    /// Files that differ from `onto`.
    pub files: Vec<FileChange>,
    /// Digest of the bundle that was written.
    pub bundle_digest: Digest,
    /// Its size.
    pub bundle_bytes: u64,
}

/// Why work can't be put onto a branch.
#[derive(Debug, thiserror::Error)]
pub enum IntegrateError {
    /// What is in the bundle is not what was recorded, or git refuses its objects.
    #[error("the recorded bundle can't be used: {0}")]
    Damaged(String),
    /// Both sides changed these paths.
    #[error("{} path(s) changed on both sides, the first is `{}`", paths.len(), paths.first().map_or("", String::as_str))]
    Conflicts {
        /// The paths, as people may read them.
        paths: Vec<String>,
    },
    /// The branch has all of it already.
    #[error("there is nothing to apply: the branch has all of it")]
    Nothing,
    /// The root can't be read, or the host's own state can't be used.
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    /// A file of the host's own can't be used.
    #[error("can't use a file of the host's own")]
    Io(#[from] std::io::Error),
}

impl From<Failed> for IntegrateError {
    fn from(failed: Failed) -> Self {
        Self::Mirror(failed.into())
    }
}

/// Puts recorded work onto the root's branch, three-way where that has moved, and writes the result to the new file `out`, a
/// bundle whose one ref is [`RESULT`].
///
/// # Errors
/// When it can't be put there; nothing is left then.
pub fn integrate(place: &Place, recorded: &Recorded, onto: &Onto, out: &Path) -> Result<Integrated, IntegrateError> {
    with_repository(place, recorded.about.finished_at, |mirror, repository| {
        let (branch, onto) = match onto {
            Onto::Base => (None, recorded.base.clone()),
            Onto::Tip(branch) => {
                let tip = mirror.tip(branch.as_deref())?;
                mirror.fetch(&tip)?;
                (Some(tip.branch), tip.commit.to_string())
            }
        };
        receive(repository, recorded)?;
        let tip = if onto == recorded.base { recorded.commit.clone() } else { merge(repository, &onto, recorded)? };
        let tree = rev_parse(repository, &format!("{tip}^{{tree}}"))?;
        let files = diff::between(repository, &onto, &tip)?.iter().map(file_change).collect();
        repository.git(&["update-ref", RESULT, &tip], b"")?;
        let seen = repository.seen("out/result.bundle");
        let line = ["bundle", "create", "--version=2", "--quiet", &seen, "--stdin"];
        repository.git(&line, format!("{RESULT}\n^{onto}\n").as_bytes())?;
        let directory = Directory::open(&repository.path().join("out")).map_err(std::io::Error::other)?;
        let (mut from, _) = directory.file("result.bundle".as_ref()).map_err(std::io::Error::other)?;
        let mut to = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(out)?;
        let (bundle_digest, bundle_bytes) = written::copy(&mut from, &mut to)?;
        Ok(Integrated { branch, onto, tip, tree, files, bundle_digest, bundle_bytes })
    })
}

/// Makes a fresh clone of the one commit of a bundle that [`integrate`] wrote, at `clone`, where nothing may be yet. It has no
/// remote and no other history than the commit's own.
///
/// # Errors
/// When it can't be made; nothing is left then.
pub fn check_out(place: &Place, bundle: &Path, tip: &str, branch: &str, clone: &Path) -> Result<(), IntegrateError> {
    let not = |what: &str| IntegrateError::Damaged(format!("`{}` is no {what}", shown(what.as_bytes())));
    let id = ObjectId::from_hex(tip.as_bytes()).ok_or_else(|| not("commit"))?.to_string();
    if !is_branch_name(branch.as_bytes()) {
        return Err(not("branch"));
    }
    with_repository(place, Timestamp::UNIX_EPOCH, |_, repository| {
        fetch(repository, bundle, RESULT)?;
        if rev_parse(repository, RESULT)? != id {
            return Err(IntegrateError::Damaged("it holds another commit".to_owned()));
        }
        let head = format!("refs/heads/{branch}");
        repository.git(&["update-ref", &head, &id], b"")?;
        repository.git(&["symbolic-ref", "HEAD", &head], b"")?;
        let (source, target) = (repository.seen(""), repository.seen("out/clone"));
        let line = ["clone", "--quiet", "--no-local", "--single-branch", "--no-tags", "--template="];
        // Nothing in it names a place of the host's.
        let rest = ["-c", "core.logAllRefUpdates=false", "--branch", branch, "--end-of-options", &source, &target];
        let line: Vec<&str> = line.into_iter().chain(rest).collect();
        repository.git_alone(&line)?;
        repository.git_alone(&["-C", &target, "remote", "remove", "origin"])?;
        let made = repository.path().join("out/clone");
        let renamed = renameat2(AT_FDCWD, &made, AT_FDCWD, clone, RenameFlags::RENAME_NOREPLACE);
        renamed.map_err(|errno| MirrorError::io("create", clone)(errno.into()))?;
        Ok(())
    })
}

/// Makes a repository that borrows the mirror's objects, and removes it afterwards.
fn with_repository<T>(
    place: &Place,
    date: Timestamp,
    work: impl FnOnce(&Mirror<'_>, &Repository<'_>) -> Result<T, IntegrateError>,
) -> Result<T, IntegrateError> {
    let Some(containment) = &place.containment else {
        let source = std::io::Error::other("nothing contains git here: install bubblewrap");
        return Err(Failed::Start { program: "git".to_owned(), source }.into());
    };
    let global = write_global(&place.state, &place.root)?;
    let git = Git { program: &place.git, global: &global };
    let mirror = Mirror::open(git, &place.state, &place.root)?;
    let path = place.state.join("integrate");
    written::remove(&path)?;
    let deadline = Instant::now() + TIME;
    let bench = Bench { mirror: &mirror, containment, owner: place.owner, deadline, date: date.as_second() };
    let done = Repository::make(path.clone(), bench, Vec::new(), None)
        .map_err(IntegrateError::from)
        .and_then(|repository| work(&mirror, &repository));
    if let Err(error) = written::remove(&path) {
        tracing::warn!(%error, "Could not remove what work was put together in");
    }
    done
}

/// Brings the work into the repository, and checks that it is what was recorded.
fn receive(repository: &Repository<'_>, recorded: &Recorded) -> Result<(), IntegrateError> {
    fetch(repository, &recorded.bundle, WORK)?;
    let found = [WORK.to_owned(), format!("{WORK}^{{tree}}"), format!("{WORK}^")];
    let expected = [&recorded.commit, &recorded.tree, &recorded.base];
    for (name, expected) in found.iter().zip(expected) {
        let id = rev_parse(repository, name)?;
        if id != *expected {
            return Err(IntegrateError::Damaged(format!("{name} is {id}, and {expected} was recorded")));
        }
    }
    Ok(())
}

/// Fetches one ref of a bundle. Every object is checked, and ids are computed anew.
fn fetch(repository: &Repository<'_>, bundle: &Path, name: &str) -> Result<(), IntegrateError> {
    let bundle = std::fs::File::open(bundle)?;
    repository.receive(bundle, |found| found == name).map_err(|failed| match failed {
        Failed::Exit { words, .. } => IntegrateError::Damaged(words),
        failed => failed.into(),
    })
}

fn rev_parse(repository: &Repository<'_>, name: &str) -> Result<String, IntegrateError> {
    let found = repository.git(&["rev-parse", "--verify", "--quiet", "--end-of-options", name], b"");
    let found = found.map_err(|_none| IntegrateError::Damaged(format!("it has no {name}")))?;
    Ok(text(&found.bytes))
}

/// One commit on `onto` with what the work changes. Nothing is written before it is known to go.
fn merge(repository: &Repository<'_>, onto: &str, recorded: &Recorded) -> Result<String, IntegrateError> {
    let line = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", onto, WORK];
    let tree = match repository.git_or(1, &line)? {
        (true, merged) => text(merged.split(|byte| *byte == 0).next().unwrap_or_default()),
        (false, conflict) => {
            let paths = conflict.split(|byte| *byte == 0).skip(1).filter(|path| !path.is_empty());
            let mut paths: Vec<String> = paths.take(CONFLICTS).map(shown).collect();
            paths.dedup();
            return Err(IntegrateError::Conflicts { paths });
        }
    };
    if tree == rev_parse(repository, &format!("{onto}^{{tree}}"))? {
        return Err(IntegrateError::Nothing);
    }
    let message = format!("{}Mosaic-Work: {}\n", message(&recorded.about), recorded.commit);
    let commit = ["commit-tree", &tree, "-p", onto, "-F", "-"];
    Ok(text(&repository.git(&commit, message.as_bytes())?.bytes))
}
