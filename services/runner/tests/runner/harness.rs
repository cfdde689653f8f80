//! A data root with a runner on it, bundles for it, and what comes out.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mosaic_bundle::{Contents, Launch, WorkspaceKind};
use mosaic_data_root::{Credentials, DataRoot, Service};
use mosaic_ids::{Digest, RunId};
use mosaic_lifecycle::SystemClock;
use mosaic_proto::runner::v1 as pb;
use mosaic_proto::runner::v1::runner_service_client::RunnerServiceClient;
use mosaic_record::{Backend, Environment, Limits, Outcome, RunEvent};
use mosaic_rpc::{AuthedChannel, Dial, RpcError};
use mosaic_runner::{Handle, Options};
use tempfile::TempDir;

use crate::broker::{FakeBroker, Taken};

/// Longest time that anything here may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Uid of sandboxes where the tests run as root.
pub(crate) const SANDBOX_UID: u32 = 65532;

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Uid under which adapters run here.
pub(crate) fn adapter_uid() -> u32 {
    if is_root() { SANDBOX_UID } else { nix::unistd::geteuid().as_raw() }
}

/// True where bubblewrap works; says so when it does not.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub(crate) fn has_bubblewrap() -> bool {
    match mosaic_runner::probe::host().bubblewrap {
        Ok(_) => true,
        Err(missing) => {
            let required = std::env::var_os("MOSAIC_REQUIRE_ALL").is_some();
            assert!(!required, "bubblewrap is required: {missing}");
            eprintln!("SKIPPED: {missing}");
            false
        }
    }
}

/// The backends that work here.
pub(crate) fn backends() -> Vec<Backend> {
    if has_bubblewrap() { vec![Backend::Bubblewrap, Backend::Host] } else { vec![Backend::Host] }
}

/// Waits until `condition` gives something.
pub(crate) async fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The executable that acts as the shim, and as a runner of its own.
pub(crate) fn runner_executable() -> PathBuf {
    std::env::var_os("MOSAIC_TEST_RUNNER").map_or_else(|| env!("CARGO_BIN_EXE_mosaic-runner").into(), PathBuf::from)
}

/// Gives every span its ids, as in a real process.
fn trace() {
    static TELEMETRY: OnceLock<mosaic_telemetry::Telemetry> = OnceLock::new();
    TELEMETRY.get_or_init(|| {
        let options = mosaic_telemetry::Options {
            service_name: "test".to_owned(),
            otlp_endpoint: None,
            log_format: mosaic_telemetry::LogFormat::Off,
            log_filter: "info".to_owned(),
        };
        mosaic_telemetry::Telemetry::init(&options).expect("once")
    });
}

/// A data root with a broker, and a runner unless a test starts its own.
pub(crate) struct World {
    pub(crate) root: DataRoot,
    pub(crate) broker: FakeBroker,
    pub(crate) runner: Option<Handle>,
    scratch: TempDir,
}

/// One run, ready to be started.
pub(crate) struct Run {
    pub(crate) id: RunId,
    pub(crate) digest: Digest,
}

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) events: Vec<RunEvent>,
    pub(crate) outcome: Outcome,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Options)) -> Self {
        let mut world = Self::without_runner().await;
        let mut options = world.options();
        change(&mut options);
        world.runner = Some(mosaic_runner::start(options).await.expect("the runner starts"));
        world
    }

    pub(crate) async fn without_runner() -> Self {
        trace();
        let scratch = tempfile::tempdir().expect("scratch");
        // As after `umask 077`: whoever runs as another uid must get in without it.
        std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o700)).expect("private");
        let root = DataRoot::create_or_open(&scratch.path().join("data")).expect("data root");
        Credentials::of(&root).ensure().expect("credentials");
        let broker = FakeBroker::start(&root).await;
        Self { root, broker, runner: None, scratch }
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            root: self.root.clone(),
            environment: Environment::Development,
            sandbox_uid: SANDBOX_UID,
            shim_executable: runner_executable(),
            bubblewrap: mosaic_runner::probe::locate(std::env::var_os("PATH").as_deref()),
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// A directory beside the data root.
    pub(crate) fn scratch(&self) -> &std::path::Path {
        self.scratch.path()
    }

    pub(crate) fn client(&self, as_whom: Service) -> RunnerServiceClient<AuthedChannel> {
        let token = Credentials::of(&self.root).service(as_whom).expect("token");
        RunnerServiceClient::new(Dial::new(&self.root, Service::Runner, &token).channel())
    }

    /// Seals a bundle whose request is `script`, for the adapter that runs it.
    pub(crate) fn scripted(&self, script: &str, backend: Backend, change: impl FnOnce(&mut Launch)) -> Run {
        self.bundle("scripted", script, backend, change)
    }

    /// Seals a bundle for an adapter that comes with Mosaic.
    pub(crate) fn bundle(
        &self,
        adapter: &str,
        request: &str,
        backend: Backend,
        change: impl FnOnce(&mut Launch),
    ) -> Run {
        let adapter = mosaic_adapters::find(&adapter.parse().expect("name"), &[]).expect("adapter");
        self.seal(&adapter.script, &adapter.metadata_text, &adapter.name, request, backend, change)
    }

    pub(crate) fn seal(
        &self,
        script: &[u8],
        metadata: &str,
        adapter: &mosaic_ids::Name,
        request: &str,
        backend: Backend,
        change: impl FnOnce(&mut Launch),
    ) -> Run {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let id = RunId::new(jiff::Timestamp::now(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut launch = Launch {
            run_id: id.clone(),
            adapter: adapter.clone(),
            provider: None,
            model: None,
            thinking: None,
            tools: Vec::new(),
            workspace: WorkspaceKind::Run,
            session: None,
            expect_exact: None,
            mock_response: None,
            backend,
            workspace_mode: mosaic_record::WorkspaceMode::Sandbox,
            containment: true,
            mixed_wiring_allowed: false,
            workspace_root: None,
            warnings: vec![],
            limits: Limits { timeout_seconds: 50, stop_grace_seconds: 2, linger_seconds: 2, ..Limits::default() },
        };
        change(&mut launch);
        self.directory(&self.root.run(&id), false);
        match &launch.workspace {
            WorkspaceKind::None => {}
            WorkspaceKind::Run => self.directory(&self.root.run_workspace(&id), true),
            WorkspaceKind::Named { name } => self.directory(&self.root.workspace(name), true),
        }
        if let Some(name) = &launch.session {
            self.directory(&self.root.session(name), true);
        }
        let contents = Contents {
            launch: &launch,
            request,
            system_prompt: "# prompt",
            mission: "{}",
            policy: "{}",
            tools: "{}",
            adapter_script: script,
            adapter_metadata: metadata,
        };
        let digest = mosaic_bundle::seal(&self.root.bundle(&id), &contents).expect("sealed");
        Run { id, digest }
    }

    fn directory(&self, path: &std::path::Path, for_adapter: bool) {
        std::fs::DirBuilder::new().mode(0o700).recursive(true).create(path).expect("directory");
        if for_adapter && is_root() {
            std::os::unix::fs::chown(path, Some(SANDBOX_UID), Some(SANDBOX_UID)).expect("owner");
        }
    }

    pub(crate) async fn start(&self, run: &Run, epoch: i64) -> Result<pb::Execution, RpcError> {
        let request = pb::StartRunRequest { run_id: run.id.to_string(), epoch, bundle_digest: run.digest.to_string() };
        let answer = self.client(Service::Launcher).start_run(request).await;
        answer.map(|answer| answer.into_inner().execution.expect("execution")).map_err(|s| RpcError::from_status(&s))
    }

    pub(crate) async fn stop(&self, run: &Run) -> pb::Execution {
        let request = pb::StopRunRequest { run_id: run.id.to_string() };
        let answer = self.client(Service::Launcher).stop_run(request).await.expect("stopped");
        answer.into_inner().execution.expect("execution")
    }

    pub(crate) async fn execution(&self, run: &Run, wait: Duration) -> pb::Execution {
        let wait = prost_types::Duration::try_from(wait).expect("short");
        let request = pb::GetExecutionRequest { run_id: run.id.to_string(), wait: Some(wait) };
        let answer = self.client(Service::Launcher).get_execution(request).await.expect("known");
        answer.into_inner().execution.expect("execution")
    }

    /// Waits for the end of a run that was started, and gives all of it.
    pub(crate) async fn finished(&self, run: &Run) -> Finished {
        let execution = self.execution(run, PATIENCE).await;
        assert_eq!(execution.state(), pb::execution::State::Ended);
        self.reported(run).await
    }

    /// Waits for the terminal report of a run, and gives all of it.
    pub(crate) async fn reported(&self, run: &Run) -> Finished {
        let taken = wait_for("the terminal report", || {
            let taken = self.taken(run);
            taken.last().is_some_and(|last| matches!(last.event, RunEvent::Ended(_))).then_some(taken)
        });
        let events: Vec<RunEvent> = taken.await.into_iter().map(|taken| taken.event).collect();
        let Some(RunEvent::Ended(outcome)) = events.last().cloned() else { unreachable!("waited for") };
        let read = |path: PathBuf| std::fs::read(path).expect("readable");
        let (stdout, stderr) = (read(self.root.run_stdout(&run.id)), read(self.root.run_stderr(&run.id)));
        let state = self.root.run_state(&run.id);
        wait_for("the removal of the private state", || (!state.exists()).then_some(())).await;
        self.assert_clean(run);
        Finished { events, outcome: *outcome, stdout, stderr }
    }

    pub(crate) fn taken(&self, run: &Run) -> Vec<Taken> {
        self.broker.taken(run.id.as_str())
    }

    /// Starts a run and waits for its end.
    pub(crate) async fn run(&self, run: &Run) -> Finished {
        self.start(run, 1).await.expect("started");
        self.finished(run).await
    }

    /// Nothing of a run is left: no process, no control group, no private state.
    pub(crate) fn assert_clean(&self, run: &Run) {
        let directory = self.root.run(&run.id);
        assert!(!self.root.run_state(&run.id).exists(), "private state is left");
        assert_eq!(processes_in(&directory), [0; 0], "processes are left");
        assert_eq!(groups_of(&run.id), [""; 0], "control groups are left");
    }

    pub(crate) async fn end(mut self) {
        if let Some(runner) = self.runner.take() {
            runner.drain(Duration::from_secs(10)).await;
        }
    }
}

/// Processes whose working directory or environment lies in `directory`.
pub(crate) fn processes_in(directory: &std::path::Path) -> Vec<i32> {
    let text = directory.to_str().expect("utf-8").as_bytes();
    let entries = std::fs::read_dir("/proc").expect("procfs");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let is_in = |pid: &i32| {
        let cwd = std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(directory));
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_zombie = state.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'));
        !is_zombie && (cwd || environment.windows(text.len()).any(|window| window == text))
    };
    pids.filter(|pid| *pid != std::process::id().cast_signed()).filter(is_in).collect()
}

/// Control groups whose name carries the run's id.
pub(crate) fn groups_of(run: &RunId) -> Vec<String> {
    let mut found = Vec::new();
    let mut directories: Vec<PathBuf> = vec!["/sys/fs/cgroup".into()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if name.contains(run.as_str()) {
                    found.push(entry.path().display().to_string());
                }
                directories.push(entry.path());
            }
        }
    }
    found
}
