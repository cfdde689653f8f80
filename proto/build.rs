//! Compiles every contract below `mosaic/` with protox, so that no `protoc` is needed, and keeps one descriptor set a
//! package for server reflection.

use std::path::PathBuf;

use prost::Message as _;

/// One package a service; the files are listed so that adding one is a deliberate change.
const PACKAGES: [(&str, &[&str]); 3] = [
    (
        "broker",
        &[
            "mosaic/broker/v1/event.proto",
            "mosaic/broker/v1/ledger.proto",
            "mosaic/broker/v1/retention.proto",
            "mosaic/broker/v1/run.proto",
        ],
    ),
    ("launcher", &["mosaic/launcher/v1/launch.proto"]),
    ("runner", &["mosaic/runner/v1/runner.proto"]),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=mosaic");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    for (package, files) in PACKAGES {
        let descriptors = protox::compile(files, ["."])?;
        std::fs::write(out.join(format!("{package}.bin")), descriptors.encode_to_vec())?;
        tonic_prost_build::configure().build_transport(true).compile_fds(descriptors)?;
    }
    Ok(())
}
