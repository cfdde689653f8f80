//! Tests of real services together, driven as a person drives them.

mod checkouts;
mod containment;
mod documents;
mod grpc;
mod harvest;
mod hosting;
mod outcome;
mod policy;
mod retention;
mod schemas;
mod telemetry;
mod torture;

use mosaic_integration_tests::{Installation, User};

/// The command under test.
const MOSAIC: &str = env!("CARGO_BIN_EXE_mosaic-under-test");

fn installation() -> Installation {
    Installation::new(MOSAIC)
}

fn installation_with(change: impl FnOnce(&mut serde_json::Value)) -> Installation {
    Installation::with(MOSAIC, User::Same, change)
}
