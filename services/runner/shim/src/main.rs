//! The shim as an executable of its own, for tests and images.

fn main() -> std::process::ExitCode {
    mosaic_shim::dispatch().unwrap_or(std::process::ExitCode::from(64))
}
