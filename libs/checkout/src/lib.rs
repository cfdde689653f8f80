//! Guarded checkouts: clones that agents have written to, looked at and brought up to date without trusting them.
//!
//! Invariants:
//! - Nothing that an agent wrote is executed. Host git runs with a git directory of the host's own; the clone's configuration,
//!   index, refs and objects are read by the small parsers of this crate, or not at all.
//! - Nothing is written before the verdict is known, and a clone that is not brought up to date stays exactly as it is.
//! - Every read is bounded in size, count, depth and time, and follows no link.
//! - Whatever meets an agent's files is contained, and what is written among them is written by a contained child under the uid
//!   that owns them.
//! - The root is never written.
//! - A host that is killed at any moment leaves what the next checkout finishes or undoes, after all that it had started is gone.
//!
//! They hold only while no process of the workspace is alive: the caller sees to that.

mod advance;
pub mod at;
mod distrust;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod git;
mod harvest;
mod integrate;
mod journal;
mod locate;
mod look;
mod make;
mod mirror;
pub mod parse;
mod recover;
mod settings;
mod shadow;
mod tree;
mod verdict;
mod worktree;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub use distrust::distrusted;
pub use git::{Containment, Failed};
pub use harvest::{About, HarvestLimits, HarvestRequest, harvest, tree_identity};
pub use integrate::{IntegrateError, Integrated, Onto, Place, RESULT, Recorded, check_out, integrate};
use journal::{Journal, journal_path};
pub use locate::locate;
pub use mirror::MirrorError;
use mirror::{Mirror, Tip, make_directory, write_global};
use mosaic_ids::Digest;
use mosaic_record::Distrusted;
use parse::{ObjectId, parse_index};
use shadow::Shadow;
use tree::{Changes, Tree, TreeError};
pub use verdict::{Checkout, Kept, Reason, Verdict};

/// A checkout that is wanted.
#[derive(Debug, Clone)]
pub struct Request {
    /// The clone; what is before its last component is the caller's own.
    pub clone: PathBuf,
    /// Top directory of the project's root.
    pub root: PathBuf,
    /// Branch of the root; the one that it has checked out when absent.
    pub branch: Option<String>,
    /// The host's own directory for this project, outside of every workspace and on its file system.
    pub state: PathBuf,
    /// Absolute path of git.
    pub git: PathBuf,
    /// Uid that owns the clone, and that contained programs run under.
    pub owner: u32,
    /// What contains git; without it nothing is brought up to date.
    pub containment: Option<Containment>,
}

/// Says what a checkout would do, and touches nothing of clone and root.
///
/// # Errors
/// When the root can't be read, or the host's own state can't be used.
pub fn inspect(request: &Request) -> Result<Checkout, MirrorError> {
    step(request, false)
}

/// Makes the clone when there is none, brings it to the root's tip when it is clean, or leaves it exactly as it is.
///
/// # Errors
/// When there is no clone and none can be made; nothing is left then. When the host's own state can't be used.
pub fn sync(request: &Request) -> Result<Checkout, MirrorError> {
    step(request, true)
}

fn step(request: &Request, act: bool) -> Result<Checkout, MirrorError> {
    let missing = is_missing(&request.clone);
    match attempt(request, missing, act) {
        // A clone that is there is never the reason why a run does not begin.
        Err(error) if !missing => {
            let reason = match error {
                MirrorError::NoBranch { .. } | MirrorError::UnknownBranch { .. } => Reason::NoBranch,
                _ => Reason::GitFailed,
            };
            let found = Found::before_all(request);
            Ok(told(&Kept::asked(reason, in_full(&error)), None, found))
        }
        result => result,
    }
}

fn attempt(request: &Request, missing: bool, act: bool) -> Result<Checkout, MirrorError> {
    make_directory(&request.state)?;
    let global = write_global(&request.state, &request.root)?;
    let git = git::Git { program: &request.git, global: &global };
    let mirror = Mirror::open(git, &request.state, &request.root)?;
    let own = own_state(request);
    let tip = mirror.tip(request.branch.as_deref())?;
    if missing {
        if act {
            Journal::remove(&journal_path(&own))?;
            mirror.fetch(&tip)?;
            make::make(&mirror, request, &tip)?;
        }
        return Ok(reached(Verdict::Cloned, &tip, Found::default()));
    }
    let mut seen = None;
    let stopped = bring(&mirror, request, &own, &tip, act, &mut seen).err();
    // A clone that was not looked at to the end was not touched either.
    let found = seen.unwrap_or_else(|| Found::before_all(request));
    Ok(match stopped {
        None => reached(Verdict::FastForwarded, &tip, found),
        Some(Stopped::Kept(kept)) => told(&kept, Some(&tip), found),
        Some(Stopped::Host(error)) => told(&Kept::asked(Reason::GitFailed, in_full(&error)), Some(&tip), found),
    })
}

/// What was seen of a clone before anything was decided.
#[derive(Debug, Default)]
struct Found {
    /// The commit that it is at.
    base: Option<ObjectId>,
    /// What is not trusted.
    distrusted: Vec<Distrusted>,
}

/// An error with what caused it, as people may read it.
fn in_full(error: &MirrorError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    at::shown(text.as_bytes())
}

impl Found {
    /// In a clone that was not looked at to the end.
    fn before_all(request: &Request) -> Self {
        Self { base: None, distrusted: distrust::look_over(&request.clone, Some(&request.root), false) }
    }
}

/// Where the host keeps what it knows of one clone.
fn own_state(request: &Request) -> PathBuf {
    let key = Digest::of(request.clone.as_os_str().as_encoded_bytes());
    request.state.join("clones").join(&key.as_str()[..16])
}

/// Why a clone was not brought to the tip.
enum Stopped {
    Kept(Kept),
    Host(MirrorError),
}

impl From<Kept> for Stopped {
    fn from(kept: Kept) -> Self {
        Self::Kept(kept)
    }
}

impl From<MirrorError> for Stopped {
    fn from(error: MirrorError) -> Self {
        Self::Host(error)
    }
}

impl From<TreeError> for Stopped {
    fn from(error: TreeError) -> Self {
        match error {
            TreeError::Git(failed) => Self::Host(failed.into()),
            malformed => Self::Kept(Kept::asked(Reason::GitFailed, malformed.to_string())),
        }
    }
}

/// Decides whether the clone may be moved to the tip, and moves it when `act` says so. Notes what it
/// has `seen` of one that is in order.
fn bring(
    mirror: &Mirror<'_>,
    request: &Request,
    own: &Path,
    tip: &Tip,
    act: bool,
    seen: &mut Option<Found>,
) -> Result<(), Stopped> {
    let journal = mend(mirror, request, own, act)?;
    let expected = look::Expected { owner: request.owner, root: &request.root, branch: &tip.branch, ours: None };
    let clone = look::look(&request.clone, expected)?;
    let shadow = shadow(mirror, request, own);
    // What the root has become is asked while the clone is looked through: neither needs the other.
    let (news, looked) = std::thread::scope(|threads| {
        let news = threads.spawn(|| {
            let distrusted = distrust::look_over(&request.clone, Some(&request.root), true);
            (News::of(mirror, clone.base, tip), distrusted)
        });
        let looked = shadow.as_ref().map(|shadow| look_through(mirror, request, shadow, &clone));
        (news.join(), looked)
    });
    let (news, distrusted) = news.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    *seen = Some(Found { base: Some(clone.base), distrusted });
    let news = news?;
    if !news.is_ancestor {
        let detail = format!("its commit {} is not in the root's history", clone.base);
        return Err(Kept::asked(Reason::NotFastForward, detail).into());
    }
    let looked = looked.ok();
    let shadow = shadow?;
    let tree = match looked {
        Some(Ok(tree)) if !news.anew => tree,
        Some(Err(Stopped::Kept(kept))) if !news.anew => return Err(kept.into()),
        // The mirror did not have the clone's commit yet, or changed places under it.
        _ => look_through(mirror, request, &shadow, &clone)?,
    };
    if clone.base == tip.commit {
        return Ok(());
    }
    worktree::check_room(&clone.top, &tree, &news.changes, request.owner)?;
    if act {
        advance::advance(&shadow, &journal, &tip.branch, (clone.base, tip.commit))?;
    }
    Ok(())
}

/// What the root has become since a commit.
struct News {
    /// True when the mirror was made anew.
    anew: bool,
    /// True when the commit is in the history of the root's tip.
    is_ancestor: bool,
    /// What has changed between the two.
    changes: Changes,
}

impl News {
    fn of(mirror: &Mirror<'_>, base: ObjectId, tip: &Tip) -> Result<Self, Stopped> {
        let anew = mirror.fetch(tip)?;
        let is_ancestor = mirror.is_ancestor(base, tip.commit)?;
        let changes = match is_ancestor && base != tip.commit {
            true => Changes::between(mirror, base, tip.commit)?,
            false => Changes::default(),
        };
        Ok(Self { anew, is_ancestor, changes })
    }
}

/// Looks through index and work tree of a clone; they must be what its commit holds. Returns what that is.
fn look_through(
    mirror: &Mirror<'_>,
    request: &Request,
    shadow: &Shadow<'_>,
    clone: &look::Clone,
) -> Result<Tree, Stopped> {
    let tree = Tree::of(mirror, clone.base)?;
    check_index(clone, &tree)?;
    let walked = worktree::walk(&clone.top, &[&tree], request.owner, request.clone.as_os_str().len())?;
    check_large(mirror, &tree, &walked.large)?;
    check_clean(shadow, clone.base, &walked.nested)?;
    Ok(tree)
}

/// Undoes what an update that was cut short has left in the clone. Returns where the journal is.
fn mend(mirror: &Mirror<'_>, request: &Request, own: &Path, act: bool) -> Result<PathBuf, Stopped> {
    let path = journal_path(own);
    let Some(journal) = Journal::read(&path)? else { return Ok(path) };
    if recover::is_pending(&request.clone, &journal) {
        if !act {
            let detail = "an update was cut short; the next checkout undoes it";
            return Err(Kept::asked(Reason::GitBusy, detail).into());
        }
        let branch = &journal.branch;
        let expected = look::Expected { owner: request.owner, root: &request.root, branch, ours: None };
        recover::recover(&shadow(mirror, request, own)?, &journal, expected)?;
    }
    Journal::remove(&path)?;
    Ok(path)
}

fn shadow<'a>(mirror: &'a Mirror<'_>, request: &'a Request, own: &Path) -> Result<Shadow<'a>, Stopped> {
    let Some(containment) = &request.containment else {
        let detail = "nothing contains git here: install bubblewrap";
        return Err(Kept::asked(Reason::GitFailed, detail).into());
    };
    let shadow = Shadow::new(own, &request.clone, mirror, (containment, request.owner));
    shadow.prepare()?;
    Ok(shadow)
}

/// Has git compare the work tree with `base`; it must find nothing, and have nothing to say.
fn check_clean(shadow: &Shadow<'_>, base: ObjectId, nested: &[Vec<u8>]) -> Result<(), Kept> {
    let failed = |words: String| Kept::asked(Reason::GitFailed, words);
    let found = shadow.status(base).map_err(|error| failed(error.to_string()))?;
    let mut paths = found.bytes.split(|byte| *byte == 0).filter(|line| !line.is_empty());
    if let Some(first) = paths.next() {
        let (count, first) = (1 + paths.count(), at::shown(first.get(3..).unwrap_or_default()));
        return Err(Kept::asked(Reason::Dirty, format!("{count} path(s) differ, the first is `{first}`")));
    }
    if !found.words.is_empty() {
        return Err(failed(format!("git complains: {}", found.words)));
    }
    let hidden = shadow.not_ignored(nested).map_err(|error| failed(error.to_string()))?;
    match hidden.first() {
        None => Ok(()),
        Some(path) => {
            let detail = format!("`{}` has a `.git` that git passes over", at::shown(path));
            Err(Kept::asked(Reason::HiddenChanges, detail))
        }
    }
}

fn check_index(clone: &look::Clone, tree: &Tree) -> Result<(), Kept> {
    let content = clone.git.read(OsStr::new("index"), look::INDEX_BYTES);
    let content = content.map_err(|fault| Kept::asked(Reason::Dirty, format!("`.git/index` {fault}")))?;
    let index = parse_index(&content);
    let index = index.map_err(|malformed| Kept::asked(Reason::HiddenChanges, format!("`.git/index` {malformed}")))?;
    if index.partial {
        return Err(Kept::asked(Reason::HiddenChanges, "`.git/index` does not say everything that is staged"));
    }
    if tree.is_staged_by(&index) {
        return Ok(());
    }
    Err(Kept::asked(Reason::Dirty, "what is staged is not what its commit holds"))
}

/// Files that are much larger than what they are of are changed, whatever their stat data say; git need not hash them.
fn check_large(mirror: &Mirror<'_>, tree: &Tree, large: &[worktree::Large]) -> Result<(), Stopped> {
    for worktree::Large { path, size } in large {
        let Some(entry) = tree.file(path) else { continue };
        let asked = mirror.asked(&["cat-file", "-s", &entry.id.to_string()]).map_err(MirrorError::from)?;
        let tracked: u64 = String::from_utf8_lossy(&asked).trim().parse().unwrap_or(0);
        // Line ends and encodings at most double a file.
        if *size > tracked.saturating_mul(4).saturating_add(1024 * 1024) {
            let detail = format!("`{}` is larger than what is tracked", at::shown(path));
            return Err(Kept::asked(Reason::Dirty, detail).into());
        }
    }
    Ok(())
}

/// True when nothing has the clone's name, not even a link that leads nowhere.
fn is_missing(clone: &Path) -> bool {
    matches!(clone.symlink_metadata(), Err(error) if error.kind() == std::io::ErrorKind::NotFound)
}

fn reached(verdict: Verdict, tip: &Tip, found: Found) -> Checkout {
    Checkout {
        verdict,
        reason: None,
        detail: String::new(),
        branch: Some(tip.branch.clone()),
        base: found.base.map(|base| base.to_string()),
        tip: Some(tip.commit.to_string()),
        tree: Some(tip.tree.to_string()),
        distrusted: found.distrusted,
    }
}

fn told(kept: &Kept, tip: Option<&Tip>, found: Found) -> Checkout {
    Checkout {
        verdict: kept.verdict(),
        reason: Some(kept.reason),
        detail: kept.detail.clone(),
        branch: tip.map(|tip| tip.branch.clone()),
        base: found.base.map(|base| base.to_string()),
        tip: tip.map(|tip| tip.commit.to_string()),
        tree: None,
        distrusted: found.distrusted,
    }
}
