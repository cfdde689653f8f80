//! One harvest from beginning to end.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::time::{Duration, Instant};

use mosaic_record::{
    Distrust, Distrusted, FileChange, Flagged, Handoff, HarvestFailure, LeftOutEntry, LeftOutReason, Tip, Work,
};

use super::diff::{self, Delta};
use super::files::{self, LINK, Left, Opener};
use super::names::{self, Names};
use super::repository::{Bench, Repository};
use super::snapshots::{self, Ignored, Sorted};
use super::theirs::{self, Theirs, text};
use super::{About, HarvestRequest, NotTaken, flags, stream, written};
use crate::at::{Directory, Fault, shown};
use crate::git::{Git, Shown};
use crate::mirror::{Mirror, write_global};
use crate::parse::{Index, ObjectId};
use crate::tree::Tree;

/// How long the gits of one harvest may take together.
const TIME: Duration = Duration::from_secs(300);
/// Largest patch and bundle, in bytes, for each byte that a harvest may take; and what they may have beside that. Text that
/// was removed is in a patch as well.
const OUT_TIMES: u64 = 4;
const OUT_BESIDE: u64 = 64 * 1024 * 1024;
/// Ref of the commit that holds the work.
pub(crate) const WORK: &str = "refs/agent/work";

/// Takes the work out.
pub(super) fn work(request: &HarvestRequest, distrusted: &mut Vec<Distrusted>) -> Result<Work, NotTaken> {
    with_bench(request, |bench, clone, tip| {
        let taken = Taken::take(request, bench, clone, tip)?;
        let poisoned = |at: &String| Distrusted { what: Distrust::PoisonedObject, at: at.clone() };
        distrusted.extend(taken.theirs.damaged.iter().map(poisoned));
        taken.write(request, distrusted)
    })
}

/// Tells the identity of the tree.
pub(super) fn tree(request: &HarvestRequest) -> Result<String, NotTaken> {
    with_bench(request, |bench, clone, tip| {
        let repository = quarantine(request, bench)?;
        let base = clone.names.head.map_or(Ok(tip), |head| base_in_mirror(bench.mirror, head, tip))?;
        Ok(Snapshots::take(request, &repository, bench.mirror, clone, base)?.tree)
    })
}

/// A clone that is looked into.
struct Clone {
    top: Directory,
    names: Names,
    index: Option<Index>,
    /// True when its objects can be shown to a contained git.
    has_objects: bool,
}

/// Prepares what every harvest needs, and removes it afterwards.
fn with_bench<T>(
    request: &HarvestRequest,
    work: impl FnOnce(Bench<'_>, &Clone, ObjectId) -> Result<T, NotTaken>,
) -> Result<T, NotTaken> {
    let clone = open(request)?;
    let Some(containment) = &request.containment else {
        let detail = "nothing contains git here: install bubblewrap".to_owned();
        return Err(NotTaken { failure: HarvestFailure::GitFailed, detail });
    };
    let global = write_global(&request.state, &request.root)?;
    let git = Git { program: &request.git, global: &global };
    let mirror = Mirror::open(git, &request.state, &request.root)?;
    let tip = tip(&mirror, request)?;
    let place = request.state.join("harvest");
    written::remove(&place)?;
    let deadline = Instant::now() + TIME;
    let date = request.about.finished_at.as_second();
    let bench = Bench { mirror: &mirror, containment, owner: request.owner, deadline, date };
    let done = work(bench, &clone, tip);
    if let Err(error) = written::remove(&place) {
        tracing::warn!(%error, "Could not remove what a harvest was put together in");
    }
    done
}

fn open(request: &HarvestRequest) -> Result<Clone, NotTaken> {
    let not = |failure, detail: String| NotTaken { failure, detail };
    let top = Directory::open(&request.clone).map_err(|fault| match fault {
        Fault::Missing => not(HarvestFailure::WorkspaceMissing, "the clone is gone".to_owned()),
        Fault::NotPlain => not(HarvestFailure::NotAClone, "the clone is no directory".to_owned()),
        fault => not(HarvestFailure::Unreadable, format!("the clone {fault}")),
    })?;
    let status = top.status().map_err(|fault| not(HarvestFailure::Unreadable, format!("the clone {fault}")))?;
    if status.uid != request.owner {
        let detail = format!("the clone belongs to uid {}, not to uid {}", status.uid, request.owner);
        return Err(not(HarvestFailure::NotAClone, detail));
    }
    let git = top.child(OsStr::new(".git")).ok();
    let names = git.as_ref().map(names::collect).unwrap_or_default();
    let index = git.as_ref().and_then(theirs::index_of);
    let has_objects = git.as_ref().is_some_and(|git| git.child(OsStr::new("objects")).is_ok());
    Ok(Clone { top, names, index, has_objects })
}

/// The commit of the root's that the run began with; the one that the root is at when nobody knows it any more.
fn tip(mirror: &Mirror<'_>, request: &HarvestRequest) -> Result<ObjectId, NotTaken> {
    let known = request.tip.as_deref().and_then(|tip| ObjectId::from_hex(tip.as_bytes()));
    if let Some(tip) = known
        && mirror.asked(&["cat-file", "-e", &format!("{tip}^{{commit}}")]).is_ok()
    {
        return Ok(tip);
    }
    let tip = mirror.tip(None)?;
    mirror.fetch(&tip)?;
    Ok(tip.commit)
}

/// The commit that both histories have, when the mirror has both.
fn base_in_mirror(mirror: &Mirror<'_>, head: ObjectId, tip: ObjectId) -> Result<ObjectId, NotTaken> {
    let found = mirror.asked(&["merge-base", &head.to_string(), &tip.to_string()]);
    Ok(found.ok().and_then(|found| ObjectId::from_hex(found.trim_ascii_end())).unwrap_or(tip))
}

/// The repository that alone decides what was taken: every id in it is computed anew.
fn quarantine<'a>(request: &'a HarvestRequest, bench: Bench<'a>) -> Result<Repository<'a>, NotTaken> {
    let path = request.state.join("harvest/quarantine");
    Ok(Repository::make(path, bench, vec![shown_clone(request)], None)?)
}

fn shown_clone(request: &HarvestRequest) -> Shown<'_> {
    Shown { host: &request.clone, inside: "/clone", writable: false }
}

/// Snapshots of a work tree.
struct Snapshots {
    sorted: Sorted,
    /// The tree that a reviewer reads.
    tree: String,
}

impl Snapshots {
    fn take(
        request: &HarvestRequest,
        repository: &Repository<'_>,
        mirror: &Mirror<'_>,
        clone: &Clone,
        base: ObjectId,
    ) -> Result<Self, NotTaken> {
        let tree = Tree::of(mirror, base)?;
        let staged: HashSet<Vec<u8>> =
            clone.index.iter().flat_map(|index| &index.entries).map(|entry| entry.path.clone()).collect();
        let mut files = files::compare(&clone.top, &tree, &staged);
        let ask = files.rules_are_plain && files.changed.iter().any(|file| !file.tracked);
        let ignored = if ask { Ignored::ask(repository, &shown_clone(request), base) } else { Ok(Ignored::default()) };
        let ignored = ignored.unwrap_or_else(|error| {
            tracing::info!(%error, "Could not tell which files of a clone are ignored; all are taken");
            Ignored::default()
        });
        let changed = std::mem::take(&mut files.changed);
        let mut sorted = snapshots::sort(changed, &ignored, &mut Opener::new(&clone.top), request.limits);
        sorted.left.append(&mut files.left);
        let date = request.about.finished_at.as_second();
        snapshots::import(repository, &clone.top, base, (&files, &sorted), date)?;
        let tree = snapshots::reviewable(repository, &clone.top, (base, &tree), (&files, &sorted))?;
        Ok(Self { sorted, tree })
    }
}

/// Everything that was taken.
struct Taken<'a> {
    repository: Repository<'a>,
    clone: &'a Clone,
    base: ObjectId,
    theirs: Theirs,
    snapshots: Snapshots,
    /// The commit that holds the work.
    commit: String,
}

impl<'a> Taken<'a> {
    fn take(request: &'a HarvestRequest, bench: Bench<'a>, clone: &'a Clone, tip: ObjectId) -> Result<Self, NotTaken> {
        let place = request.state.join("harvest/theirs");
        let theirs_repository = Repository::make(
            place,
            bench,
            vec![shown_clone(request)],
            Some((shown_clone(request), ".git/objects")).filter(|_| clone.has_objects),
        )?;
        let mut theirs = theirs::find(&theirs_repository, bench.mirror, &clone.names, clone.index.as_ref(), tip)?;
        let repository = quarantine(request, bench)?;
        theirs::hand_over(&theirs_repository, &repository, &mut theirs, tip);
        let base = base(&repository, bench.mirror, clone.names.head, tip)?;
        let snapshots = Snapshots::take(request, &repository, bench.mirror, clone, base)?;
        let message = message(&request.about);
        let commit = ["commit-tree", &snapshots.tree, "-p", &base.to_string(), "-F", "-"];
        let commit = text(&repository.git(&commit, message.as_bytes())?.bytes);
        repository.git(&["update-ref", WORK, &commit], b"")?;
        Ok(Self { repository, clone, base, theirs, snapshots, commit })
    }

    /// Writes the files, and says what is in them.
    fn write(&self, request: &HarvestRequest, distrusted: &[Distrusted]) -> Result<Work, NotTaken> {
        let (base, most) = (self.base.to_string(), request.limits.bytes.saturating_mul(OUT_TIMES) + OUT_BESIDE);
        let refs = self.refs()?;
        let deltas = diff::between(&self.repository, &base, &self.commit)?;
        self.patch(&base)?;
        let bundle = self.repository.seen(&format!("out/{}", written::BUNDLE));
        let names: String = refs.iter().map(|tip| format!("{}\n", tip.name)).collect();
        let line = ["bundle", "create", "--version=2", "--quiet", &bundle, "--stdin"];
        self.repository.git(&line, format!("{names}^{base}\n").as_bytes())?;

        let out = Directory::open(&self.repository.path().join("out")).map_err(std::io::Error::other)?;
        let files = written::Files::begin(&request.out, &request.named)?;
        let patch = files.take(&out, written::PATCH, most)?;
        let bundle = files.take(&out, written::BUNDLE, most)?;
        let left: Vec<Left> = self.left();
        let flagged = self.flagged(&deltas);
        let handoff = Handoff {
            handoff_version: 1,
            run_id: request.about.run_id.clone(),
            project: request.about.project.clone(),
            task_id: request.about.task_id.clone(),
            requirement: request.about.requirement.clone(),
            adapter: request.about.adapter.clone(),
            model: request.about.model.clone(),
            finished_at: request.about.finished_at,
            base: base.clone(),
            commit: self.commit.clone(),
            tree: self.snapshots.tree.clone(),
            branch: self.clone.names.branch.clone(),
            head: self.clone.names.head.map(|head| head.to_string()),
            tips: self.theirs.tips.iter().map(|(id, name)| Tip { name: name.clone(), id: id.to_string() }).collect(),
            snapshots: refs.into_iter().filter(|tip| !tip.name.starts_with(theirs::COMMITS)).collect(),
            files: deltas.iter().map(file_change).collect(),
            flags: flagged,
            left_out: left.iter().map(left_out).collect(),
            distrusted: distrusted.to_vec(),
            patch_digest: patch.digest.clone(),
            bundle_digest: bundle.digest.clone(),
        };
        let mut content = serde_json::to_vec_pretty(&handoff).map_err(std::io::Error::other)?;
        content.push(b'\n');
        let written = files.write(written::HANDOFF, &content)?;
        files.publish()?;
        let lines = |count: fn((u64, u64)) -> u64| deltas.iter().filter_map(|delta| delta.lines).map(count).sum();
        Ok(Work {
            base,
            commit: self.commit.clone(),
            tree: self.snapshots.tree.clone(),
            files: deltas.len() as u64,
            added: lines(|(added, _)| added),
            removed: lines(|(_, removed)| removed),
            flags: handoff.flags.len() as u64,
            patch,
            bundle,
            handoff: written,
            left_out: files::counted(&left),
        })
    }

    /// Has git write the patch.
    fn patch(&self, base: &str) -> Result<(), NotTaken> {
        let output = format!("--output={}", self.repository.seen(&format!("out/{}", written::PATCH)));
        let line = ["diff-tree", "-p", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color"];
        let more = ["--no-renames", "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--no-commit-id"];
        let line: Vec<&str> = line.into_iter().chain(more).chain([output.as_str(), base, &self.commit]).collect();
        self.repository.git(&line, b"")?;
        Ok(())
    }

    /// The refs of the bundle, without those that say nothing that another does not.
    fn refs(&self) -> Result<Vec<Tip>, NotTaken> {
        let format = "--format=%(refname) %(objectname) %(tree)";
        let listed = self.repository.git(&["for-each-ref", format, "refs/agent/"], b"")?.bytes;
        let mut refs = Vec::new();
        for line in String::from_utf8_lossy(&listed).lines() {
            let mut parts = line.split(' ').map(str::to_owned);
            let (Some(name), Some(id)) = (parts.next(), parts.next()) else { continue };
            let same = parts.next().is_some_and(|tree| tree == self.snapshots.tree);
            if !(same && [snapshots::RAW, theirs::STAGES[0]].contains(&name.as_str())) {
                refs.push(Tip { name, id });
            }
        }
        Ok(refs)
    }

    fn left(&self) -> Vec<Left> {
        let unreadable = self.clone.names.unreadable.iter().map(|path| Left {
            reason: LeftOutReason::UnreadableObject,
            path: format!(".git/{path}").into_bytes(),
            size: None,
        });
        self.snapshots.sorted.left.iter().cloned().chain(self.theirs.left.iter().cloned()).chain(unreadable).collect()
    }

    fn flagged(&self, deltas: &[Delta]) -> Vec<Flagged> {
        let mut opener = Opener::new(&self.clone.top);
        let mut flagged = Vec::new();
        for delta in deltas {
            let link = self.snapshots.sorted.work.iter().find(|file| delta.mode == LINK && file.path == delta.path);
            let target = link.and_then(|link| {
                let mut target = Vec::new();
                opener.copy(link, &mut target).ok().map(|()| target)
            });
            let flags = flags::of(delta, target.as_deref()).into_iter();
            flagged.extend(flags.map(|flag| Flagged { flag, path: plain(&delta.path) }));
        }
        flagged
    }
}

/// The commit of the root's that the work is based on: where the clone's history left the root's.
fn base(
    repository: &Repository<'_>,
    mirror: &Mirror<'_>,
    head: Option<ObjectId>,
    tip: ObjectId,
) -> Result<ObjectId, NotTaken> {
    let Some(head) = head else { return Ok(tip) };
    let found = repository.git(&["merge-base", &head.to_string(), &tip.to_string()], b"");
    match found.ok().and_then(|found| ObjectId::from_hex(found.bytes.trim_ascii_end())) {
        Some(base) if mirror.is_ancestor(base, tip)? => Ok(base),
        _ => Ok(tip),
    }
}

/// What the commit that holds the work says.
pub(crate) fn message(about: &About) -> String {
    let mut message = format!("{}: work of {}\n\nMosaic-Run: {}\n", about.task_id, about.adapter, about.run_id);
    if let Some(requirement) = &about.requirement {
        message.push_str(&format!("Mosaic-Requirement: {}\n", shown(requirement.as_bytes())));
    }
    let model = about.model.as_ref().map_or_else(String::new, |model| format!(" ({})", shown(model.as_bytes())));
    message.push_str(&format!("Mosaic-Agent: {}{model}\n", about.adapter));
    message
}

pub(crate) fn file_change(delta: &Delta) -> FileChange {
    let mode = |mode: u32| (mode != 0).then(|| format!("{mode:06o}"));
    FileChange {
        path: plain(&delta.path),
        status: char::from(delta.status),
        mode_before: mode(delta.before),
        mode: mode(delta.mode),
        added: delta.lines.map(|(added, _)| added),
        removed: delta.lines.map(|(_, removed)| removed),
    }
}

fn left_out(left: &Left) -> LeftOutEntry {
    LeftOutEntry { reason: left.reason, path: plain(&left.path), size_bytes: left.size }
}

/// A path as text: itself when it is plain, else as git quotes it.
fn plain(path: &[u8]) -> String {
    match std::str::from_utf8(path) {
        Ok(text) if !text.chars().any(|c| c.is_control() || c == '"' || c == '\\') => text.to_owned(),
        _ => stream::quoted(path),
    }
}
