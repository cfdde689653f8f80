//! Taking out of a clone all that an agent did there, without trusting it and without changing it.

pub(crate) mod diff;
mod files;
mod flags;
mod names;
pub(crate) mod repository;
mod snapshots;
mod stream;
mod take;
mod theirs;
pub(crate) mod written;

use std::path::PathBuf;

use jiff::Timestamp;
use mosaic_ids::{Name, RunId};
use mosaic_record::{HarvestFailure, ProjectHarvest};

use crate::git::{Containment, Failed};
use crate::mirror::MirrorError;
use crate::tree::TreeError;
pub(crate) use take::{WORK, file_change, message};
pub(crate) use theirs::text;

/// A clone that work is taken out of. No process of its workspace is alive.
#[derive(Debug, Clone)]
pub struct HarvestRequest {
    /// The clone; what is before its last component is the caller's own.
    pub clone: PathBuf,
    /// Top directory of the project's root.
    pub root: PathBuf,
    /// The host's own directory for this project, as at the checkout.
    pub state: PathBuf,
    /// Absolute path of git.
    pub git: PathBuf,
    /// Uid that owns the clone, and that contained programs run under.
    pub owner: u32,
    /// What contains git; without it nothing is taken out.
    pub containment: Option<Containment>,
    /// Commit of the root's that the clone was at, or was to be at, when the run began, as the checkout told it.
    pub tip: Option<String>,
    /// Where the files go: a directory of the host's own, which is replaced whole.
    pub out: PathBuf,
    /// What precedes the names of the files in the result: `out` as it is seen from the run's directory.
    pub named: String,
    /// What the commit that holds the work says.
    pub about: About,
    /// How much is taken.
    pub limits: HarvestLimits,
}

/// What a run was, for those who read its work.
#[derive(Debug, Clone)]
pub struct About {
    /// The run.
    pub run_id: RunId,
    /// The project.
    pub project: Name,
    /// The task file's id.
    pub task_id: Name,
    /// The requirement that it was for.
    pub requirement: Option<String>,
    /// The adapter.
    pub adapter: Name,
    /// The model, as the adapter was told it.
    pub model: Option<String>,
    /// When the run ended; the commit is dated so.
    pub finished_at: Timestamp,
}

/// How much a harvest takes. What is beyond is listed, never silently left.
#[derive(Debug, Clone, Copy)]
pub struct HarvestLimits {
    /// Files, in all snapshots together.
    pub entries: u64,
    /// Their bytes, and those of commits.
    pub bytes: u64,
}

/// Takes the work out of a clone, and writes it down for people and machines. Changes nothing of the clone.
#[must_use]
pub fn harvest(request: &HarvestRequest) -> ProjectHarvest {
    let mut harvest = ProjectHarvest {
        project: request.about.project.clone(),
        work: None,
        failure: None,
        detail: None,
        distrusted: crate::distrusted(&request.clone),
    };
    match take::work(request, &mut harvest.distrusted) {
        Ok(work) => harvest.work = Some(work),
        Err(NotTaken { failure, detail }) => {
            harvest.failure = Some(failure);
            harvest.detail = Some(crate::at::shown(detail.as_bytes()));
        }
    }
    harvest
}

/// Identity of the tree of a clone as it is now: the id of its tree object, without ignored files; `None` when it can't be
/// told. Changes nothing of the clone, and writes nothing to `out`.
#[must_use]
pub fn tree_identity(request: &HarvestRequest) -> Option<String> {
    take::tree(request).ok()
}

/// Why work was not taken out.
#[derive(Debug)]
struct NotTaken {
    failure: HarvestFailure,
    detail: String,
}

impl From<Failed> for NotTaken {
    fn from(failed: Failed) -> Self {
        Self { failure: HarvestFailure::GitFailed, detail: failed.to_string() }
    }
}

impl From<TreeError> for NotTaken {
    fn from(error: TreeError) -> Self {
        Self { failure: HarvestFailure::GitFailed, detail: error.to_string() }
    }
}

impl From<MirrorError> for NotTaken {
    fn from(error: MirrorError) -> Self {
        let failure = match error {
            MirrorError::Io { .. } => HarvestFailure::HostFailed,
            _ => HarvestFailure::GitFailed,
        };
        Self { failure, detail: crate::in_full(&error) }
    }
}

impl From<std::io::Error> for NotTaken {
    fn from(error: std::io::Error) -> Self {
        Self { failure: HarvestFailure::HostFailed, detail: error.to_string() }
    }
}
