//! A host that is an ordinary user, where the tests run as root: they run again without its rights.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Command;

use crate::bed::{AGENT_UID, is_root};

#[test]
fn the_same_holds_for_a_host_that_is_an_ordinary_user() {
    if !is_root() {
        // All of the others show it.
        assert!(!nix::unistd::geteuid().is_root());
        return;
    }
    let scratch = tempfile::tempdir().expect("a scratch directory");
    chown(scratch.path(), Some(AGENT_UID), Some(AGENT_UID)).expect("given");
    // Where the program is, another user may not come.
    let program = scratch.path().join("corpus");
    std::fs::copy(std::env::current_exe().expect("a program"), &program).expect("copied");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("set");
    let uid = AGENT_UID.to_string();
    let mut command = Command::new("/usr/bin/setpriv");
    command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups", "--inh-caps=-all", "--"]).arg(&program);
    command.args(["benign::", "commands::", "making::", "states::", "killed::a_checkout_that_is_killed_at_any_step"]);
    command.args(["--skip", "a_root_of_another_user"]);
    command.env("TMPDIR", scratch.path()).env("HOME", scratch.path()).current_dir(scratch.path());
    let output = command.output().expect("runs");
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && words.contains("test result: ok"), "{words}");
    assert!(!words.contains(" 0 passed"), "{words}");
}
