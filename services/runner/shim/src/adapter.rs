use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Pid;

use crate::protocol::{Rlimits, Start};

/// How much sooner than the shim and its parents the kernel is to pick an adapter's process when memory runs out.
const OOM_SCORE: &[u8] = b"500";

/// Makes the private directories that are missing.
pub(crate) fn make_directories(start: &Start) -> io::Result<()> {
    for directory in &start.directories {
        match DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(io::Error::new(error.kind(), format!("{directory}: {error}")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Starts the adapter in a process group of its own. Its standard output and error are the shim's.
pub(crate) fn start(start: &Start) -> io::Result<Pid> {
    let (program, arguments) =
        start.argv.split_first().ok_or_else(|| io::Error::other("there is nothing to start: `argv` is empty"))?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(&start.env).current_dir(&start.cwd).process_group(0).stdin(Stdio::null());
    in_child(&mut command, start.rlimits);
    let child = command.spawn()?;
    Ok(Pid::from_raw(child.id().cast_signed()))
}

#[expect(unsafe_code, reason = "there is no other way to act between fork and exec")]
fn in_child(command: &mut Command, rlimits: Rlimits) {
    let prepare = move || {
        // A write that fails leaves the choice of what to kill to the kernel. Writing needs a dumpable process; exec
        // makes it one anyway, and nothing of the agent's runs yet.
        prctl::set_dumpable(true)?;
        let _unsupported = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
        default_signals();
        apply(rlimits)
    };
    // SAFETY: the shim has one thread, so that the child may allocate, and the closure touches nothing but this process.
    unsafe { command.pre_exec(prepare) };
}

/// An ignored signal stays ignored across exec; the adapter is to find them all as they are by default.
#[expect(unsafe_code, reason = "setting a default disposition runs no code of ours")]
fn default_signals() {
    for signal in 1..=31 {
        // SAFETY: SIG_DFL is always valid; for SIGKILL and SIGSTOP the call fails and changes nothing.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

fn apply(rlimits: Rlimits) -> io::Result<()> {
    let limits = [
        (Resource::RLIMIT_CORE, Some(0)),
        (Resource::RLIMIT_NOFILE, rlimits.open_files),
        (Resource::RLIMIT_NPROC, rlimits.processes),
        (Resource::RLIMIT_DATA, rlimits.data_bytes),
    ];
    for (resource, limit) in limits {
        if let Some(limit) = limit {
            // A limit of the host below ours stays: it can't be raised, and it is the stricter one.
            let limit = limit.min(getrlimit(resource)?.1);
            setrlimit(resource, limit, limit)?;
        }
    }
    Ok(())
}
