//! The backend without containment: the shim as a plain child, and whatever is below it.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use super::pidfd::Pidfd;
use super::plan::Plan;

/// Longest environment that is looked at, in bytes; what identifies ours comes early in a shorter one.
const ENVIRONMENT_BYTES: usize = 4 * 1024 * 1024;

/// The command that starts the shim.
pub(super) fn command(plan: &Plan, control: i32) -> Command {
    let mut command = Command::new(&plan.shim);
    command.arg(mosaic_shim::COMMAND).arg(control.to_string());
    command
}

/// Kills every process that was started with the run's private state in its environment, wherever it has gone: one that
/// outlives its shim belongs to nobody. Returns how many there were.
///
/// A process that rewrote its environment escapes; the backend promises no containment.
pub(super) fn sweep(state: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let own = std::process::id().cast_signed();
    pids.filter(|&pid| pid > 1 && pid != own)
        .filter_map(|pid| Some((pid, Pidfd::open(pid).ok()?)))
        // Looked at after the process was opened: what is killed is what was looked at.
        .filter(|(pid, _)| belongs_to(*pid, state))
        .map(|(_, process)| process.kill())
        .count()
}

fn belongs_to(pid: i32, state: &Path) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    names_home(&environment[..environment.len().min(ENVIRONMENT_BYTES)], state)
}

/// True when the variable HOME of an environment block lies in `state`.
fn names_home(environment: &[u8], state: &Path) -> bool {
    let home = state.join("home");
    let variables = environment.split(|&byte| byte == 0);
    variables.filter_map(|variable| variable.strip_prefix(b"HOME=")).any(|value| value == home.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_belongs_to_a_run_by_its_home() {
        let state = Path::new("/data/runs/r-1/private");
        assert!(names_home(b"PATH=/bin\0HOME=/data/runs/r-1/private/home\0X=1", state));
        assert!(!names_home(b"PATH=/bin\0HOME=/data/runs/r-10/private/home\0", state));
        assert!(!names_home(b"XHOME=/data/runs/r-1/private/home\0", state));
        assert!(!names_home(b"", state));
    }
}
