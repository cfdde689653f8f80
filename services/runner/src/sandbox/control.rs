use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use mosaic_shim::protocol::{Lines, Order, Said, Stage, Start, Word, line};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Bytes that are read from a shim at once.
const READ_BYTES: usize = 1024;

/// The runner's end of a shim's control socket.
#[derive(Debug)]
pub(crate) struct Control {
    socket: UnixStream,
    lines: Lines,
    heard: VecDeque<Said>,
}

impl Control {
    pub(crate) fn new(socket: std::os::unix::net::UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket: UnixStream::from_std(socket)?, lines: Lines::default(), heard: VecDeque::new() })
    }

    /// What the shim says next; `None` when it says nothing more, or nothing that makes sense. Loses nothing when it is
    /// dropped before it returns.
    pub(crate) async fn hear(&mut self) -> Option<Said> {
        loop {
            if let Some(said) = self.heard.pop_front() {
                return Some(said);
            }
            let mut buffer = [0; READ_BYTES];
            let read = match self.socket.read(&mut buffer).await {
                Ok(0) | Err(_) => return None,
                Ok(read) => read,
            };
            for line in self.lines.push(&buffer[..read]).ok()? {
                self.heard.push_back(serde_json::from_slice(&line).ok()?);
            }
        }
    }

    /// The next word, whenever it was said.
    pub(crate) async fn word(&mut self) -> Option<Word> {
        self.hear().await.map(|said| said.word)
    }

    /// Tells the shim something. One that is gone does not hear it, which shows elsewhere.
    pub(crate) async fn tell(&mut self, order: &Order) {
        let _gone = self.socket.write_all(&line(order)).await;
    }

    /// Starts the adapter.
    ///
    /// # Errors
    /// When it can't be started, or not within `limit`.
    pub(crate) async fn start(&mut self, start: Start, limit: Duration) -> Result<(), StartError> {
        let answer = async {
            self.tell(&Order::Start(Box::new(start))).await;
            match self.word().await {
                Some(Word::Starting) => self.word().await.or(Some(Word::Starting)),
                other => other,
            }
        };
        match timeout(limit, answer).await {
            // A shim that is gone by now may have been killed by its adapter, which then has run.
            Ok(Some(Word::Started { .. } | Word::Starting)) => Ok(()),
            // At other stages the kernel says the same of things that are on no disk, such as watches.
            Ok(Some(Word::Failed { stage: Stage::Directories, message, disk_full: true })) => {
                Err(StartError::DiskFull { message })
            }
            Ok(Some(Word::Failed { stage, message, .. })) => Err(StartError::Failed { stage, message }),
            Ok(_) => Err(StartError::Gone),
            Err(_elapsed) => Err(StartError::Late { limit }),
        }
    }
}

/// Why the adapter was not started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The shim could not.
    #[error("the adapter was not started (at `{stage}`): {message}")]
    Failed {
        /// At which stage.
        stage: Stage,
        /// Why.
        message: String,
    },
    /// There is no room for the run's private directories.
    #[error("no room for the run's private directories: {message}")]
    DiskFull {
        /// Which, and what the system says.
        message: String,
    },
    /// The shim is gone.
    #[error("the sandbox ended before the adapter was started")]
    Gone,
    /// It took too long.
    #[error("the adapter was not started within {} s", limit.as_secs())]
    Late {
        /// The limit.
        limit: Duration,
    },
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn empty() -> Start {
        Start {
            argv: Vec::new(),
            env: Default::default(),
            cwd: String::new(),
            identity: None,
            directories: Vec::new(),
            rlimits: Default::default(),
            activity_dir: None,
            turn_marker: None,
            exposed: Vec::new(),
        }
    }

    #[tokio::test]
    async fn only_directories_without_room_are_a_full_disk() {
        for (stage, disk_full, is_disk) in [
            (Stage::Directories, true, true),
            (Stage::Directories, false, false),
            (Stage::Watch, true, false),
            (Stage::Start, true, false),
        ] {
            let (ours, mut shim) = std::os::unix::net::UnixStream::pair().expect("pair");
            let word = Word::Failed { stage, message: "x".to_owned(), disk_full };
            shim.write_all(&line(&word)).expect("said");
            let mut control = Control::new(ours).expect("control");
            let error = control.start(empty(), Duration::from_secs(10)).await.expect_err("failed");
            assert_eq!(matches!(error, StartError::DiskFull { .. }), is_disk, "{stage} {error}");
        }
    }
}
