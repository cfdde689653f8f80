//! Preparation: steps that are recorded, and undone in reverse when one of them fails.

use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mosaic_adapters::Adapter;
use mosaic_bundle::{Contents, Launch, WorkspaceKind};
use mosaic_data_root::DataRoot;
use mosaic_ids::{Digest, Name, RunId};
use mosaic_record::{CheckoutVerdict, Note, Refusal, RunSpec, StepFacts, Workspace, WorkspaceMode};

use super::checkouts::{self, Checkouts};
use super::turns::Left;
use crate::domain::prompt;
use crate::intake::MissionFile;

/// A step of the preparation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The run's own directory, with snapshots of its documents.
    RunDirectory,
    /// The workspace.
    Workspace,
    /// The clones of projects in the workspace.
    Checkouts,
    /// The session.
    Session,
    /// The sealed bundle.
    Bundle,
}

impl Step {
    /// All steps in their order.
    pub const ALL: [Self; 5] = [Self::RunDirectory, Self::Workspace, Self::Checkouts, Self::Session, Self::Bundle];

    /// The step of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.name() == name)
    }

    /// Its name in the record.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RunDirectory => "run-directory",
            Self::Workspace => "workspace",
            Self::Checkouts => "checkouts",
            Self::Session => "session",
            Self::Bundle => "bundle",
        }
    }
}

/// A step did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StepFailed {
    /// Which refusal it is.
    pub refusal: Refusal,
    /// What, why and what to do.
    pub message: String,
}

impl StepFailed {
    pub(super) fn new(refusal: Refusal, message: impl Into<String>) -> Self {
        Self { refusal, message: message.into() }
    }

    pub(super) fn io(action: &str, path: &Path, error: &std::io::Error) -> Self {
        let refusal = if error.kind() == ErrorKind::StorageFull { Refusal::DiskLow } else { Refusal::Interrupted };
        Self::new(refusal, format!("can't {action} `{}`: {error}", path.display()))
    }
}

/// Where a run's things are.
#[derive(Debug, Clone)]
pub struct Places {
    /// The run.
    pub run_id: RunId,
    /// What is to run.
    pub spec: RunSpec,
    /// Where everything is.
    pub root: DataRoot,
}

impl Places {
    /// The steps that this run needs, in their order.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        let needed = |step: &Step| match step {
            Step::RunDirectory | Step::Bundle => true,
            Step::Workspace => self.spec.workspace.is_some(),
            Step::Checkouts => !self.spec.projects.is_empty() || self.spec.check.is_some(),
            Step::Session => self.spec.session.is_some(),
        };
        Step::ALL.into_iter().filter(needed).collect()
    }

    /// Removes what a step has made. The run's directory stays: its record goes there. Blocks on the file system.
    pub fn undo(&self, step: Step) {
        let removed = match step {
            Step::Bundle => std::fs::remove_dir_all(self.root.bundle(&self.run_id)),
            Step::Checkouts => self.workspace().map_or(Ok(()), |path| checkouts::undo(&self.root, &self.run_id, &path)),
            // Only an empty one: nothing that somebody has put there meanwhile is ever deleted.
            Step::Workspace => self.workspace().map_or(Ok(()), std::fs::remove_dir),
            Step::Session => self.session().map_or(Ok(()), std::fs::remove_dir),
            Step::RunDirectory => Ok(()),
        };
        if let Err(error) = removed
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(run.id = %self.run_id, step = step.name(), %error, "Could not undo a step");
        }
    }

    /// True when a step will make what is not there yet. Blocks on the file system.
    #[must_use]
    pub fn is_missing(&self, step: Step) -> bool {
        let path = match step {
            Step::RunDirectory => Some(self.root.run(&self.run_id)),
            Step::Workspace => self.workspace(),
            Step::Checkouts => {
                let checked = self.spec.check.iter().map(|check| &check.project);
                let mut projects = self.spec.projects.iter().chain(checked);
                let is_missing = |path: PathBuf| projects.any(|project| checkouts::is_missing(&path, &project.id));
                return self.workspace().is_some_and(is_missing);
            }
            Step::Session => self.session(),
            Step::Bundle => Some(self.root.bundle(&self.run_id)),
        };
        path.is_some_and(|path| std::fs::symlink_metadata(path).is_err())
    }

    /// Where the workspace is on the host.
    pub(super) fn workspace(&self) -> Option<PathBuf> {
        Some(match self.spec.workspace.as_ref()? {
            Workspace::Run => self.root.run_workspace(&self.run_id),
            Workspace::Named(name) => self.root.workspace(name),
        })
    }

    /// Where the session is on the host.
    fn session(&self) -> Option<PathBuf> {
        self.spec.session.as_ref().map(|name| self.root.session(name))
    }
}

/// The preparation of one run. Every step blocks on the file system.
#[derive(Debug, Clone)]
pub struct Preparation {
    /// Where the run's things are.
    pub places: Places,
    /// The adapter.
    pub adapter: Adapter,
    /// Owner of workspaces and sessions.
    pub sandbox_uid: u32,
    /// What checkouts are made with.
    pub checkouts: Arc<Checkouts>,
    /// What the session's last run left in the workspace; `None` where there is nothing to compare with.
    pub left: Option<Left>,
    /// Projects that are not as it left them: known after the step `checkouts`.
    pub changed: Vec<Name>,
}

impl Preparation {
    /// Takes one step, and says what it adds to the record.
    ///
    /// # Errors
    /// When it could not be taken; it leaves nothing then.
    pub fn take(&self, step: Step) -> Result<StepFacts, StepFailed> {
        match step {
            Step::RunDirectory => self.run_directory(),
            Step::Workspace => self.workspace(),
            Step::Checkouts => self.checkouts(),
            Step::Session => self.session(),
            Step::Bundle => self.bundle(),
        }
    }

    fn run_directory(&self) -> Result<StepFacts, StepFailed> {
        let directory = self.places.root.run(&self.places.run_id);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&directory)
            .map_err(|error| StepFailed::io("create", &directory, &error))?;
        super::projection::write_documents(&directory, &self.places.spec)
            .map_err(|error| StepFailed::io("write to", &directory, &error))?;
        Ok(StepFacts::default())
    }

    fn workspace(&self) -> Result<StepFacts, StepFailed> {
        let Some(path) = self.places.workspace() else { return Ok(StepFacts::default()) };
        if let Some(left) = &self.left
            && self.places.is_missing(Step::Workspace)
        {
            return Err(left.workspace_missing());
        }
        let made = self.sandbox_directory(&path, Refusal::WorkspaceMissing)?;
        Ok(StepFacts { workspace_root: Some(path.display().to_string()), made, ..StepFacts::default() })
    }

    fn checkouts(&self) -> Result<StepFacts, StepFailed> {
        let Some(path) = self.places.workspace() else { return Ok(StepFacts::default()) };
        if let Some(check) = &self.places.spec.check {
            let taken = self.checkouts.take_for(&self.places, check, &path);
            taken.inspect_err(|_| self.places.undo(Step::Checkouts))?;
            return Ok(StepFacts { made: true, ..StepFacts::default() });
        }
        if let Some(left) = &self.left {
            left.check_clones(|project| checkouts::is_missing(&path, project))?;
        }
        let taken = self.checkouts.take(&self.places, &path);
        let checkouts = taken.inspect_err(|_| self.places.undo(Step::Checkouts))?;
        let made = checkouts.iter().any(|checkout| checkout.verdict == CheckoutVerdict::Cloned);
        let changed = self.left.as_ref().is_some_and(|left| !left.changed(&checkouts).is_empty());
        let notes = if changed { vec![Note::WorkspaceChanged] } else { Vec::new() };
        Ok(StepFacts { checkouts, made, notes, ..StepFacts::default() })
    }

    fn session(&self) -> Result<StepFacts, StepFailed> {
        let Some(path) = self.places.session() else { return Ok(StepFacts::default()) };
        let made = self.sandbox_directory(&path, Refusal::SessionMissing)?;
        Ok(StepFacts { made, ..StepFacts::default() })
    }

    /// Makes a directory that a sandbox may write to, or checks that an existing one is; looks at nothing inside of it. Says
    /// whether it was made.
    fn sandbox_directory(&self, path: &Path, refusal: Refusal) -> Result<bool, StepFailed> {
        match std::fs::DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let metadata = std::fs::symlink_metadata(path).map_err(|error| StepFailed::io("read", path, &error))?;
                if metadata.is_dir() && metadata.uid() == self.sandbox_uid {
                    return Ok(false);
                }
                let uid = self.sandbox_uid;
                let message = format!(
                    "`{path}` must be a real directory that belongs to uid {uid}, which sandboxes run under\n\
                     hint: chown -R {uid} {path}",
                    path = path.display()
                );
                return Err(StepFailed::new(refusal, message));
            }
            Err(error) => return Err(StepFailed::io("create", path, &error)),
        }
        if nix::unistd::geteuid().is_root()
            && let Err(error) = std::os::unix::fs::chown(path, Some(self.sandbox_uid), Some(self.sandbox_uid))
        {
            let _removed = std::fs::remove_dir(path);
            return Err(StepFailed::io("hand over", path, &error));
        }
        Ok(true)
    }

    fn bundle(&self) -> Result<StepFacts, StepFailed> {
        let Places { run_id, spec, root } = &self.places;
        let mission = self.mission()?;
        let system_prompt =
            prompt::compose(mission.as_ref(), &spec.tools, (&spec.projects, &self.changed), &spec.request)
                .map_err(|over| StepFailed::new(Refusal::PromptOverBudget, over.to_string()))?;
        let policy = serde_json::json!({ "policyVersion": 1, "tools": spec.tools });
        let tools = serde_json::json!({ "toolsVersion": 1, "tools": [] });
        let directory = root.bundle(run_id);
        let contents = Contents {
            launch: &self.launch(),
            request: &spec.request,
            system_prompt: &system_prompt,
            mission: spec.mission.as_ref().map_or("{}\n", |mission| &mission.content),
            policy: &policy.to_string(),
            tools: &tools.to_string(),
            adapter_script: &self.adapter.script,
            adapter_metadata: &self.adapter.metadata_text,
        };
        let sealed: Result<Digest, _> = mosaic_bundle::seal(&directory, &contents);
        let digest = sealed.map_err(|error| {
            let _removed = std::fs::remove_dir_all(&directory);
            StepFailed::io("write", &error.path, &error.source)
        })?;
        Ok(StepFacts { bundle_digest: Some(digest), made: true, ..StepFacts::default() })
    }

    fn mission(&self) -> Result<Option<MissionFile>, StepFailed> {
        let parsed = self.places.spec.mission.as_ref().map(MissionFile::parse).transpose();
        parsed.map_err(|error| StepFailed::new(Refusal::InvalidRequest, error.to_string()))
    }

    fn launch(&self) -> Launch {
        let spec = &self.places.spec;
        Launch {
            run_id: self.places.run_id.clone(),
            adapter: spec.adapter.clone(),
            provider: spec.provider.clone(),
            model: spec.model.clone(),
            thinking: None,
            tools: self.adapter.metadata.harness_names(&spec.tools),
            workspace: match &spec.workspace {
                None => WorkspaceKind::None,
                Some(Workspace::Run) => WorkspaceKind::Run,
                Some(Workspace::Named(name)) => WorkspaceKind::Named { name: name.clone() },
            },
            session: spec.session.clone(),
            expect_exact: spec.expect_exact.clone(),
            mock_response: spec.mock_response.clone(),
            backend: spec.backend,
            workspace_mode: WorkspaceMode::of(spec.backend),
            containment: WorkspaceMode::of(spec.backend) == WorkspaceMode::Sandbox,
            mixed_wiring_allowed: false,
            workspace_root: self.places.workspace().map(|path| path.display().to_string()),
            warnings: spec.warnings.clone(),
            limits: spec.limits,
        }
    }
}
