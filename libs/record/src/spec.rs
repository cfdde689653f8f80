use mosaic_ids::{Digest, Name, RunId};

use crate::{Backend, Limits, Note, Tool};

/// A JSON document as a person wrote it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Document {
    /// Its name in messages; never opened.
    pub name: String,
    /// Its text.
    pub content: String,
}

/// The directory that an adapter works in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Workspace {
    /// `:run`: made for the run.
    Run,
    /// Persists under its name.
    Named(Name),
}

impl std::fmt::Display for Workspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Run => f.write_str(":run"),
            Self::Named(name) => name.fmt(f),
        }
    }
}

impl TryFrom<String> for Workspace {
    type Error = mosaic_ids::InvalidName;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text == ":run" { Ok(Self::Run) } else { text.parse().map(Self::Named) }
    }
}

impl From<Workspace> for String {
    fn from(workspace: Workspace) -> Self {
        workspace.to_string()
    }
}

impl schemars::JsonSchema for Workspace {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Workspace".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "pattern": r"^(:run|[a-z0-9][a-z0-9._-]{0,63})$"})
    }
}

/// A project that the agent is given a clone of.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Project {
    /// Its id, and the name of its clone's directory in the workspace.
    pub id: Name,
    /// Top directory of its repository on the host.
    pub root: String,
}

/// A named check of work that was taken out of a clone. It runs in a sandbox, on a fresh clone of what the work makes of its
/// root's branch, and its exit status is its answer.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckSpec {
    /// Its name in the business file.
    pub name: Name,
    /// The program; an absolute path.
    pub executable: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The run whose work it checks.
    pub of: RunId,
    /// The project, and the root of its repository.
    pub project: Project,
    /// Branch that the fresh clone is on.
    pub branch: String,
    /// The commit that is checked.
    pub commit: String,
    /// File of the launcher's that holds it, and its digest.
    pub bundle: String,
    /// Digest of that file.
    pub bundle_digest: Digest,
}

/// What is to run: everything that the launch resolved, and snapshots of what it was resolved from, so that a later
/// change of any file changes nothing.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunSpec {
    /// Id of the task file.
    pub task_id: Name,
    /// Id of the mission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mission_id: Option<Name>,
    /// The task file.
    pub task: Document,
    /// The mission file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mission: Option<Document>,
    /// The request, verbatim.
    pub request: String,
    /// The answer that alone counts as success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_exact: Option<String>,
    /// Effective tools.
    pub tools: Vec<Tool>,
    /// Where the adapter works; none is an empty private directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    /// Projects that have a clone in the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub projects: Vec<Project>,
    /// What it checks, instead of doing work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Box<CheckSpec>>,
    /// The conversation that the adapter resumes or begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Name>,
    /// The adapter.
    pub adapter: Name,
    /// The provider, as the adapter is told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Name>,
    /// The model, as the adapter is told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Response of the adapter `mock`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mock_response: Option<String>,
    /// True for the adapters that are for tests and demonstrations.
    pub synthetic: bool,
    /// What the sandbox is made of.
    pub backend: Backend,
    /// The limits.
    pub limits: Limits,
    /// Refuse instead of waiting for workspace or session.
    pub no_wait: bool,
    /// The run that this one retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retried_from: Option<RunId>,
    /// What the launch noted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// What the launch warned of, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// W3C `traceparent` of the launch; the whole run is one trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}
