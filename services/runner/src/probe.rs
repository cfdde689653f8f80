//! What this host can do, asked before anything depends on it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mosaic_record::Enforcement;

use crate::sandbox::cgroup::{Cgroups, Controller};

/// Oldest bubblewrap that has every option that is used: `--size`, `--as-pid-1` and `--add-seccomp-fd` together.
const OLDEST: (u32, u32) = (0, 6);

/// How long a trial sandbox may take.
const TRIAL_LIMIT: Duration = Duration::from_secs(10);

/// Which control of containment is missing, and how to mend that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// There is no bubblewrap.
    #[error(
        "bubblewrap is not installed (`{}` was not found)\nhint: install it, for example `apt-get install bubblewrap`",
        program.display()
    )]
    NotInstalled {
        /// The program that was looked for.
        program: PathBuf,
    },
    /// It is too old.
    #[error("bubblewrap {version} is too old; {}.{} or later is needed", OLDEST.0, OLDEST.1)]
    TooOld {
        /// Its version.
        version: String,
    },
    /// It can't make a sandbox here.
    #[error("bubblewrap can't make a sandbox here: {complaint}\nhint: {hint}")]
    NotWorking {
        /// What it says.
        complaint: String,
        /// How to mend it.
        hint: &'static str,
    },
}

const NO_USER_NAMESPACES: &str = "unprivileged user namespaces are off; switch them on (`sysctl user.max_user_namespaces=15000`; \
    on Debian `sysctl kernel.unprivileged_userns_clone=1`; on Ubuntu 24.04 an AppArmor profile for bwrap, or \
    `sysctl kernel.apparmor_restrict_unprivileged_userns=0`), or run the services as root";
const IN_A_CONTAINER: &str = "within a container bubblewrap needs the right to make namespaces and mounts; run the services on \
    the host, or give the container `--security-opt seccomp=unconfined --cap-add SYS_ADMIN`";

/// What a host has for containment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Version of a bubblewrap that works here, or what is missing.
    pub bubblewrap: Result<String, Missing>,
    /// What would enforce memory, processes and processors; `None`: no control group does.
    pub groups: [(&'static str, Option<Enforcement>); 3],
}

/// Looks at this host, by trying: a sandbox is made, and a control group of each kind.
#[must_use]
pub fn host() -> Host {
    let cgroups = Cgroups::detect();
    Host {
        bubblewrap: bubblewrap(&locate(std::env::var_os("PATH").as_deref())),
        groups: [
            ("memoryBytes", cgroups.enforcement(Controller::Memory)),
            ("processes", cgroups.enforcement(Controller::Pids)),
            ("cpus", cgroups.enforcement(Controller::Cpu)),
        ],
    }
}

/// The program's name.
const PROGRAM: &str = "bwrap";

/// Where bubblewrap is: the first one of `path`, a list of directories as PATH is one; its bare name when there is none,
/// which is never run.
#[must_use]
pub fn locate(path: Option<&OsStr>) -> PathBuf {
    let directories = path.into_iter().flat_map(std::env::split_paths).filter(|directory| directory.is_absolute());
    let mut candidates = directories.map(|directory| directory.join(PROGRAM));
    candidates.find(|candidate| candidate.is_file()).unwrap_or_else(|| PROGRAM.into())
}

/// Version of bubblewrap, if a sandbox can be made with it here. Blocks for as long as that takes.
///
/// # Errors
/// Which control is missing, and how to mend that.
pub(crate) fn bubblewrap(program: &Path) -> Result<String, Missing> {
    let missing = || Missing::NotInstalled { program: program.into() };
    if !program.is_absolute() {
        return Err(missing());
    }
    let output =
        Command::new(program).arg("--version").stdin(Stdio::null()).output().map_err(|_not_there| missing())?;
    let version = String::from_utf8_lossy(&output.stdout).trim().trim_start_matches("bubblewrap ").to_owned();
    if !is_recent(&version) {
        return Err(Missing::TooOld { version });
    }
    match trial(program) {
        Ok(()) => Ok(version),
        Err(complaint) => {
            let hint = hint(&complaint, nix::unistd::geteuid().is_root());
            Err(Missing::NotWorking { complaint, hint })
        }
    }
}

/// Makes a sandbox with every namespace that is used, and ends it.
fn trial(program: &Path) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args([
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-uts",
        "--die-with-parent",
        "--as-pid-1",
    ]);
    if !nix::unistd::geteuid().is_root() {
        command.arg("--unshare-user");
    }
    command.args(["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--size", "4096", "--tmpfs", "/tmp"]);
    command.args(["--", "/bin/sh", "-c", ":"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| error.to_string())?;
    let deadline = Instant::now() + TRIAL_LIMIT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(_)) => return Err(complaint(&mut child)),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            Ok(None) => {
                let _gone_already = child.kill();
                let _reaped = child.wait();
                return Err(format!("a trial took longer than {} s", TRIAL_LIMIT.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn complaint(child: &mut std::process::Child) -> String {
    use std::io::Read as _;
    let mut text = String::new();
    if let Some(stderr) = child.stderr.take() {
        let _unreadable = stderr.take(4096).read_to_string(&mut text);
    }
    let text = text.trim();
    if text.is_empty() { "it says nothing".to_owned() } else { text.to_owned() }
}

fn is_recent(version: &str) -> bool {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= OLDEST
}

/// How to mend what bubblewrap complains of.
fn hint(complaint: &str, is_root: bool) -> &'static str {
    let is_about_user_namespaces = ["user namespace", "uid map", "No space left", "new namespace"];
    if !is_root && is_about_user_namespaces.iter().any(|text| complaint.contains(text)) {
        NO_USER_NAMESPACES
    } else {
        IN_A_CONTAINER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_compared_by_its_numbers() {
        for (version, recent) in
            [("0.8.0", true), ("0.11.0", true), ("0.6.1", true), ("0.5.9", false), ("", false), ("x", false)]
        {
            assert_eq!(is_recent(version), recent, "{version}");
        }
    }

    #[test]
    fn what_is_missing_is_named_with_a_way_to_mend_it() {
        let error = bubblewrap(Path::new("/nonexistent/bwrap")).expect_err("missing").to_string();
        assert!(error.contains("not installed") && error.contains("hint: install it"), "{error}");
        let complaint = "bwrap: No permissions to create new namespace, likely because the kernel does not allow it";
        assert_eq!(hint(complaint, false), NO_USER_NAMESPACES);
        assert_eq!(hint("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", true), IN_A_CONTAINER);
    }
}
