use std::process::{Command, Stdio};

/// True when `program` can be used here. Where everything is required (`MOSAIC_REQUIRE_ALL=1`), a missing one fails the test
/// instead of skipping it.
///
/// # Panics
/// When it is missing and required.
#[must_use]
pub fn available(program: &str) -> bool {
    let mut command = Command::new(program);
    let found = command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let found = found.is_ok();
    let required = std::env::var_os("MOSAIC_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(found || !required, "`{program}` is required here and was not found");
    found
}

/// True when this process may become another user.
///
/// # Panics
/// When it may not and everything is required.
#[must_use]
pub fn is_root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    let required = std::env::var_os("MOSAIC_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(root || !required, "this test needs root, and everything is required here");
    root
}
