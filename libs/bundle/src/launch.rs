use mosaic_ids::{Name, RunId};
use mosaic_record::{Backend, Limits, WorkspaceMode};

/// Where the adapter works.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum WorkspaceKind {
    /// In an empty private directory.
    None,
    /// In a directory that is the run's own.
    Run,
    /// In a named workspace.
    Named {
        /// Its name.
        name: Name,
    },
}

/// `launch.json`: what the runner needs to know to start a run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Launch {
    /// The run.
    pub run_id: RunId,
    /// The adapter; its script and metadata are in the bundle.
    pub adapter: Name,
    /// Provider, as the adapter is told it.
    pub provider: Option<Name>,
    /// Model, as the adapter is told it.
    pub model: Option<String>,
    /// Thinking level, as the adapter is told it.
    pub thinking: Option<String>,
    /// Effective tools in the harness's own names.
    pub tools: Vec<String>,
    /// Where the adapter works.
    pub workspace: WorkspaceKind,
    /// The session that it resumes or begins.
    pub session: Option<Name>,
    /// The answer that alone counts as success.
    pub expect_exact: Option<String>,
    /// Response of the adapter `mock`.
    pub mock_response: Option<String>,
    /// What the sandbox is made of.
    pub backend: Backend,
    /// Whether a sandbox holds the run.
    pub workspace_mode: WorkspaceMode,
    /// True when adapter, shell tools and file tools all act on one sandboxed tree.
    pub containment: bool,
    /// True when the configuration allows tools of one run to act on different trees.
    pub mixed_wiring_allowed: bool,
    /// Where the workspace is on the host.
    pub workspace_root: Option<String>,
    /// What the launch warned of, for people.
    pub warnings: Vec<String>,
    /// The limits.
    pub limits: Limits,
}
