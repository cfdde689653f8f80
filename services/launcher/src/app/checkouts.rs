//! Clones of projects in workspaces: brought up to date before a run, under guard.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use mosaic_checkout::{Checkout, Containment, Place, Request, check_out, locate, sync};
use mosaic_config::Config;
use mosaic_data_root::{DataRoot, remove_tree};
use mosaic_ids::{Digest, Name, RunId};
use mosaic_lifecycle::error_chain;
use mosaic_record::{CheckSpec, Project, ProjectCheckout, Refusal};
use mosaic_rpc::RpcError;

use super::prepare::StepFailed;

/// What checkouts are made with.
#[derive(Debug)]
pub struct Checkouts {
    git: Option<PathBuf>,
    bubblewrap: PathBuf,
    owner: u32,
    containment: OnceLock<Option<Containment>>,
}

impl Checkouts {
    /// Those of a configuration, with the programs that `path`, a list of directories as PATH is one, leads to.
    #[must_use]
    pub fn new(config: &Config, path: Option<&std::ffi::OsStr>) -> Self {
        Self {
            git: config.git_path.clone().or_else(|| locate("git", path)),
            bubblewrap: locate("bwrap", path).unwrap_or_else(|| "/usr/bin/bwrap".into()),
            owner: config.sandbox_uid(),
            containment: OnceLock::new(),
        }
    }

    /// Makes or updates the clone of each project below `workspace`. Blocks for as long as git takes.
    ///
    /// # Errors
    /// When a missing clone can't be made; those that were made before it are noted, to be undone.
    pub(super) fn take(
        &self,
        root: &DataRoot,
        run: &RunId,
        projects: &[Project],
        workspace: &Path,
    ) -> Result<Vec<ProjectCheckout>, StepFailed> {
        let new: Vec<&Name> =
            projects.iter().map(|project| &project.id).filter(|id| is_missing(workspace, id)).collect();
        note(root, run, &new).map_err(|error| StepFailed::io("write to", &root.run(run), &error))?;
        projects.iter().map(|project| self.step(root, project, workspace)).collect()
    }

    /// Makes the fresh clone that a check runs on. Blocks for as long as git takes.
    ///
    /// # Errors
    /// When it can't be made; it is noted then, to be undone.
    pub(super) fn take_for(
        &self,
        root: &DataRoot,
        run: &RunId,
        check: &CheckSpec,
        workspace: &Path,
    ) -> Result<(), StepFailed> {
        note(root, run, &[&check.project.id]).map_err(|error| StepFailed::io("write to", &root.run(run), &error))?;
        let failed = |why: String| {
            let message = format!("the clone that `{}` is to check can't be made: {why}", check.name);
            StepFailed::new(Refusal::CheckoutFailed, message)
        };
        let place = self.place(root, &check.project).map_err(|error| failed(error.message))?;
        // A name that the launcher has made; whatever else it may say, it is one name.
        let name = Path::new(&check.bundle).file_name().ok_or_else(|| failed("its bundle has no name".to_owned()))?;
        let bundle = root.integrations().join(name);
        let digest = std::fs::File::open(&bundle).and_then(|mut file| Digest::of_reader(&mut file));
        match digest {
            Ok(found) if found == check.bundle_digest => {}
            Ok(_) => return Err(failed("its bundle has changed".to_owned())),
            Err(_) => return Err(failed("its bundle is gone with the host that made it; apply again".to_owned())),
        }
        let clone = workspace.join(&check.project.id);
        check_out(&place, &bundle, &check.commit, &check.branch, &clone).map_err(|error| failed(error_chain(&error)))
    }

    /// Where the project's state is, and what it is worked on with.
    pub(super) fn place(&self, root: &DataRoot, project: &Project) -> Result<Place, RpcError> {
        let git = self.git.clone().ok_or_else(|| {
            RpcError::refused(Refusal::CheckoutFailed, "there is no git\nhint: install it, or set `gitPath`")
        })?;
        let containment = self.containment.get_or_init(|| Containment::detect(&self.bubblewrap, self.owner)).clone();
        let state = root.checkout_state(&Digest::of(project.root.as_bytes()));
        Ok(Place { root: PathBuf::from(&project.root), state, git, owner: self.owner, containment })
    }

    fn step(&self, root: &DataRoot, project: &Project, workspace: &Path) -> Result<ProjectCheckout, StepFailed> {
        let failed = |why: String| {
            let message = format!("the clone of project `{}` can't be made: {why}", project.id);
            StepFailed::new(Refusal::CheckoutFailed, message)
        };
        let git = self.git.clone().ok_or_else(|| failed("there is no git; install it, or set `gitPath`".to_owned()))?;
        let containment = self.containment.get_or_init(|| Containment::detect(&self.bubblewrap, self.owner)).clone();
        let key = Digest::of(project.root.as_bytes());
        let request = Request {
            clone: workspace.join(&project.id),
            root: PathBuf::from(&project.root),
            branch: None,
            state: root.checkout_state(&key),
            git,
            owner: self.owner,
            containment,
        };
        let checkout = sync(&request).map_err(|error| failed(error_chain(&error)))?;
        tracing::info!(project.id = %project.id, checkout.verdict = %checkout.verdict, "Checked a project out");
        Ok(recorded(project.id.clone(), checkout))
    }
}

fn recorded(project: Name, checkout: Checkout) -> ProjectCheckout {
    let Checkout { verdict, reason, detail, branch, base, tip, distrusted } = checkout;
    let detail = Some(detail).filter(|detail| !detail.is_empty());
    ProjectCheckout { project, verdict, reason, detail, branch, base, tip, tree: None, distrusted }
}

/// True when a project has no clone below `workspace`.
pub(super) fn is_missing(workspace: &Path, project: &Name) -> bool {
    std::fs::symlink_metadata(workspace.join(project)).is_err()
}

/// Removes the clones that a run has made. Nobody has worked in them: its adapter was never started.
pub(super) fn undo(root: &DataRoot, run: &RunId, workspace: &Path) -> std::io::Result<()> {
    let note = note_path(root, run);
    let noted = match std::fs::read_to_string(&note) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        read => read?,
    };
    for project in noted.lines().filter_map(|line| line.parse::<Name>().ok()) {
        remove_tree(&workspace.join(&project))?;
    }
    std::fs::remove_file(note)
}

/// Notes which clones a run is about to make, so that they can be undone also by whoever comes after a crash.
fn note(root: &DataRoot, run: &RunId, projects: &[&Name]) -> std::io::Result<()> {
    let mut file =
        std::fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(note_path(root, run))?;
    projects.iter().try_for_each(|project| writeln!(file, "{project}"))?;
    file.sync_all()
}

fn note_path(root: &DataRoot, run: &RunId) -> PathBuf {
    root.run(run).join("new-checkouts")
}
