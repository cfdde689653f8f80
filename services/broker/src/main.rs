//! The process `mosaic-broker`.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    mosaic_broker::process::run(&mosaic_broker::Args::parse())
}
