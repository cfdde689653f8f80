use mosaic_ids::{Digest, Name, RunId};

use crate::{Distrust, HarvestFailure, HarvestState, LeftOutReason};

/// Something of an agent's that was not trusted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Distrusted {
    /// What it is.
    pub what: Distrust,
    /// Where it is, for people: a path below the clone, escaped, with what was seen there.
    pub at: String,
}

/// A file of a harvest.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HarvestFile {
    /// Its name below the run's directory.
    pub name: String,
    /// Digest of it.
    pub digest: Digest,
    /// Its size.
    pub size_bytes: u64,
}

/// What a harvest has not taken, for one reason. Each thing is listed in `handoff.json`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LeftOut {
    /// Why.
    pub reason: LeftOutReason,
    /// How many things.
    pub count: u64,
    /// The first of them, for people: escaped.
    pub first: String,
}

/// The work of a run in one project, as it was taken out.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Work {
    /// Commit of the root that the work is based on.
    pub base: String,
    /// Commit that holds the work: the tree as the run left it, on `base`.
    pub commit: String,
    /// Identity of the tree as the run left it: the id of its tree object, without ignored files.
    pub tree: String,
    /// Files that differ from `base`.
    pub files: u64,
    /// Lines that were added.
    pub added: u64,
    /// Lines that were removed.
    pub removed: u64,
    /// What a reviewer should look at, counted; each is listed in `handoff.json`.
    pub flags: u64,
    /// The patch, for people.
    pub patch: HarvestFile,
    /// The bundle, for machines.
    pub bundle: HarvestFile,
    /// What changed, in detail.
    pub handoff: HarvestFile,
    /// What is not in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// What became of the harvest of one project.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProjectHarvest {
    /// The project.
    pub project: Name,
    /// The work; absent when it could not be taken out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Why it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<HarvestFailure>,
    /// What lies behind that, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What was not trusted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distrusted: Vec<Distrusted>,
}

/// The harvest of a run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Harvest {
    /// Where it is.
    pub state: HarvestState,
    /// What became of each project.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub projects: Vec<ProjectHarvest>,
}

impl Harvest {
    /// The one that is still to be done.
    #[must_use]
    pub const fn pending() -> Self {
        Self { state: HarvestState::Pending, projects: Vec::new() }
    }

    /// The one with these results.
    #[must_use]
    pub fn of(projects: Vec<ProjectHarvest>) -> Self {
        let whole = projects.iter().all(|project| project.work.is_some());
        Self { state: if whole { HarvestState::Done } else { HarvestState::Failed }, projects }
    }
}

/// What a check said.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckResult {
    /// Name of the check.
    pub name: Name,
    /// The run that it was.
    pub run_id: RunId,
    /// True when it succeeded.
    pub passed: bool,
}

/// The work of a run in one project, put onto a branch of its root and handed to a person, or kept back by a check.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Integration {
    /// The project.
    pub project: Name,
    /// Branch of the root; absent where the work is on the commit that it is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Commit of the root's that the result is on.
    pub onto: String,
    /// The result.
    pub tip: String,
    /// Its tree.
    pub tree: String,
    /// What the named checks said of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckResult>,
}
