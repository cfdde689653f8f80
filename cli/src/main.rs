//! `mosaic`, the operator's command: a gRPC client; `mosaic up` hosts the services in one process.

mod args;
mod client;
mod commands;
mod exit;
mod host;
mod settings;
mod task_file;
mod view;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    // Every sandbox runs a copy of this executable as its process 1.
    if let Some(status) = mosaic_shim::dispatch() {
        return status;
    }
    let arguments = args::Arguments::parse();
    if let args::Command::Up(up) = &arguments.command
        && up.background
    {
        host::background::detach();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(commands::run(arguments)),
        Err(error) => exit::Failure::unreachable(format!("can't start: {error}")).report(),
    }
}
