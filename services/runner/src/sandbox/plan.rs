use std::path::{Path, PathBuf};

use mosaic_ids::Name;
use mosaic_record::Limits;
use mosaic_shim::protocol::Identity;

/// What a sandbox is to hold, with every path on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Name of the sandbox: the run's id and a nonce.
    pub(crate) name: String,
    /// The copy of the shim.
    pub(crate) shim: PathBuf,
    /// The adapter.
    pub(crate) adapter: Name,
    /// Directory with the adapter's script, read only.
    pub(crate) adapter_dir: PathBuf,
    /// Directory of the bundle.
    pub(crate) bundle: PathBuf,
    /// Names of those of the bundle's files that the adapter may read. The others say what answer is expected.
    pub(crate) documents: Vec<String>,
    /// Directory that the adapter works in.
    pub(crate) workspace: Option<PathBuf>,
    /// Directory of the session.
    pub(crate) session: Option<PathBuf>,
    /// Private state of the run.
    pub(crate) state: PathBuf,
    /// The limits.
    pub(crate) limits: Limits,
    /// Whom the shim becomes; absent where the services do not run as root.
    pub(crate) identity: Option<Identity>,
}

/// Where the adapter finds what the plan holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    /// Directory with the adapter's script.
    pub(crate) adapter_dir: String,
    /// Directory of the bundle's documents.
    pub(crate) bundle: String,
    /// Directory that the adapter works in.
    pub(crate) workspace: Option<String>,
    /// Directory of the session.
    pub(crate) session: Option<String>,
    /// Private state of the run.
    pub(crate) state: String,
    /// Temporary files.
    pub(crate) temporary: String,
}

impl Places {
    /// The places within a sandbox with a file system of its own: the same for every run of a session.
    pub(crate) fn contained(plan: &Plan) -> Self {
        let place = |name: &str| format!("/var/lib/mosaic/{name}");
        Self {
            adapter_dir: format!("/opt/mosaic/adapters/{}", plan.adapter),
            bundle: place("bundle"),
            workspace: plan.workspace.as_ref().map(|_| place("workspace")),
            session: plan.session.as_ref().map(|_| place("session")),
            state: place("state"),
            temporary: "/tmp".to_owned(),
        }
    }

    /// The places on the host itself.
    pub(crate) fn on_host(plan: &Plan) -> Self {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Self {
            adapter_dir: text(&plan.adapter_dir),
            bundle: text(&plan.bundle),
            workspace: plan.workspace.as_deref().map(text),
            session: plan.session.as_deref().map(text),
            state: text(&plan.state),
            temporary: text(&plan.state.join("tmp")),
        }
    }

    /// The adapter's home.
    pub(crate) fn home(&self) -> String {
        format!("{}/home", self.state)
    }

    /// Where the activity token is published.
    pub(crate) fn activity(&self) -> String {
        format!("{}/activity", self.state)
    }

    /// Where a turn marker is written.
    pub(crate) fn turn_marker(&self) -> String {
        format!("{}/turn/done", self.state)
    }

    /// The working directory.
    pub(crate) fn cwd(&self) -> String {
        self.workspace.clone().unwrap_or_else(|| format!("{}/cwd", self.state))
    }

    /// Directories below the private state that the shim makes, parents first.
    pub(crate) fn private_directories(&self) -> Vec<String> {
        let names = ["home", "activity", "turn", "cwd", "tmp"];
        names.iter().map(|name| format!("{}/{name}", self.state)).collect()
    }
}
