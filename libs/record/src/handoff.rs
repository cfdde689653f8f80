use jiff::Timestamp;
use mosaic_ids::{Digest, Name, RunId};

use crate::{Distrusted, LeftOutReason, ReviewFlag};

/// What a run hands to whoever reviews its work in one project: `handoff.json`.
///
/// Paths are below the repository. One that is not plain text is written as git quotes it: within double quotes, with octal
/// escapes (git-config(1), `core.quotePath`).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Handoff {
    /// Version of this format: 1.
    pub handoff_version: u32,
    /// The run.
    pub run_id: RunId,
    /// The project.
    pub project: Name,
    /// Id of the task file.
    pub task_id: Name,
    /// The requirement that it was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requirement: Option<String>,
    /// The adapter.
    pub adapter: Name,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// When the run ended.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub finished_at: Timestamp,
    /// Commit of the root that the work is based on.
    pub base: String,
    /// Commit that holds the work: one commit on `base` with the tree as the run left it.
    pub commit: String,
    /// Its tree.
    pub tree: String,
    /// Branch that the clone was on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Commit that the clone was at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Commits and tags of the agent's own.
    pub tips: Vec<Tip>,
    /// Commits that hold one state of the clone each, by ref.
    pub snapshots: Vec<Tip>,
    /// Files that differ from `base`.
    pub files: Vec<FileChange>,
    /// What a reviewer should look at.
    pub flags: Vec<Flagged>,
    /// What was not taken.
    pub left_out: Vec<LeftOutEntry>,
    /// What was not trusted.
    pub distrusted: Vec<Distrusted>,
    /// Digest of the patch.
    pub patch_digest: Digest,
    /// Digest of the bundle.
    pub bundle_digest: Digest,
}

/// A commit with a name.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tip {
    /// Where the clone named it; of a snapshot, its ref in the bundle.
    pub name: String,
    /// Its id.
    pub id: String,
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileChange {
    /// Its path.
    pub path: String,
    /// `A`dded, `D`eleted, `M`odified, or of another `T`ype.
    pub status: char,
    /// Mode before, for example `100644`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode_before: Option<String>,
    /// Mode after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Lines that were added; absent of a binary file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<u64>,
    /// Lines that were removed; absent of a binary file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<u64>,
}

/// Something that a reviewer should look at.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Flagged {
    /// What it is.
    pub flag: ReviewFlag,
    /// Where.
    pub path: String,
}

/// Something that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LeftOutEntry {
    /// Why.
    pub reason: LeftOutReason,
    /// Where; of a commit, its name.
    pub path: String,
    /// Size of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}
