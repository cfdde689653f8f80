//! Clones of projects in workspaces: brought up to date before a run, and their work taken out after it, under guard.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use jiff::Timestamp;
use mosaic_checkout::{
    About, Checkout, Containment, HarvestLimits, HarvestRequest, Place, Request, check_out, harvest, locate, sync,
    tree_identity,
};
use mosaic_config::Config;
use mosaic_data_root::{DataRoot, remove_tree};
use mosaic_ids::{Digest, Name, RunId};
use mosaic_lifecycle::error_chain;
use mosaic_record::{CheckSpec, HarvestFailure, Project, ProjectCheckout, ProjectHarvest, Refusal};
use mosaic_rpc::RpcError;

use super::prepare::{Places, StepFailed};

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

    /// Makes or updates the clone of each project of a run. Blocks for as long as git takes.
    ///
    /// # Errors
    /// When a missing clone can't be made; those that were made before it are noted, to be undone.
    pub(super) fn take(&self, places: &Places, workspace: &Path) -> Result<Vec<ProjectCheckout>, StepFailed> {
        let (root, run, projects) = (&places.root, &places.run_id, &places.spec.projects);
        let new: Vec<&Name> =
            projects.iter().map(|project| &project.id).filter(|id| is_missing(workspace, id)).collect();
        note(root, run, &new).map_err(|error| StepFailed::io("write to", &root.run(run), &error))?;
        projects.iter().map(|project| self.step(places, project, workspace)).collect()
    }

    /// Makes the fresh clone that a check runs on. Blocks for as long as git takes.
    ///
    /// # Errors
    /// When it can't be made; it is noted then, to be undone.
    pub(super) fn take_for(&self, places: &Places, check: &CheckSpec, workspace: &Path) -> Result<(), StepFailed> {
        let Places { run_id: run, root, .. } = places;
        note(root, run, &[&check.project.id]).map_err(|error| StepFailed::io("write to", &root.run(run), &error))?;
        let failed = |why: String| {
            let message = format!("the clone that `{}` is to check can't be made: {why}", check.name);
            StepFailed::new(Refusal::CheckoutFailed, message)
        };
        let place = self.place(root, &check.project).map_err(|error| failed(error.message))?;
        // A name that the launcher has made; whatever else it may say, it is one name.
        let name = Path::new(&check.bundle).file_name().ok_or_else(|| failed("its bundle has no name".to_owned()))?;
        let bundle = root.integrations().join(name);
        let digest = File::open(&bundle).and_then(|mut file| Digest::of_reader(&mut file));
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
        const NO_GIT: &str = "there is no git; install it, or set `gitPath`";
        let git = self.git.clone().ok_or_else(|| RpcError::refused(Refusal::CheckoutFailed, NO_GIT))?;
        let containment = self.containment.get_or_init(|| Containment::detect(&self.bubblewrap, self.owner)).clone();
        let (root, state) = (PathBuf::from(&project.root), state(root, project));
        Ok(Place { root, state, git, owner: self.owner, containment })
    }

    fn step(&self, places: &Places, project: &Project, workspace: &Path) -> Result<ProjectCheckout, StepFailed> {
        let failed = |why: &str| {
            let message = format!("the clone of project `{}` can't be made: {why}", project.id);
            StepFailed::new(Refusal::CheckoutFailed, message)
        };
        let place = self.place(&places.root, project).map_err(|error| failed(&error.message))?;
        let Place { root, state, git, owner, containment } = place;
        let clone = workspace.join(&project.id);
        let request = Request { clone, root, branch: None, state, git, owner, containment };
        let checkout = sync(&request).map_err(|error| failed(&error_chain(&error)))?;
        tracing::info!(project.id = %project.id, checkout.verdict = %checkout.verdict, "Checked a project out");
        // Of a clone that is at the root's tip it is known; another one has to be looked through.
        let tree = checkout.tree.clone().or_else(|| self.tree(places, project, workspace, checkout.tip.clone()));
        Ok(recorded(project.id.clone(), checkout, tree))
    }

    /// Identity of the tree that a run finds; `None` when it can't be told.
    fn tree(&self, places: &Places, project: &Project, workspace: &Path, tip: Option<String>) -> Option<String> {
        let _alone = alone(&places.root, project).ok()?;
        // Identities have no date.
        let place = self.place(&places.root, project).ok()?;
        let clone = workspace.join(&project.id);
        tree_identity(&harvest_request(places, project, place, clone, (tip, Timestamp::UNIX_EPOCH)))
    }

    /// Takes the work of a run that ended at `ended` out of the clone of one of its projects. Blocks for as long as git
    /// takes; `None` when `go_on` says no once it is this one's turn.
    pub(super) fn harvest(
        &self,
        places: &Places,
        checkout: &ProjectCheckout,
        ended: Timestamp,
        go_on: impl Fn() -> bool,
    ) -> Option<ProjectHarvest> {
        let failed = |failure, detail: String| {
            let project = checkout.project.clone();
            Some(ProjectHarvest {
                project,
                work: None,
                failure: Some(failure),
                detail: Some(detail),
                distrusted: vec![],
            })
        };
        let Some(project) = places.spec.projects.iter().find(|project| project.id == checkout.project) else {
            return failed(HarvestFailure::HostFailed, "the run's spec does not name the project".to_owned());
        };
        let Some(workspace) = places.workspace() else {
            return failed(HarvestFailure::WorkspaceMissing, "the run has no workspace".to_owned());
        };
        let place = match self.place(&places.root, project) {
            Ok(place) => place,
            Err(error) => return failed(HarvestFailure::GitFailed, error.message),
        };
        let _alone = match alone(&places.root, project) {
            Ok(alone) => alone,
            Err(error) => return failed(HarvestFailure::HostFailed, error.to_string()),
        };
        if !go_on() {
            return None;
        }
        let made = DirBuilder::new().recursive(true).mode(0o700).create(places.root.harvest(&places.run_id));
        if let Err(error) = made {
            return failed(HarvestFailure::HostFailed, error.to_string());
        }
        let clone = workspace.join(&project.id);
        Some(harvest(&harvest_request(places, project, place, clone, (checkout.tip.clone(), ended))))
    }
}

fn harvest_request(
    places: &Places,
    project: &Project,
    place: Place,
    clone: PathBuf,
    (tip, finished_at): (Option<String>, Timestamp),
) -> HarvestRequest {
    let Places { run_id, spec, root } = places;
    HarvestRequest {
        clone,
        root: place.root,
        state: place.state,
        git: place.git,
        owner: place.owner,
        containment: place.containment,
        tip,
        out: root.harvest(run_id).join(&project.id),
        named: format!("harvest/{}", project.id),
        about: About {
            run_id: run_id.clone(),
            project: project.id.clone(),
            task_id: spec.task_id.clone(),
            requirement: None,
            adapter: spec.adapter.clone(),
            model: spec.model.clone(),
            finished_at,
        },
        limits: HarvestLimits { entries: spec.limits.harvest_entries, bytes: spec.limits.harvest_bytes },
    }
}

/// The host's own directory for a project.
fn state(root: &DataRoot, project: &Project) -> PathBuf {
    root.checkout_state(&Digest::of(project.root.as_bytes()))
}

/// Waits until nobody else looks into a clone of this project, this process and a host that is just ending included: what is
/// looked into is put together in one place for each project. It is this one's turn until the file is dropped.
fn alone(root: &DataRoot, project: &Project) -> std::io::Result<File> {
    let state = state(root, project);
    DirBuilder::new().recursive(true).mode(0o700).create(&state)?;
    let lock =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(state.join("harvest.lock"))?;
    lock.lock()?;
    Ok(lock)
}

fn recorded(project: Name, checkout: Checkout, tree: Option<String>) -> ProjectCheckout {
    let Checkout { verdict, reason, detail, branch, base, tip, tree: _, distrusted } = checkout;
    let detail = Some(detail).filter(|detail| !detail.is_empty());
    ProjectCheckout { project, verdict, reason, detail, branch, base, tip, tree, distrusted }
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

/// Forgets which clones a run has made: it is over, and they stay.
pub(super) fn forget(root: &DataRoot, run: &RunId) {
    if let Err(error) = std::fs::remove_file(note_path(root, run))
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(run.id = %run, %error, "Could not remove what was noted of new clones");
    }
}

/// Notes which clones a run is about to make, so that they can be undone also by whoever comes after a crash.
fn note(root: &DataRoot, run: &RunId, projects: &[&Name]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(note_path(root, run))?;
    projects.iter().try_for_each(|project| writeln!(file, "{project}"))?;
    file.sync_all()
}

fn note_path(root: &DataRoot, run: &RunId) -> PathBuf {
    root.run(run).join("new-checkouts")
}
