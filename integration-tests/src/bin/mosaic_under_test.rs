//! The command `mosaic`, built beside the tests that drive it.

use std::process::ExitCode;

fn main() -> ExitCode {
    mosaic_cli::main()
}
