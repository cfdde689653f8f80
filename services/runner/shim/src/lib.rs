//! Process 1 of every sandbox.
//!
//! The runner starts it inside the sandbox (or, for the backend `host`, beside it) and talks to it over one end of a Unix
//! socket pair. It gives up every privilege, starts the adapter, watches for the files by which an adapter says how far
//! it is, reaps, forwards signals, and at the end kills whatever is left.
//!
//! Invariants:
//! - It is undumpable and holds only close-on-exec descriptors before anything of the agent's runs.
//! - It writes nothing to the adapter's standard output and standard error, which are its own descriptors 1 and 2.
//! - The end of the socket is the end of the runner, and then of everything here.
//! - What it says shares the agent's uid and is the agent's word; the runner decides by what it observes itself.

mod adapter;
mod host_view;
mod privileges;
pub mod protocol;
mod reap;
mod signals;
mod supervise;
mod watch;

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::process::ExitCode;

/// First argument by which an executable knows that it is to act as the shim.
pub const COMMAND: &str = "shim";

/// Acts as the shim when the process was started as one (`<executable> shim <descriptor>`), and returns its exit status.
/// `None`: this process is something else. To be called first thing in `main`, before any thread is started.
#[must_use]
pub fn dispatch() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != COMMAND {
        return None;
    }
    Some(run(arguments.next()))
}

/// Exit status of a shim that was not started by a runner.
const USAGE: u8 = 64;

/// Acts as the shim on the control socket whose descriptor `argument` names.
#[must_use]
pub fn run(argument: Option<OsString>) -> ExitCode {
    let descriptor = argument.and_then(|text| text.to_str()?.parse::<RawFd>().ok()).filter(|&fd| fd > 2);
    match descriptor.map(supervise::supervise) {
        None => ExitCode::from(USAGE),
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(_reported)) => ExitCode::FAILURE,
    }
}
