use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use jiff::Timestamp;
use mosaic_data_root::DataRoot;
use mosaic_ids::{Name, RunId};
use mosaic_record::Workspace;

use super::walk::{Closed, walk};
use crate::domain::retention::{EndedRun, Facts, RunSizes, RunWorkspace, Session};
use crate::peers::PastRun;

/// Bytes of a block as stat(2) counts them.
const BLOCK: u64 = 512;

/// What a tree takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// On disk.
    pub bytes: u64,
    /// By the lengths of its files: more than `bytes` where they have holes.
    pub length: u64,
    /// Entries below its top.
    pub entries: u64,
}

/// What the tree `top` takes; as far as it can be read.
pub(super) fn tree(top: &Path) -> Size {
    let mut size = Size { bytes: file(top).unwrap_or_default(), ..Size::default() };
    let walked = walk(top, Closed::PassOver, &mut |entry| {
        size.bytes = size.bytes.saturating_add(entry.stat.st_blocks.unsigned_abs().saturating_mul(BLOCK));
        size.length = size.length.saturating_add(entry.stat.st_size.unsigned_abs());
        size.entries += 1;
        Ok(())
    });
    if let Err(error) = walked {
        tracing::debug!(path = %top.display(), %error, "Could not measure all of a tree");
    }
    size
}

/// What one file takes on disk; `None` when it is not there.
fn file(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|metadata| metadata.blocks().saturating_mul(BLOCK))
}

/// Measures everything that the rules can be about. `ended` are the terminal runs, `busy` the sessions that other runs use
/// or wait for. Blocks on the file system.
pub(super) fn facts(root: &DataRoot, ended: Vec<PastRun>, busy: &[Name], in_hand: impl Fn(&RunId) -> bool) -> Facts {
    let mut uses: HashMap<Name, Use> = HashMap::new();
    for run in &ended {
        if let Some(name) = &run.session {
            let of = uses.entry(name.clone()).or_insert(Use { latest: run.finished_at, kept: false });
            of.latest = run.finished_at.max(of.latest);
            of.kept |= run.kept;
        }
    }
    let sessions = sessions(root, &uses, busy);
    let of = |run: PastRun| EndedRun {
        in_hand: run.harvest_pending || in_hand(&run.run),
        finished_at: run.finished_at,
        kept: run.kept,
        sizes: sizes(root, &run),
        run: run.run,
    };
    Facts { runs: ended.into_iter().map(of).collect(), sessions }
}

fn sizes(root: &DataRoot, run: &PastRun) -> RunSizes {
    let outputs = output_files(root, &run.run).into_iter().filter_map(|path| file(&path));
    let workspace = (run.workspace == Some(Workspace::Run)).then(|| root.run_workspace(&run.run));
    RunSizes {
        record: tree(&root.run(&run.run)).bytes,
        output: outputs.reduce(u64::saturating_add),
        workspace: workspace.and_then(|path| run_workspace(&path)),
    }
}

/// The `:run` workspace at `path`, if it is there.
fn run_workspace(path: &Path) -> Option<RunWorkspace> {
    let metadata = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_dir)?;
    // What can't be looked into may hold anything.
    let empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    let bytes = if empty { metadata.blocks().saturating_mul(BLOCK) } else { tree(path).bytes };
    Some(RunWorkspace { bytes, empty })
}

/// The files that hold what a run's adapter wrote, and where their middle was dropped.
pub(super) fn output_files(root: &DataRoot, run: &RunId) -> [std::path::PathBuf; 4] {
    let [stdout, stderr] = [root.run_stdout(run), root.run_stderr(run)];
    [stdout.with_extension("layout.json"), stderr.with_extension("layout.json"), stdout, stderr]
}

/// How runs that are over used a session.
#[derive(Debug, Clone, Copy)]
struct Use {
    /// When the last of them finished.
    latest: Timestamp,
    /// True when a person keeps one of them.
    kept: bool,
}

fn sessions(root: &DataRoot, uses: &HashMap<Name, Use>, busy: &[Name]) -> Vec<Session> {
    let Ok(entries) = fs::read_dir(root.sessions()) else { return Vec::new() };
    let session = |entry: fs::DirEntry| {
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_dir)?;
        let name: Name = entry.file_name().to_str()?.parse().ok()?;
        // When it was changed, by a time that nobody can set.
        let changed = Timestamp::new(metadata.ctime(), 0).unwrap_or(Timestamp::MAX);
        Some(Session {
            last_used: uses.get(&name).map_or(changed, |of| of.latest),
            kept: uses.get(&name).is_some_and(|of| of.kept),
            in_use: busy.contains(&name),
            bytes: tree(&entry.path()).bytes,
            name,
        })
    };
    entries.filter_map(Result::ok).filter_map(session).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_takes_its_blocks_not_its_length() {
        let scratch = tempfile::tempdir().expect("scratch");
        let sparse = fs::File::create(scratch.path().join("sparse")).expect("made");
        sparse.set_len(1 << 30).expect("sparse");
        fs::create_dir(scratch.path().join("directory")).expect("made");
        fs::write(scratch.path().join("directory/file"), vec![1; 100_000]).expect("written");
        std::os::unix::fs::symlink("/", scratch.path().join("all")).expect("link");
        let size = tree(scratch.path());
        assert!((100_000..1_000_000).contains(&size.bytes), "{size:?}");
        assert!(size.length > 1 << 30, "{size:?}");
        assert_eq!(size.entries, 4);
        assert_eq!(tree(&scratch.path().join("missing")), Size::default());
    }
}
