//! The command `mosaic`.

use std::process::ExitCode;

fn main() -> ExitCode {
    mosaic_cli::main()
}
