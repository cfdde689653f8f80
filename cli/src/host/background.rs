//! A host that a command starts, detached from its terminal.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use mosaic_data_root::DataRoot;

use crate::settings::SERVICE_VARIABLES;

/// How long an idle background host stays.
const IDLE_EXIT: &str = "60s";
/// How much of a host's log is shown when it did not start, in bytes.
const LOG_SHOWN: u64 = 2048;

/// First thing in the process of a background host: a session of its own, private files, no inherited descriptor.
pub(crate) fn detach() {
    // Fails only where this process leads a group already; then it has no terminal to lose.
    let _already_leads = nix::unistd::setsid();
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&descriptor| descriptor > 2)
        .collect();
    for descriptor in open {
        // One of them was the directory that was just read; closing it again is an error of no interest.
        let _closed_already = nix::unistd::close(descriptor);
    }
}

/// Starts a background host for `config`, a file.
///
/// # Errors
/// When the process can't be started.
pub(crate) fn spawn(root: &DataRoot, config: &Path) -> std::io::Result<Child> {
    let mut log = std::fs::OpenOptions::new();
    let log = log.create(true).append(true).mode(0o600).open(root.host_log())?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--config").arg(config);
    command.args(["up", "--background", "--idle-exit", IDLE_EXIT]);
    command.current_dir("/").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.env_clear();
    for name in ["PATH", "LANG"].iter().chain(&SERVICE_VARIABLES) {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.spawn()
}

/// What a host that did not start said last: its error, as it would have said it at a terminal.
#[must_use]
pub(crate) fn last_words(log: &Path) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = std::fs::File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_SHOWN)))?;
        let mut tail = Vec::new();
        file.take(LOG_SHOWN).read_to_end(&mut tail)?;
        Ok(String::from_utf8_lossy(&tail).trim_end().to_owned())
    };
    let tail = read().unwrap_or_default();
    let error = tail.rfind("error: ").map(|at| &tail[at + "error: ".len()..]);
    error.map_or_else(|| format!("the host did not start; its log is `{}`", log.display()), str::to_owned)
}
