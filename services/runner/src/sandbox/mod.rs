//! Sandboxes: made by a plan, ended as a whole, and proven gone.
//!
//! Invariants:
//! - A sandbox that can't be made as planned is an error; nothing weaker is made instead.
//! - The unit of killing is the pid namespace (or, on the host, everything below the shim), never one process.
//! - A sandbox counts as gone only when the kernel says so: the first process inside has ended, the process that made it
//!   was waited for, and its control groups are empty.

mod bubblewrap;
pub(crate) mod cgroup;
mod control;
mod host;
mod pidfd;
mod plan;
mod process;
mod seccomp;
mod shim_copy;

use std::io::{self, PipeReader, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mosaic_record::Backend;
use mosaic_shim::protocol::Word;
use tokio::time::timeout;

use cgroup::{Cgroups, Group, Usage};
use pidfd::Pidfd;
use process::{Inherited, Process};

pub(crate) use bubblewrap::System;
pub(crate) use control::{Control, StartError};
pub(crate) use plan::{Places, Plan};
pub(crate) use shim_copy::install as install_shim;

/// How much of what bubblewrap says about its failure is told on, in bytes.
const COMPLAINT_BYTES: u64 = 1024;

/// How often killing is repeated while a sandbox is not gone.
const KILL_INTERVAL: Duration = Duration::from_millis(100);

/// How often the control groups are asked whether they are empty once everything else says so.
const EMPTY_INTERVAL: Duration = Duration::from_millis(2);

/// How long a process that was killed may take to end.
const CLEAR_LIMIT: Duration = Duration::from_secs(10);

/// Why a sandbox can't be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SandboxError {
    /// A part of it can't be made.
    #[error("can't make {what}")]
    Part {
        /// What.
        what: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The system call filter can't be made.
    #[error(transparent)]
    Filter(#[from] seccomp::FilterError),
    /// The sandbox ended before the shim was ready in it.
    #[error("the sandbox did not come up: {complaint}")]
    Failed {
        /// What its maker says.
        complaint: String,
    },
    /// It took too long.
    #[error("the sandbox was not ready within {} s", limit.as_secs())]
    Late {
        /// The limit.
        limit: Duration,
    },
    /// This build can't make sandboxes of this kind.
    #[error("the backend `{backend}` is not available in this build")]
    NoBackend {
        /// Which.
        backend: Backend,
    },
}

fn part(what: &'static str) -> impl FnOnce(io::Error) -> SandboxError {
    move |source| SandboxError::Part { what, source }
}

/// What sandboxes are made with on this host.
#[derive(Debug)]
pub(crate) struct Workshop {
    /// Where control groups can be made.
    pub(crate) cgroups: Cgroups,
    /// What the host's system looks like.
    pub(crate) system: System,
    /// The program bubblewrap.
    pub(crate) bubblewrap: PathBuf,
}

/// A sandbox that is there: what the kernel knows of it. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Sandbox {
    backend: Backend,
    state: PathBuf,
    process: Process,
    /// The first process inside, where there is a namespace.
    init: Option<Pidfd>,
    group: Group,
}

/// A sandbox that was made: itself, its shim, and the adapter's output.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) sandbox: Sandbox,
    pub(crate) control: Control,
    pub(crate) stdout: PipeReader,
    pub(crate) stderr: PipeReader,
}

/// Which process a sandbox stands and falls with: enough to find it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Anchor {
    /// Its pid.
    pub(crate) pid: i32,
    /// When it was started, in clock ticks since boot: what tells it from a later one of the same pid.
    pub(crate) start_time: u64,
}

impl Workshop {
    /// Makes the sandbox and waits until its shim is ready.
    ///
    /// # Errors
    /// When it can't be made as planned within the limit; nothing of it is left then.
    pub(crate) async fn make(&self, backend: Backend, plan: &Plan) -> Result<Made, SandboxError> {
        let limit = Duration::from_secs(plan.limits.sandbox_start_seconds);
        let (ours, theirs) = UnixStream::pair().map_err(part("the control socket"))?;
        let mut control = Control::new(ours).map_err(part("the control socket"))?;
        let (stdout, stdout_writer) = io::pipe().map_err(part("the pipe of standard output"))?;
        let (stderr, stderr_writer) = io::pipe().map_err(part("the pipe of standard error"))?;
        let group = self.cgroups.create(&plan.name, &plan.limits).map_err(part("the control groups"))?;
        let mut inherited =
            Inherited { descriptors: vec![theirs.into()], doors: group.doors().map_err(part("the control groups"))? };
        let (mut command, status) = match backend {
            Backend::Bubblewrap => {
                let (command, status) = self.bubblewrap(plan, &mut inherited)?;
                (command, Some(status))
            }
            Backend::Host => (host::command(plan, inherited.descriptors[0].as_raw_fd()), None),
            Backend::Docker => return Err(SandboxError::NoBackend { backend }),
        };
        command.stdin(Stdio::null()).stdout(stdout_writer).stderr(stderr_writer).env_clear().current_dir("/");
        let process = Process::spawn(command, inherited).await.map_err(part("the sandbox's process"))?;
        let mut sandbox = Sandbox { backend, state: plan.state.clone(), process, init: None, group };
        match timeout(limit, sandbox.come_up(&mut control, status)).await {
            Ok(Ok(())) => Ok(Made { sandbox, control, stdout, stderr }),
            Ok(Err(error)) => {
                sandbox.end().await;
                Err(SandboxError::Failed { complaint: complaint(stderr, &error) })
            }
            Err(_elapsed) => {
                sandbox.end().await;
                Err(SandboxError::Late { limit })
            }
        }
    }

    /// The command that makes the sandbox, and the pipe on which bubblewrap tells its first process.
    fn bubblewrap(&self, plan: &Plan, inherited: &mut Inherited) -> Result<(Command, PipeReader), SandboxError> {
        if !self.bubblewrap.is_absolute() {
            return Err(part("bubblewrap")(io::ErrorKind::NotFound.into()));
        }
        let control = inherited.descriptors[0].as_raw_fd();
        let (status, status_writer) = io::pipe().map_err(part("the status pipe"))?;
        let mut keep = |descriptor: OwnedFd| {
            let number = descriptor.as_raw_fd();
            inherited.descriptors.push(descriptor);
            number
        };
        let status_number = keep(status_writer.into());
        let (uid, gid) = match plan.identity {
            Some(identity) => (identity.uid, identity.gid),
            None => (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw()),
        };
        let mut filters = Vec::new();
        for program in seccomp::filters()? {
            filters.push(keep(bubblewrap::memory_file(c"filter", &program).map_err(part("the filter's file"))?));
        }
        let mut files = Vec::new();
        for (path, content) in bubblewrap::generated_files(uid, gid) {
            let file = bubblewrap::memory_file(c"etc", content.as_bytes()).map_err(part("a file of /etc"))?;
            files.push((path, keep(file)));
        }
        let descriptors = bubblewrap::Descriptors { control, status: status_number, filters, files };
        let mut command = Command::new(&self.bubblewrap);
        command.args(bubblewrap::arguments(plan, &self.system, &descriptors));
        Ok((command, status))
    }
}

impl Sandbox {
    async fn come_up(&mut self, control: &mut Control, status: Option<PipeReader>) -> io::Result<()> {
        if let Some(status) = status {
            self.init = Some(first_process(status, self.process.pid).await?);
        }
        match control.word().await {
            Some(Word::Ready) => Ok(()),
            Some(Word::Failed { stage, message, .. }) => Err(io::Error::other(format!("at `{stage}`: {message}"))),
            _ => Err(io::Error::other("the shim ended before it was ready")),
        }
    }

    /// What the control groups saw.
    pub(crate) fn usage(&self) -> Usage {
        self.group.usage()
    }

    /// Which process it stands and falls with.
    pub(crate) fn anchor(&self) -> Option<Anchor> {
        let start_time = start_time(self.process.pid)?;
        Some(Anchor { pid: self.process.pid, start_time })
    }

    /// Kills everything in it at once.
    pub(crate) fn kill(&self) {
        match &self.init {
            Some(init) => init.kill(),
            None => self.process.handle.kill(),
        }
        self.group.kill();
        if self.backend == Backend::Host {
            host::sweep(&self.state);
        }
    }

    /// Returns when the process that holds it has ended, by itself or killed.
    pub(crate) async fn ended(&self) {
        self.process.ended().await;
    }

    /// Kills it until the kernel says that nothing of it is left, and tells what the control groups had seen by then.
    pub(crate) async fn end(&mut self) -> Usage {
        self.kill();
        while timeout(KILL_INTERVAL, self.ended()).await.is_err() {
            self.kill();
        }
        while !self.is_gone() {
            self.kill();
            tokio::time::sleep(EMPTY_INTERVAL).await;
        }
        let usage = self.usage();
        self.group.remove();
        usage
    }

    fn is_gone(&self) -> bool {
        let host_is_clean = self.backend != Backend::Host || host::sweep(&self.state) == 0;
        self.process.has_ended()
            && self.init.as_ref().is_none_or(Pidfd::has_ended)
            && self.group.is_empty()
            && host_is_clean
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if !self.process.has_ended() {
            self.kill();
        }
    }
}

/// Reads on bubblewrap's status pipe which process is the first inside, and makes sure that it is bubblewrap's child.
async fn first_process(status: PipeReader, maker: i32) -> io::Result<Pidfd> {
    #[derive(serde::Deserialize)]
    struct Status {
        #[serde(rename = "child-pid")]
        child_pid: i32,
    }
    use tokio::io::AsyncBufReadExt as _;
    let pipe = tokio::net::unix::pipe::Receiver::from_owned_fd(status.into())?;
    let mut line = String::new();
    tokio::io::BufReader::new(pipe).read_line(&mut line).await?;
    let Ok(Status { child_pid }) = serde_json::from_str(&line) else {
        return Err(io::Error::other("bubblewrap ended before the sandbox was there"));
    };
    let process = Pidfd::open(child_pid)?;
    if stat_field(child_pid, PARENT) == Some(u64::from(maker.unsigned_abs())) {
        return Ok(process);
    }
    Err(io::Error::other("the sandbox's first process is gone"))
}

/// What a sandbox that failed has to say.
fn complaint(stderr: PipeReader, error: &io::Error) -> String {
    let mut said = Vec::new();
    let _unreadable = stderr.take(COMPLAINT_BYTES).read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said);
    let said = said.trim();
    if said.is_empty() { error.to_string() } else { said.to_owned() }
}

/// Index of the parent's pid in `/proc/<pid>/stat`, counted behind the name.
const PARENT: usize = 1;
/// Index of the start time.
const START_TIME: usize = 19;

/// When the process was started, in clock ticks since boot.
pub(crate) fn start_time(pid: i32) -> Option<u64> {
    stat_field(pid, START_TIME)
}

fn stat_field(pid: i32, index: usize) -> Option<u64> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    let behind_name = stat.rsplit_once(") ")?.1;
    behind_name.split_ascii_whitespace().nth(index)?.parse().ok()
}

/// Ends what an earlier life of this process left behind; true when nothing is left.
pub(crate) fn clear(backend: Backend, anchor: Option<Anchor>, groups: &[PathBuf], state: &Path) -> bool {
    if let Some(Anchor { pid, start_time: expected }) = anchor
        && let Ok(process) = Pidfd::open(pid)
        && start_time(pid) == Some(expected)
    {
        process.kill();
        let deadline = Instant::now() + CLEAR_LIMIT;
        while !process.has_ended() {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(EMPTY_INTERVAL);
        }
    }
    let swept = backend != Backend::Host || (0..100).any(|_| host::sweep(state) == 0);
    cgroup::clear(groups) && swept
}
