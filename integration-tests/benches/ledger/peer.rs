//! Peers: each is started in a directory of its own, reachable from this machine only, and ended with the value.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::unistd::{Pid, geteuid};

use crate::load::one_in_flight;
use crate::samples::Turn;
use crate::{nats, postgresql, redis};

/// The user `nobody`, whom peers run as where this runs as root.
const NOBODY: u32 = 65534;
/// How long a peer may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// A system beside which appends are measured.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    server: Result<Server, String>,
}

/// A peer that runs.
pub(crate) struct Server {
    pub(crate) scratch: tempfile::TempDir,
    child: Child,
    /// Where its clients connect.
    pub(crate) address: String,
}

impl Peer {
    pub(crate) fn postgresql() -> Self {
        Self { name: "PostgreSQL", server: postgresql::start() }
    }

    pub(crate) fn nats() -> Self {
        Self { name: "NATS JetStream", server: nats::start() }
    }

    pub(crate) fn redis() -> Self {
        Self { name: "Redis Streams", server: redis::start() }
    }

    pub(crate) fn is_there(&self) -> bool {
        self.server.is_ok()
    }

    /// Why it is left out.
    pub(crate) fn why_not(&self) -> Option<&str> {
        self.server.as_ref().err().map(String::as_str)
    }

    /// Has `clients` append, each on a connection of its own and with one append in flight.
    pub(crate) async fn append(&self, clients: usize, length: Duration) -> Turn {
        let server = self.server.as_ref().expect("it is there");
        match self.name {
            "PostgreSQL" => one_in_flight(connect(clients, || postgresql::Client::new(server)).await, length).await,
            "NATS JetStream" => one_in_flight(connect(clients, || nats::Client::new(server)).await, length).await,
            _ => one_in_flight(connect(clients, || redis::Client::new(server)).await, length).await,
        }
    }
}

async fn connect<C, F: Future<Output = C>>(clients: usize, client: impl Fn() -> F) -> Vec<C> {
    let mut connected = Vec::new();
    for _ in 0..clients {
        connected.push(client().await);
    }
    connected
}

impl Server {
    /// Starts `command` as somebody without privileges.
    pub(crate) fn start(scratch: tempfile::TempDir, mut command: Command, address: String) -> Result<Self, String> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = unprivileged(&mut command).current_dir(scratch.path()).spawn();
        let child = child.map_err(|error| format!("`{program}` does not start: {error}"))?;
        Ok(Self { scratch, child, address })
    }

    /// Waits until `ready` says where clients connect, or that they can.
    pub(crate) fn wait(mut self, mut ready: impl FnMut(&Path) -> Option<String>) -> Result<Self, String> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(address) = ready(self.scratch.path()) {
                self.address = address;
                return Ok(self);
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let log = std::fs::read_to_string(self.scratch.path().join("log")).unwrap_or_default();
                return Err(format!("it ended with {status}: {log}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err("it does not become ready".to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // PostgreSQL waits for its clients at SIGTERM and sends them away at SIGINT; the others make no difference.
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a pid"));
        let _gone_already = kill(pid, Signal::SIGINT);
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _gone_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Runs to its end, as the peer itself will run.
pub(crate) fn prepare(command: &mut Command) -> Result<(), String> {
    let output = unprivileged(command).stdout(Stdio::piped()).output().map_err(|error| error.to_string())?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(told.trim().to_owned()) }
}

fn unprivileged(command: &mut Command) -> &mut Command {
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.env_remove("HOME").stdin(Stdio::null())
}

/// A log for a peer, in its directory.
pub(crate) fn log_to(scratch: &Path, command: &mut Command) {
    let log = std::fs::File::create(scratch.join("log")).expect("a log");
    command.stdout(log.try_clone().expect("a copy")).stderr(log);
}

/// A directory on the file system that everything is measured on.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("mosaic-bench").tempdir().expect("a directory")
}

/// A directory of a peer's own.
pub(crate) fn scratch_of_peer() -> tempfile::TempDir {
    let scratch = scratch();
    std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o700)).expect("its mode");
    if geteuid().is_root() {
        chown(scratch.path(), Some(NOBODY), Some(NOBODY)).expect("its owner");
    }
    scratch
}

/// The first of these programs that there is; a name is looked for in `PATH`.
pub(crate) fn find(names: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    // Where Debian puts servers, which is not in everybody's path.
    directories.push("/usr/sbin".into());
    names.iter().flat_map(|name| directories.iter().map(move |directory| directory.join(name))).find(|at| at.is_file())
}

/// What is never written to a disk can't be measured.
pub(crate) fn check_file_system() -> Result<(), String> {
    let place = std::env::temp_dir();
    let found = statfs(&place).map_err(|error| format!("`{}`: {error}", place.display()))?;
    if found.filesystem_type() == TMPFS_MAGIC {
        return Err(format!("`{}` is in memory; set TMPDIR to a directory on a disk", place.display()));
    }
    Ok(())
}
