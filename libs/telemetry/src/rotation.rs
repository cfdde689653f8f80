use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;

/// Largest log file, in bytes; the line that crosses it is still whole.
const FILE_BYTES: u64 = 8 * 1024 * 1024;

/// Older files that are kept: `host.log.1` is the newest of them.
const OLDER_FILES: u32 = 3;

/// A log that this process's standard output and standard error lead to already, and that is replaced when it has grown:
/// the descriptors follow, so that whatever writes to them, a panic included, writes into the newest file.
#[derive(Debug, Clone)]
pub(crate) struct Rotating {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    path: PathBuf,
    /// Bytes in the newest file.
    length: u64,
    limit: u64,
}

impl Rotating {
    /// The log at `path`, which standard error is appended to.
    pub(crate) fn at(path: &Path) -> Self {
        Self::with_limit(path, FILE_BYTES)
    }

    fn with_limit(path: &Path, limit: u64) -> Self {
        let length = std::fs::metadata(path).map_or(0, |file| file.len());
        Self { state: Arc::new(Mutex::new(State { path: path.to_owned(), length, limit })) }
    }
}

impl<'a> MakeWriter<'a> for Rotating {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for Rotating {
    /// Writes one line; the layer that formats lines hands over whole ones.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.state.lock().map_err(|_poisoned| io::Error::other("a writer of the log panicked"))?;
        if state.length >= state.limit {
            state.length = match rotate(&state.path) {
                Ok(()) => 0,
                // The log goes on in the file that is there; tried again after as much again.
                Err(_kept) => 0,
            };
        }
        io::stderr().write_all(line)?;
        state.length += line.len() as u64;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Moves the log and its predecessors up by one, and leads the standard streams into a new file.
fn rotate(path: &Path) -> io::Result<()> {
    let older = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    for number in (1..OLDER_FILES).rev() {
        match std::fs::rename(older(number), older(number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    std::fs::rename(path, older(1))?;
    let file: File = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    nix::unistd::dup2_stdout(&file)?;
    nix::unistd::dup2_stderr(&file)?;
    Ok(())
}
