//! `mosaic`, the operator's command: a gRPC client; `mosaic up` hosts the services in one process.
//!
//! `args` is the command line, `commands` has one module a command, `host` finds or is the host of a data root, `view` is
//! what people and programs see, `exit` is how a command ends.

/// Says something to the person, on standard error. A reader that has gone away has heard enough.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _gone = writeln!(anstream::stderr().lock(), $($text)*);
    }};
}
pub(crate) use say;

/// Writes a line to standard output.
macro_rules! tell {
    () => { crate::tell!("") };
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let mut stdout = anstream::stdout().lock();
        crate::exit::written(writeln!(stdout, $($text)*).and_then(|()| stdout.flush()));
    }};
}
pub(crate) use tell;

mod args;
mod client;
mod commands;
mod exit;
mod host;
mod settings;
mod task_file;
mod view;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;

/// How long something that blocks may go on after everything else has ended.
const BLOCKING_ENDS: Duration = Duration::from_secs(2);

/// Does what the command line says, and returns the exit status. Call it first thing in `main`: no thread may run yet.
#[must_use]
pub fn main() -> ExitCode {
    // Every sandbox runs a copy of this executable as its process 1.
    if let Some(status) = mosaic_shim::dispatch() {
        return status;
    }
    let arguments = match args::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(said) => return usage(&said),
    };
    if let args::Command::Up(up) = &arguments.command
        && up.background
    {
        host::background::detach();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime {
        Ok(runtime) => {
            let code = exit::after_writing(runtime.block_on(commands::run(arguments)));
            // What still blocks, on a disk or on git, is as after a crash: the next host goes on with it.
            runtime.shutdown_timeout(BLOCKING_ENDS);
            code
        }
        Err(error) => exit::Failure::unreachable(format!("can't start: {error}")).report(),
    }
}

/// Help and version are what was asked for; everything else is a mistake in usage.
fn usage(said: &clap::Error) -> ExitCode {
    // A reader that has gone away has seen enough.
    let _gone = said.print();
    if said.use_stderr() { exit::Exit::Usage.into() } else { ExitCode::SUCCESS }
}
