use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use jiff::Timestamp;
use mosaic_record::RunEvent;

/// Name of the spool in the directory of an execution.
const NAME: &str = "spool.jsonl";

/// Largest spool that is read, in bytes: the reports of a day are far below it.
const SPOOL_BYTES: u64 = 64 * 1024 * 1024;

/// One report: what was seen, when, and the number by which the broker takes it once.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Entry {
    /// Number within the run, from 1, without a gap.
    pub(crate) number: i64,
    /// When it was seen.
    pub(crate) time: Timestamp,
    /// What was seen.
    pub(crate) event: RunEvent,
}

/// The reports of one execution: on disk before they are sent.
///
/// A write that fails does not end the run: the entry stays in memory, and only a crash before the broker has it can lose
/// it.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    entries: Vec<Entry>,
}

impl Spool {
    /// Opens the spool in `directory`, makes it when it is missing, and drops a last line that a crash cut short.
    ///
    /// # Errors
    /// When it can't be read or written.
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(directory.join(NAME))?;
        let mut content = Vec::new();
        (&mut file).take(SPOOL_BYTES).read_to_end(&mut content)?;
        let (entries, length) = parse(&content);
        file.set_len(length)?;
        file.seek(SeekFrom::Start(length))?;
        Ok(Self { file, entries })
    }

    /// Appends a report; the terminal one is on disk when this returns.
    pub(crate) fn append(&mut self, time: Timestamp, event: RunEvent) {
        let number = self.last_number() + 1;
        let is_last = matches!(event, RunEvent::Ended(_));
        let entry = Entry { number, time, event };
        if let Err(error) = self.write(&entry, is_last) {
            tracing::error!(report.number = number, %error, "Could not spool a report; it is kept in memory");
        }
        self.entries.push(entry);
    }

    /// The reports after `number`, at most `limit`.
    pub(crate) fn after(&self, number: i64, limit: usize) -> &[Entry] {
        let from = usize::try_from(number).unwrap_or(0).min(self.entries.len());
        &self.entries[from..self.entries.len().min(from + limit)]
    }

    /// Number of the last report; 0 before the first.
    pub(crate) fn last_number(&self) -> i64 {
        self.entries.last().map_or(0, |entry| entry.number)
    }

    /// True when the terminal report is there.
    pub(crate) fn is_complete(&self) -> bool {
        self.entries.last().is_some_and(|entry| matches!(entry.event, RunEvent::Ended(_)))
    }

    fn write(&mut self, entry: &Entry, sync: bool) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry).map_err(io::Error::other)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        if sync { self.file.sync_all() } else { Ok(()) }
    }
}

/// The entries that are whole and in order, and how many bytes they take.
fn parse(content: &[u8]) -> (Vec<Entry>, u64) {
    let (mut entries, mut length) = (Vec::new(), 0);
    for line in content.split_inclusive(|&byte| byte == b'\n') {
        let expected = i64::try_from(entries.len()).unwrap_or(i64::MAX) + 1;
        match serde_json::from_slice::<Entry>(line) {
            Ok(entry) if line.ends_with(b"\n") && entry.number == expected => entries.push(entry),
            _ => break,
        }
        length += line.len() as u64;
    }
    (entries, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time() -> Timestamp {
        "2026-01-02T03:04:05Z".parse().expect("a time")
    }

    #[test]
    fn a_spool_is_read_again_without_the_line_that_a_crash_cut() {
        let scratch = tempfile::tempdir().expect("scratch");
        let mut spool = Spool::open(scratch.path()).expect("made");
        spool.append(time(), RunEvent::TurnDone {});
        spool.append(time(), RunEvent::Ending { reason: mosaic_record::EndReason::Cancelled });
        let path = scratch.path().join(NAME);
        let mut content = std::fs::read(&path).expect("readable");
        let whole = content.len();
        content.extend_from_slice(b"{\"number\":3,\"ti");
        std::fs::write(&path, &content).expect("written");

        let mut again = Spool::open(scratch.path()).expect("opened");
        assert_eq!(again.last_number(), 2);
        assert_eq!(std::fs::metadata(&path).expect("there").len(), whole as u64);
        assert!(!again.is_complete());
        again.append(time(), RunEvent::TurnDone {});
        assert_eq!(Spool::open(scratch.path()).expect("opened").last_number(), 3);
    }

    #[test]
    fn reports_are_given_out_in_order_and_in_batches() {
        let scratch = tempfile::tempdir().expect("scratch");
        let mut spool = Spool::open(scratch.path()).expect("made");
        for _ in 0..5 {
            spool.append(time(), RunEvent::TurnDone {});
        }
        let numbers = |after, limit| spool.after(after, limit).iter().map(|entry| entry.number).collect::<Vec<_>>();
        assert_eq!(numbers(0, 2), [1, 2]);
        assert_eq!(numbers(3, 9), [4, 5]);
        assert_eq!(numbers(5, 9), [0; 0]);
    }
}
