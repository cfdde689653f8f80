use std::io::PipeReader;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mosaic_adapters::{Metadata, TurnMarker};
use mosaic_bundle::{Launch, WorkspaceKind, file};
use mosaic_ids::{Digest, RunId};
use mosaic_record::{Backend, Containment, Enforcement, Refusal, RunEvent};
use mosaic_shim::protocol::{Exposed, Rlimits, Start};

use super::drive::Running;
use super::{App, AppError, Execution, State};
use crate::capture::{Capture, Expectation, Prepared};
use crate::domain::enforcement::{Groups, enforcement, missing};
use crate::domain::environment::{Paths, environment};
use crate::domain::standstill::Looks;
use crate::domain::{admission, turn::Turn};
use crate::probe;
use crate::sandbox::cgroup::Controller;
use crate::sandbox::{Control, Made, Places, Plan, Sandbox, SandboxError};
use crate::store::{self, ExecutionRecord, Spool};

/// The bundle's files that the adapter may read. The others say what the runner does, and what answer is expected.
const DOCUMENTS: [&str; 5] = [file::REQUEST, file::SYSTEM_PROMPT, file::MISSION, file::POLICY, file::TOOLS];

/// A bundle that may run: everything that a start needs to know.
#[derive(Debug)]
struct Admitted {
    launch: Launch,
    metadata: Metadata,
    request: String,
    containment: Containment,
}

/// What a start has put on disk: what is removed again when it fails, and nothing else.
#[derive(Debug, Default, Clone, Copy)]
struct OnDisk {
    /// The directory of the execution.
    execution: bool,
    /// The run's private state.
    private: bool,
}

impl App {
    /// From the call to the running adapter. What was made is undone when it does not get there.
    pub(super) async fn prepare(&self, execution: &Arc<Execution>, digest: &Digest) -> Result<Running, AppError> {
        self.refuse_second_execution(&execution.run)?;
        let admitted = self.admit(&execution.run, digest).await?;
        let (shim, shim_digest) = self.shim().await.map_err(AppError::fault("could not copy the shim"))?;
        let plan = self.plan(&admitted, &execution.run, shim);
        let record = ExecutionRecord {
            run_id: execution.run.clone(),
            epoch: execution.status().epoch,
            sandbox: plan.name.clone(),
            backend: admitted.launch.backend,
            bundle_digest: digest.clone(),
            shim_digest,
            groups: self.parts.workshop.cgroups.directories(&plan.name),
            anchor: None,
        };
        let mut on_disk = OnDisk::default();
        match self.build(execution, &admitted, &plan, record, &mut on_disk).await {
            Ok(built) => Ok(self.take_over(execution, admitted, built)),
            Err(error) => {
                self.undo(&execution.run, on_disk);
                Err(error)
            }
        }
    }

    /// What is on disk of an execution is the only proof of its sandbox, and is never written over.
    fn refuse_second_execution(&self, run: &RunId) -> Result<(), AppError> {
        let found = store::has_record(&self.parts.root.execution(run));
        if found.map_err(AppError::fault("could not look for an earlier execution"))? {
            let message = format!("an earlier execution of `{run}` is recorded here; a retry is a new run");
            return Err(AppError::refused(Refusal::StaleLease, message));
        }
        Ok(())
    }

    async fn admit(&self, run: &RunId, digest: &Digest) -> Result<Admitted, AppError> {
        let (bundle, digest) = (self.parts.root.bundle(run), digest.clone());
        let read = tokio::task::spawn_blocking(move || read_bundle(&bundle, &digest));
        let (launch, metadata, request) = read.await.map_err(|error| AppError::unavailable(&error))??;
        if launch.run_id != *run {
            let message = format!("the bundle was sealed for `{}`", launch.run_id);
            return Err(AppError::refused(Refusal::BundleChanged, message));
        }
        admission::admit(&launch, self.parts.environment)
            .map_err(|refused| AppError::refused(refused.refusal, refused.message))?;
        let containment = self.containment(launch.backend)?;
        Ok(Admitted { launch, metadata, request, containment })
    }

    /// What holds a sandbox of this kind here, or why nothing does.
    fn containment(&self, backend: Backend) -> Result<Containment, AppError> {
        let workshop = &self.parts.workshop;
        let groups = Groups {
            memory: workshop.cgroups.enforcement(Controller::Memory),
            processes: workshop.cgroups.enforcement(Controller::Pids),
            cpus: workshop.cgroups.enforcement(Controller::Cpu),
        };
        let limits = enforcement(backend, groups);
        let unenforced = missing(self.parts.environment, &limits);
        if !unenforced.is_empty() {
            let message = format!("nothing here enforces {}", unenforced.join(", "));
            return Err(AppError::refused(Refusal::SandboxUnavailable, message));
        }
        let is_contained = backend != Backend::Host;
        let own = nix::unistd::geteuid().as_raw();
        Ok(Containment {
            backend,
            uid: self.parts.identity.map_or(own, |identity| identity.uid),
            own_root: is_contained,
            no_network: is_contained,
            syscall_filter: is_contained,
            limits,
        })
    }

    fn plan(&self, admitted: &Admitted, run: &RunId, shim: std::path::PathBuf) -> Plan {
        let (root, launch) = (&self.parts.root, &admitted.launch);
        let bundle = root.bundle(run);
        Plan {
            name: format!("{run}-{:08x}", rand::random::<u32>()),
            shim,
            adapter: launch.adapter.clone(),
            adapter_dir: bundle.join(file::ADAPTER),
            bundle,
            documents: DOCUMENTS.map(str::to_owned).to_vec(),
            workspace: match &launch.workspace {
                WorkspaceKind::None => None,
                WorkspaceKind::Run => Some(root.run_workspace(run)),
                WorkspaceKind::Named { name } => Some(root.workspace(name)),
            },
            session: launch.session.as_ref().map(|name| root.session(name)),
            state: root.run_state(run),
            limits: launch.limits,
            identity: self.parts.identity,
        }
    }

    /// Puts the sandbox's name on disk, makes the sandbox, and starts the adapter in it.
    async fn build(
        &self,
        execution: &Execution,
        admitted: &Admitted,
        plan: &Plan,
        mut record: ExecutionRecord,
        on_disk: &mut OnDisk,
    ) -> Result<Built, AppError> {
        let directory = self.parts.root.execution(&execution.run);
        on_disk.execution = true;
        let written = store::write_record(&directory, &record);
        written.map_err(AppError::fault("could not record the sandbox before making it"))?;
        let spool = Spool::open(&directory).map_err(AppError::fault("could not make the spool"))?;
        let outputs = Outputs::prepare(self, &execution.run, &admitted.launch)?;
        execution.update(|status| status.sandbox.clone_from(&plan.name));
        match self.make(admitted, plan, &mut record, on_disk).await {
            Ok(Made { mut sandbox, control, stdout, stderr }) => {
                let started = Instant::now();
                match outputs.keep(stdout, stderr, &admitted.launch) {
                    Ok((stdout, stderr)) => Ok(Built { sandbox, control, stdout, stderr, spool, started }),
                    Err(error) => {
                        sandbox.end().await;
                        Err(AppError::fault("could not begin to keep the output")(error))
                    }
                }
            }
            Err(error) => {
                outputs.discard();
                Err(error)
            }
        }
    }

    /// Makes the sandbox and starts the adapter in it; ends it again when the adapter does not start.
    async fn make(
        &self,
        admitted: &Admitted,
        plan: &Plan,
        record: &mut ExecutionRecord,
        on_disk: &mut OnDisk,
    ) -> Result<Made, AppError> {
        store::make_private(&plan.state, plan.identity)
            .map_err(AppError::fault("could not make the run's private state"))?;
        on_disk.private = true;
        let backend = admitted.launch.backend;
        let mut made = match self.parts.workshop.make(backend, plan).await {
            Ok(made) => made,
            Err(error) => return Err(self.explain(backend, &error).await),
        };
        record.anchor = made.sandbox.anchor();
        let limit = Duration::from_secs(plan.limits.sandbox_start_seconds);
        let started = match store::write_record(&self.parts.root.execution(&record.run_id), record) {
            Ok(()) => made.control.start(start(admitted, plan, backend), limit).await.map_err(AppError::from),
            Err(error) => Err(AppError::fault("could not record the sandbox")(error)),
        };
        match started {
            Ok(()) => Ok(made),
            Err(error) => {
                made.sandbox.end().await;
                Err(error)
            }
        }
    }

    /// Why a sandbox can't be made: the control that this host lacks, if it lacks one, with a way to mend that.
    async fn explain(&self, backend: Backend, error: &SandboxError) -> AppError {
        if backend == Backend::Bubblewrap {
            let program = self.parts.workshop.bubblewrap.clone();
            if let Ok(Err(missing)) = tokio::task::spawn_blocking(move || probe::bubblewrap(&program)).await {
                return AppError::unavailable(&missing);
            }
        }
        AppError::unavailable(error)
    }

    fn take_over(&self, execution: &Arc<Execution>, admitted: Admitted, built: Built) -> Running {
        let Admitted { launch, metadata, containment, .. } = admitted;
        let Built { sandbox, control, stdout, stderr, spool, started } = built;
        execution.publish_streams(stdout.reader(), stderr.reader());
        execution.open_spool(spool);
        let name = execution.status().sandbox;
        execution.report(self.parts.clock.now(), RunEvent::Running { sandbox: name, containment });
        execution.update(|status| status.state = State::Running);
        let turn = Turn::new(&metadata, &launch.limits);
        let looks = Looks::default();
        Running { sandbox, control, stdout, stderr, turn, launch, metadata, started, looks, unseen_end: None }
    }

    /// Removes what was made for a run that was not started.
    fn undo(&self, run: &RunId, on_disk: OnDisk) {
        let private = on_disk.private.then(|| mosaic_data_root::remove_tree(&self.parts.root.run_state(run)));
        let kept = on_disk.execution.then(|| match std::fs::remove_dir_all(self.parts.root.execution(run)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        });
        for error in [private, kept].into_iter().flatten().filter_map(Result::err) {
            tracing::warn!(run.id = %run, %error, "Could not undo a part of a start");
        }
    }
}

/// A sandbox in which the adapter runs, with everything that keeps what it does.
struct Built {
    sandbox: Sandbox,
    control: Control,
    stdout: Capture,
    stderr: Capture,
    spool: Spool,
    started: Instant,
}

/// The files that take the adapter's output. They are the proof that a run has run: none is ever written over.
struct Outputs {
    stdout: Prepared,
    stderr: Prepared,
}

impl Outputs {
    fn prepare(app: &App, run: &RunId, launch: &Launch) -> Result<Self, AppError> {
        let limit = launch.limits.output_bytes;
        let fault = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                AppError::refused(Refusal::StaleLease, format!("`{run}` has run already; a retry is a new run"))
            }
            _ => AppError::fault("could not make the output files")(error),
        };
        let stdout = Capture::prepare(&app.parts.root.run_stdout(run), limit).map_err(fault)?;
        match Capture::prepare(&app.parts.root.run_stderr(run), limit) {
            Ok(stderr) => Ok(Self { stdout, stderr }),
            Err(error) => {
                stdout.discard();
                Err(fault(error))
            }
        }
    }

    /// Begins to keep what the adapter writes.
    fn keep(self, stdout: PipeReader, stderr: PipeReader, launch: &Launch) -> std::io::Result<(Capture, Capture)> {
        let expectation = launch.expect_exact.clone().map(Expectation::new);
        Ok((self.stdout.keep(stdout, expectation)?, self.stderr.keep(stderr, None)?))
    }

    fn discard(self) {
        self.stdout.discard();
        self.stderr.discard();
    }
}

fn read_bundle(bundle: &Path, digest: &Digest) -> Result<(Launch, Metadata, String), AppError> {
    let changed = |error: &dyn std::fmt::Display| AppError::refused(Refusal::BundleChanged, error);
    let launch = mosaic_bundle::verify(bundle, digest).map_err(|error| changed(&error))?;
    let read = |name: &str| std::fs::read_to_string(bundle.join(name)).map_err(|error| changed(&error));
    let metadata = Metadata::parse(file::ADAPTER_METADATA, &read(file::ADAPTER_METADATA)?)
        .map_err(|error| AppError::refused(Refusal::UnknownAdapter, error))?;
    Ok((launch, metadata, read(file::REQUEST)?))
}

/// What the shim is told.
fn start(admitted: &Admitted, plan: &Plan, backend: Backend) -> Start {
    let Admitted { launch, metadata, request, containment } = admitted;
    let is_host = backend == Backend::Host;
    let places = if is_host { Places::on_host(plan) } else { Places::contained(plan) };
    let paths = Paths {
        bundle: places.bundle.clone(),
        workspace: places.workspace.clone(),
        session: places.session.clone(),
        home: places.home(),
        temporary: places.temporary.clone(),
        activity: places.activity(),
        turn_marker: places.turn_marker(),
    };
    let traceparent = mosaic_telemetry::current_traceparent().map(|parent| parent.to_string());
    let by_rlimit = |key: &str| matches!(containment.limits[key], Enforcement::Rlimit | Enforcement::RlimitPerUid);
    let limits = &plan.limits;
    Start {
        argv: vec!["/bin/sh".to_owned(), format!("{}/adapter.sh", places.adapter_dir)],
        env: environment(launch, metadata, request, &paths, traceparent.as_deref()),
        cwd: places.cwd(),
        identity: plan.identity,
        directories: places.private_directories(),
        rlimits: Rlimits {
            open_files: Some(limits.open_files),
            processes: by_rlimit("processes").then_some(limits.processes),
            data_bytes: by_rlimit("memoryBytes").then_some(limits.memory_bytes),
        },
        activity_dir: Some(places.activity()),
        turn_marker: (metadata.turn_marker != TurnMarker::None).then(|| places.turn_marker()),
        exposed: if is_host { exposed(plan) } else { Vec::new() },
    }
}

/// The directories that an adapter on the host works with.
fn exposed(plan: &Plan) -> Vec<Exposed> {
    let entry = |path: &Path, read_only| Exposed { path: path.to_string_lossy().into_owned(), read_only };
    let writable = [plan.workspace.as_deref(), plan.session.as_deref(), Some(&plan.state)];
    let mut exposed: Vec<Exposed> = writable.into_iter().flatten().map(|path| entry(path, false)).collect();
    exposed.push(entry(&plan.bundle, true));
    exposed
}
