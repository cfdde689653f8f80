use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::wait_for;

/// How long a host may take to end.
const HOST_ENDS: Duration = Duration::from_secs(60);

/// Who runs the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// Whoever runs the tests.
    Same,
    /// An unprivileged user; needs root.
    Nobody,
}

/// Uid of the unprivileged user; nothing else runs under it.
const NOBODY: u32 = 61_234;

/// An installation of a test's own: executable, configuration, data root. Its background host ends with it.
#[derive(Debug)]
pub struct Installation {
    directory: TempDir,
    executable: PathBuf,
    user: User,
}

/// A command that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status.
    pub code: i32,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Finished {
    /// Standard output as one JSON value.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_str(&self.stdout) {
            Ok(value) => value,
            Err(error) => panic!("{error}: {self:?}"),
        }
    }

    /// Standard output as one JSON value a line.
    ///
    /// # Panics
    /// When a line is none.
    #[must_use]
    pub fn json_lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// Itself, when the exit status is `code`.
    ///
    /// # Panics
    /// When it is another.
    #[track_caller]
    #[expect(clippy::return_self_not_must_use, reason = "the check alone is often all that is wanted")]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

impl Installation {
    /// An installation with bubblewrap and the adapter `scripted`, whose executable is `executable`.
    #[must_use]
    pub fn new(executable: &str) -> Self {
        Self::with(executable, User::Same, |_| {})
    }

    /// An installation whose configuration is changed before it is written.
    ///
    /// # Panics
    /// When it can't be made.
    #[must_use]
    pub fn with(executable: &str, user: User, change: impl FnOnce(&mut Value)) -> Self {
        let directory = tempfile::Builder::new().prefix("mosaic-it-").tempdir_in("/tmp").expect("a directory");
        let mut config = json!({
            "configVersion": 1,
            "environment": "development",
            "dataRoot": directory.path().join("data"),
            "execution": { "backend": "bubblewrap", "provider": "anthropic", "model": "test-model", "adapter": "scripted" },
        });
        change(&mut config);
        std::fs::write(directory.path().join("config.json"), config.to_string()).expect("the configuration is written");
        let mut executable = PathBuf::from(executable);
        if user == User::Nobody {
            // The tests' own directory is root's; the other user gets a copy that it can read.
            let copy = directory.path().join("mosaic");
            std::fs::copy(&executable, &copy).expect("the executable is copied");
            executable = copy;
            std::os::unix::fs::chown(directory.path(), Some(NOBODY), Some(NOBODY)).expect("handed over");
        }
        Self { directory, executable, user }
    }

    /// Directory of the installation.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Its data root.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// Writes a file into the installation's directory.
    ///
    /// # Panics
    /// When it can't be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, content).expect("the file is written");
        path
    }

    /// Writes a task file with the prompt `script`, changed by `change`, and returns its name.
    #[must_use]
    pub fn task(&self, script: &str, change: impl FnOnce(&mut Value)) -> String {
        let mut task = json!({ "taskVersion": 1, "id": "test", "prompt": script, "timeoutSeconds": 60 });
        change(&mut task);
        self.write("task.json", task.to_string());
        "task.json".to_owned()
    }

    /// The command `mosaic` with these arguments, in the installation's directory, with nothing of the tests' environment
    /// but PATH.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = match self.user {
            User::Same => Command::new(&self.executable),
            User::Nobody => {
                let mut command = Command::new("setpriv");
                let id = NOBODY.to_string();
                command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--inh-caps=-all", "--"]);
                command.arg(&self.executable);
                command
            }
        };
        command.args(arguments).current_dir(self.path()).env_clear().env("HOME", self.path());
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
    }

    /// Runs `mosaic` with these arguments to its end.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn mosaic(&self, arguments: &[&str]) -> Finished {
        finish(&mut self.command(arguments))
    }

    /// Starts `mosaic` with these arguments.
    ///
    /// # Panics
    /// When it can't be started.
    #[must_use]
    pub fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the command starts")
    }

    /// Runs a task to its record.
    ///
    /// # Panics
    /// When there is no record.
    #[track_caller]
    pub fn record(&self, task: &str, arguments: &[&str]) -> Value {
        self.mosaic(&[&["run", "--json", task], arguments].concat()).json()
    }

    /// What the live host says of itself.
    #[must_use]
    pub fn host(&self) -> Option<Value> {
        serde_json::from_str(&std::fs::read_to_string(self.data().join("run/host.json")).ok()?).ok()
    }

    /// Process id of the live host.
    #[must_use]
    pub fn host_pid(&self) -> Option<Pid> {
        let pid = self.host()?["pid"].as_i64()?;
        Some(Pid::from_raw(i32::try_from(pid).ok()?))
    }

    /// Ends the background host, if there is one.
    pub fn end_host(&self) {
        if let Some(pid) = self.host_pid()
            && kill(pid, Signal::SIGTERM).is_ok()
        {
            wait_for("the host's end", HOST_ENDS, || kill(pid, None).is_err().then_some(()));
        }
    }
}

/// Runs a command to its end.
///
/// # Panics
/// When it can't be started.
fn finish(command: &mut Command) -> Finished {
    let output = command.stdin(Stdio::null()).output().expect("the command starts");
    Finished {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        // Not `end_host`: a panic while a failing test unwinds would hide what failed.
        if let Some(pid) = self.host_pid() {
            let _gone_already = kill(pid, Signal::SIGTERM);
            let deadline = std::time::Instant::now() + HOST_ENDS;
            while kill(pid, None).is_ok() && std::time::Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
