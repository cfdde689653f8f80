//! The process `mosaic-runner`: acts as the shim when it was started as one, else runs the runner.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    // Before any thread is started.
    match mosaic_shim::dispatch() {
        Some(status) => status,
        None => mosaic_runner::process::run(&mosaic_runner::Args::parse()),
    }
}
