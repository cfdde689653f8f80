//! The process `mosaic-launcher`.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    mosaic_launcher::process::run(&mosaic_launcher::process::Args::parse())
}
