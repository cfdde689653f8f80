//! Host git: by absolute path, with nothing of this process's environment, bounded, and contained wherever it meets what an
//! agent has written.

mod contain;
mod process;

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use contain::Containment;
pub(crate) use contain::{Boxed, Shown};
pub use process::Failed;
use process::{Bounds, limited, run};
pub(crate) use process::{Feed, Input, Output};

/// How long one call of git may take.
pub(crate) const TIME: Duration = Duration::from_secs(20);
/// How long a clone or a fetch between the host's own repositories may take.
pub(crate) const TRANSFER_TIME: Duration = Duration::from_secs(600);
/// Most that a call may write, in bytes: the list of a tree of a million files.
const OUTPUT_BYTES: u64 = 256 * 1024 * 1024;

/// What every git is told, whatever it is asked for. Each of them closes a way in which git starts something, reads
/// configuration or attributes that nobody named, or asks somebody.
const VARIABLES: [(&str, &str); 11] = [
    ("PATH", "/usr/bin:/bin"),
    ("HOME", "/nonexistent"),
    ("LC_ALL", "C"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ALLOW_PROTOCOL", "file"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_ADVICE", "0"),
];

/// Settings that precede those of any file.
const SETTINGS: [&str; 9] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.commitGraph=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "protocol.file.allow=always",
    "safe.bareRepository=all",
    "advice.detachedHead=false",
];

/// The git of the host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Git<'a> {
    /// Its absolute path.
    pub(crate) program: &'a Path,
    /// Configuration that only says which roots of other users are trusted.
    pub(crate) global: &'a Path,
}

/// The file that all that works on a project holds a lock on: what a host has started lives on for a moment when the host is
/// killed.
const BUSY: &str = "busy";

/// Where that file is in a project's state.
pub(crate) fn busy_path(state: &Path) -> PathBuf {
    state.join(BUSY)
}

impl Git<'_> {
    /// The file that tells that something of this project's is at work, with a lock.
    fn busy(&self) -> Result<File, Failed> {
        let path = self.global.with_file_name(BUSY);
        let failed = |source| Failed::Start { program: "git".to_owned(), source };
        // It must exist to be read; nothing is ever written to it.
        let made = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let file = made.and_then(|_made| File::open(&path)).map_err(failed)?;
        // The lock goes on to the program, and falls with the last copy of the file.
        file.try_lock_shared().map_err(|error| failed(error.into()))?;
        Ok(file)
    }

    /// Runs git on what the host alone has written: the root and the mirror. Transfers may take long.
    ///
    /// # Errors
    /// When it fails.
    pub(crate) fn trusted<A: AsRef<OsStr>>(&self, arguments: &[A], input: &[u8]) -> Result<Vec<u8>, Failed> {
        let mut command = limited(&self.program.to_string_lossy());
        command.envs(VARIABLES).env("GIT_CONFIG_GLOBAL", self.global);
        command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting])).args(arguments);
        let bounds = Bounds { time: TRANSFER_TIME, output: OUTPUT_BYTES };
        run(command, "git", input.into(), bounds, Some(self.busy()?)).map(|output| output.bytes)
    }

    /// Runs git where an agent has written, in a box.
    ///
    /// # Errors
    /// When it fails, or the box can't be made.
    pub(crate) fn boxed<'i>(
        &self,
        (containment, owner): (&Containment, u32),
        shown: &[Shown<'_>],
        variables: &[(&str, &str)],
        arguments: &[&str],
        (input, time): (impl Into<Input<'i>>, Duration),
    ) -> Result<Output, Failed> {
        let mut all = contained_variables();
        all.extend_from_slice(variables);
        let line: Vec<&str> =
            SETTINGS.iter().flat_map(|setting| ["-c", setting]).chain(arguments.iter().copied()).collect();
        let boxed = Boxed { containment, owner, shown, program: self.program, also: None };
        boxed.run_holding(&all, &line, input.into(), Bounds { time, output: OUTPUT_BYTES }, Some(self.busy()?))
    }
}

/// Runs a shell script of fixed text where an agent has written, in a box; what varies comes as its variables. Its arguments
/// are `git` with the `options`.
///
/// # Errors
/// When it fails, or the box can't be made.
pub(crate) fn boxed_script(
    git: Git<'_>,
    (containment, owner): (&Containment, u32),
    shown: &[Shown<'_>],
    script: &str,
    variables: &[(&str, &str)],
    options: &[&str],
) -> Result<Output, Failed> {
    let mut all = contained_variables();
    all.extend_from_slice(variables);
    let program = git.program.to_string_lossy();
    let mut line = vec!["-c", script, "checkout", &*program];
    line.extend(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
    line.extend_from_slice(options);
    let boxed = Boxed { containment, owner, shown, program: Path::new("/usr/bin/sh"), also: Some(git.program) };
    boxed.run_holding(&all, &line, b"".into(), Bounds { time: TIME, output: 4096 }, Some(git.busy()?))
}

fn contained_variables() -> Vec<(&'static str, &'static str)> {
    let mut all = VARIABLES.to_vec();
    all.push(("GIT_CONFIG_GLOBAL", "/dev/null"));
    all
}
