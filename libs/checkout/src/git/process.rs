//! Running a program: nothing of this process's environment, bounded in time, memory and output, ended with its children.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Address space that a program may take, in KiB.
const MEMORY_KIB: u64 = 4 * 1024 * 1024;
/// Most of standard error that is kept, in bytes.
const WORDS_BYTES: u64 = 4096;

/// Bounds of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// How long it may take.
    pub(crate) time: Duration,
    /// Most that it may write to standard output, in bytes.
    pub(crate) output: u64,
}

/// Writes a program's standard input; an error ends the program.
pub(crate) type Feed<'a> = &'a mut (dyn FnMut(&mut dyn Write) -> std::io::Result<()> + Send);

/// What a program is given on standard input.
pub(crate) enum Input<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// What is written while it reads.
    Fed(Feed<'a>),
}

impl<'a> From<&'a [u8]> for Input<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a> From<Feed<'a>> for Input<'a> {
    fn from(feed: Feed<'a>) -> Self {
        Self::Fed(feed)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Input<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Bytes(bytes)
    }
}

/// Why a program did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// It could not be started or waited for.
    #[error("can't run {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why not.
        source: std::io::Error,
    },
    /// It took too long.
    #[error("{program} took longer than {} s", limit.as_secs())]
    TimedOut {
        /// The program.
        program: String,
        /// How long it had.
        limit: Duration,
    },
    /// It wrote too much.
    #[error("{program} wrote more than {limit} bytes")]
    TooMuch {
        /// The program.
        program: String,
        /// How much it may write.
        limit: u64,
    },
    /// It failed.
    #[error("{program} failed ({status}): {words}")]
    Exit {
        /// The program.
        program: String,
        /// Exit status, or signal.
        status: ExitStatus,
        /// What it said, shown without control characters.
        words: String,
        /// What it wrote to standard output.
        output: Vec<u8>,
    },
}

/// A program with its arguments, which runs under a limit of memory and writes no core file.
///
/// The limits are set by a shell of fixed text, since setting them between fork and exec needs unsafe code.
pub(crate) fn limited(program: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    // What is made for a box must be readable in it, under another uid; the directories above are private.
    let script = format!("umask 022; ulimit -c 0; ulimit -v {MEMORY_KIB}; exec \"$@\"");
    command.args(["-c", &script, "limited", program]);
    command.env_clear().current_dir("/");
    command
}

/// What a program that succeeded said.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// Its standard output.
    pub(crate) bytes: Vec<u8>,
    /// Its standard error, shown without control characters.
    pub(crate) words: String,
}

/// Runs `command`, named `program` in messages, with `input` on its standard input, and returns what it wrote.
///
/// A program without input has `held`, an empty file, for its standard input. A lock on it falls when the program and all that
/// it has started are gone, even if this process is killed before.
///
/// # Errors
/// See [`Failed`]. Nothing that it started in its process group lives on then.
pub(crate) fn run(
    mut command: Command,
    program: &str,
    input: Input<'_>,
    bounds: Bounds,
    held: Option<File>,
) -> Result<Output, Failed> {
    let program = || program.to_owned();
    let start = |source| Failed::Start { program: program(), source };
    let is_empty = matches!(input, Input::Bytes(&[]));
    let stdin = match held {
        _ if !is_empty => Stdio::piped(),
        Some(held) => held.into(),
        None => Stdio::null(),
    };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(start)?;
    let heard = hear(&mut child, input, bounds).map_err(start)?;
    match heard {
        Heard { more: true, .. } => Err(Failed::TooMuch { program: program(), limit: bounds.output }),
        Heard { status: None, .. } => Err(Failed::TimedOut { program: program(), limit: bounds.time }),
        Heard { status: Some(status), output, words, .. } => {
            let words = crate::at::shown(words.trim_ascii());
            match status.success() {
                true => Ok(Output { bytes: output, words }),
                false => Err(Failed::Exit { program: program(), status, words, output }),
            }
        }
    }
}

/// What a program said until it ended, or was ended.
struct Heard {
    /// How it ended by itself.
    status: Option<ExitStatus>,
    output: Vec<u8>,
    /// True when it wrote more than it may.
    more: bool,
    words: Vec<u8>,
}

/// Reads both of its streams while it is given `input`, and ends its process group.
fn hear(child: &mut Child, input: Input<'_>, bounds: Bounds) -> std::io::Result<Heard> {
    let group = Group(i32::try_from(child.id()).unwrap_or(0));
    let deadline = Instant::now() + bounds.time;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    std::thread::scope(|threads| {
        if let Some(mut pipe) = stdin {
            // A program that does not want all of it closes its end.
            threads.spawn(move || match input {
                Input::Bytes(bytes) => pipe.write_all(bytes),
                Input::Fed(feed) => feed(&mut std::io::BufWriter::with_capacity(256 * 1024, pipe)),
            });
        }
        let words = threads.spawn(move || read_up_to(stderr, WORDS_BYTES).0);
        let (sender, receiver) = channel();
        threads.spawn(move || drop(sender.send(read_up_to(stdout, bounds.output))));
        let read = receiver.recv_timeout(bounds.time).ok();
        let status = match &read {
            Some((_, false)) => wait_until(child, deadline),
            _ => Ok(None),
        };
        // Whatever happened, nothing of it lives on; the threads end with their pipes.
        group.end();
        if !matches!(status, Ok(Some(_))) {
            child.wait()?;
        }
        let (output, more) = read.unwrap_or_default();
        Ok(Heard { status: status?, output, more, words: words.join().unwrap_or_default() })
    })
}

/// The process group of a child.
struct Group(i32);

impl Group {
    fn end(&self) {
        if self.0 > 0 {
            let _gone_already = killpg(Pid::from_raw(self.0), Signal::SIGKILL);
        }
    }
}

/// Everything up to `most` bytes, and whether there was more; what is more is not waited for.
fn read_up_to(pipe: Option<impl Read>, most: u64) -> (Vec<u8>, bool) {
    let mut content = Vec::new();
    let Some(pipe) = pipe else { return (content, false) };
    let mut bounded = pipe.take(most + 1);
    let _cut_short = bounded.read_to_end(&mut content);
    let more = content.len() as u64 > most;
    content.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    (content, more)
}

fn wait_until(child: &mut Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_micros(50);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, input: &[u8], time: u64, output: u64) -> Result<Vec<u8>, Failed> {
        let mut command = limited("/bin/sh");
        command.args(["-c", script]);
        run(command, "sh", input.into(), Bounds { time: Duration::from_millis(time), output }, None)
            .map(|output| output.bytes)
    }

    #[test]
    fn output_input_and_failures_are_told() {
        assert_eq!(shell("cat; echo x >&2", b"hi", 5000, 100).expect("ran"), b"hi");
        let failed = shell("printf 'no\\033' >&2; exit 3", b"", 5000, 100).expect_err("failed").to_string();
        assert!(failed.contains("exit status: 3") && failed.contains("no\\u{1b}"), "{failed}");
        assert!(matches!(shell("yes", b"", 5000, 100), Err(Failed::TooMuch { .. })));
        assert!(matches!(shell("cat", &vec![b'x'; 1 << 20], 5000, 10), Err(Failed::TooMuch { .. })));
    }

    #[test]
    fn what_takes_too_long_ends_with_its_children() {
        let scratch = tempfile::tempdir().expect("scratch");
        let mark = scratch.path().join("mark");
        let script = format!("(sleep 1; touch {}) & sleep 60", mark.display());
        assert!(matches!(shell(&script, b"", 200, 100), Err(Failed::TimedOut { .. })));
        assert!(matches!(shell("exec >&-; sleep 60", b"", 200, 100), Err(Failed::TimedOut { .. })));
        std::thread::sleep(Duration::from_millis(1200));
        assert!(!mark.exists());
    }

    #[test]
    fn memory_is_limited_and_the_environment_is_empty() {
        assert_eq!(shell("ulimit -v; ulimit -c", b"", 5000, 100).expect("ran"), b"4194304\n0\n");
        let environment = shell("env | grep -v -e ^PWD= -e ^OLDPWD= -e ^SHLVL= -e ^_= || true", b"", 5000, 4096);
        assert_eq!(String::from_utf8(environment.expect("ran")).expect("text"), "");
    }
}
