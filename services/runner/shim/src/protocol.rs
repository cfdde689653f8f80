//! What runner and shim say to each other: one JSON object a line, in both directions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Longest line in either direction, in bytes: the environment is the largest thing in one.
pub const LINE_BYTES: usize = 4 * 1024 * 1024;

/// Descriptor of the control socket in every sandbox.
pub const CONTROL_FD: i32 = 3;

/// Name of the activity token within the activity directory.
pub const ACTIVITY_FILE: &str = "proxy-first-output";

/// Content of the activity token.
pub const ACTIVITY_CONTENT: &[u8] = b"output\n";

/// From the runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Order {
    /// Start the adapter; once, first.
    Start(Box<Start>),
    /// Send a signal to the adapter's process group.
    Signal {
        /// Which.
        signal: AdapterSignal,
    },
    /// Kill everything and exit.
    Kill,
}

/// Signals that are forwarded to an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdapterSignal {
    /// SIGTERM.
    Term,
    /// SIGINT.
    Int,
}

/// How to start the adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Start {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub cwd: String,
    /// Whom to become before anything else is done; absent: stay.
    pub identity: Option<Identity>,
    /// Private directories to make when they are missing, parents first, mode 0700.
    pub directories: Vec<String>,
    /// Resource limits of the adapter.
    pub rlimits: Rlimits,
    /// Directory in which the activity token appears; absent: not watched.
    pub activity_dir: Option<String>,
    /// Path of the turn marker; absent: not watched.
    pub turn_marker: Option<String>,
    /// Directories that must be reachable for `identity` although their parents are private. Only where the shim keeps
    /// the host's file system and is root.
    pub exposed: Vec<Exposed>,
}

/// A uid and a gid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The uid.
    pub uid: u32,
    /// The gid.
    pub gid: u32,
}

/// A directory of the host that the adapter works with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exposed {
    /// Its absolute path.
    pub path: String,
    /// True when it is only read.
    pub read_only: bool,
}

/// Resource limits; an absent one is left as it is. Core files are never written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rlimits {
    /// Open files of one process.
    pub open_files: Option<u64>,
    /// Processes and threads of the uid.
    pub processes: Option<u64>,
    /// Private writable memory of one process, in bytes.
    pub data_bytes: Option<u64>,
}

/// From the shim: a word, and when it was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Said {
    /// The word.
    #[serde(flatten)]
    pub word: Word,
    /// Milliseconds since the adapter was started; 0 before that.
    #[serde(default)]
    pub after_ms: u64,
}

/// What the shim has to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Word {
    /// The sandbox is there.
    Ready,
    /// The adapter is about to be started: from here on it may have run.
    Starting,
    /// The adapter runs.
    Started {
        /// Its process id as seen here.
        pid: i32,
    },
    /// The activity token has appeared.
    Activity,
    /// The turn marker has appeared.
    TurnDone,
    /// The adapter is gone; what it left behind is being killed.
    Exited {
        /// How.
        exit: Exit,
    },
    /// The adapter was not started.
    Failed {
        /// At which stage.
        stage: Stage,
        /// Why.
        message: String,
        /// True when a file system or a quota had no room.
        disk_full: bool,
    },
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// What a start consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Undumpable, descriptors, signals.
    Isolate,
    /// The first order.
    Order,
    /// Exposed directories.
    View,
    /// Uid, gid, capabilities.
    Identity,
    /// Private directories.
    Directories,
    /// Watches.
    Watch,
    /// The adapter's process.
    Start,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Isolate => "isolate",
            Self::Order => "order",
            Self::View => "view",
            Self::Identity => "identity",
            Self::Directories => "directories",
            Self::Watch => "watch",
            Self::Start => "start",
        })
    }
}

/// Cuts a stream of bytes into lines of bounded length.
#[derive(Debug, Default)]
pub struct Lines {
    pending: Vec<u8>,
}

/// A line that is longer than [`LINE_BYTES`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a line of the control socket is longer than {LINE_BYTES} bytes")]
pub struct LineTooLong;

impl Lines {
    /// Takes what was read and gives every line that is complete, without its newline.
    ///
    /// # Errors
    /// When a line grows beyond its bound.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, LineTooLong> {
        self.pending.extend_from_slice(bytes);
        let mut lines = Vec::new();
        while let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') {
            let rest = self.pending.split_off(end + 1);
            let mut line = std::mem::replace(&mut self.pending, rest);
            line.pop();
            lines.push(line);
        }
        if self.pending.len() > LINE_BYTES || lines.iter().any(|line| line.len() > LINE_BYTES) {
            return Err(LineTooLong);
        }
        Ok(lines)
    }
}

/// `message` as one line with its newline.
#[must_use]
pub fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("these messages have only strings as keys");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_survive_every_way_of_cutting_them() {
        let stream = b"{\"a\":1}\n\n{\"b\":\"\\n\"}\n";
        for cut in 0..stream.len() {
            let mut lines = Lines::default();
            let mut seen = lines.push(&stream[..cut]).expect("short");
            seen.extend(lines.push(&stream[cut..]).expect("short"));
            assert_eq!(seen, [b"{\"a\":1}".to_vec(), Vec::new(), b"{\"b\":\"\\n\"}".to_vec()], "cut at {cut}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(&vec![b'x'; LINE_BYTES]), Ok(Vec::new()));
        assert_eq!(lines.push(b"x"), Err(LineTooLong));
    }

    #[test]
    fn messages_lead_back_to_themselves() {
        let words = [
            Word::Exited { exit: Exit::Signal(9) },
            Word::Failed { stage: Stage::Watch, message: "a\nb".to_owned(), disk_full: false },
            Word::Started { pid: 2 },
        ];
        for word in words {
            let said = Said { word, after_ms: 7 };
            let line = line(&said);
            assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1, "one newline, at the end");
            assert_eq!(serde_json::from_slice::<Said>(&line).expect("parses"), said);
        }
    }
}
