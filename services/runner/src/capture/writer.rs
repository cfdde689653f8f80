use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use mosaic_ids::Digest;
use sha2::{Digest as _, Sha256};

use super::layout::Part;
use super::stored::Kept;
use super::{Captured, Expectation, Progress, Shared};

/// Bytes that are read from a pipe at once: what the kernel holds in one.
const READ_BYTES: usize = 64 * 1024;

/// The two files of a stream, open for writing.
#[derive(Debug)]
pub(super) struct Files {
    head: File,
    ring: File,
}

impl Files {
    pub(super) fn create(file: &Path, ring: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        Ok(Self { head: options.open(file)?, ring: options.open(ring)? })
    }
}

/// Keeps one stream.
pub(super) struct Writer {
    shared: Arc<Shared>,
    files: Files,
    expectation: Option<Expectation>,
    hash: Sha256,
    total: u64,
    trailing_newlines: u64,
    fault: Option<io::Error>,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, files: Files, expectation: Option<Expectation>) -> Self {
        Self { shared, files, expectation, hash: Sha256::new(), total: 0, trailing_newlines: 0, fault: None }
    }

    pub(super) fn run(mut self, mut pipe: PipeReader) -> (Captured, File) {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => self.take(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.note(error);
                    break;
                }
            }
        }
        self.finish()
    }

    fn take(&mut self, bytes: &[u8]) {
        self.keep(bytes);
        self.shared.progress.send_modify(|progress| progress.total = self.total);
        // Watchers first: digest and comparison are for the end.
        self.hash.update(bytes);
        if let Some(expectation) = &mut self.expectation {
            expectation.feed(bytes);
        }
        let newlines = bytes.iter().rev().take_while(|&&byte| byte == b'\n').count();
        let before = if newlines == bytes.len() { self.trailing_newlines } else { 0 };
        self.trailing_newlines = before + newlines as u64;
    }

    fn keep(&mut self, mut bytes: &[u8]) {
        let end = self.total + bytes.len() as u64;
        if end > self.shared.layout.head {
            self.shared.progress.send_if_modified(|progress| {
                progress.reserved = end;
                false
            });
        }
        while !bytes.is_empty() {
            let (file, at, len) = match self.shared.layout.place(self.total, bytes.len() as u64) {
                Part::Head { at, len } => (&self.files.head, at, len),
                Part::Ring { at, len } => (&self.files.ring, at, len),
                Part::Dropped { .. } => unreachable!("the writer places everything"),
            };
            let (now, later) = bytes.split_at(usize::try_from(len).expect("at most what was read"));
            if let Err(error) = file.write_all_at(now, at) {
                self.note(error);
            }
            self.total += len;
            bytes = later;
        }
    }

    /// A full disk must not end a run; the first fault is told in the end.
    fn note(&mut self, error: io::Error) {
        if self.fault.is_none() {
            let file = self.shared.file.display();
            tracing::error!(file.path = %file, %error, "Could not keep output");
            self.fault = Some(error);
        }
    }

    fn finish(mut self) -> (Captured, File) {
        if let Err(error) = self.join() {
            self.note(error);
        }
        if let Err(error) = Kept::of(self.shared.layout, self.total).write(&self.shared.file) {
            let file = self.shared.file.display();
            tracing::warn!(file.path = %file, %error, "Could not write down what is kept of an output");
        }
        let progress = Progress { total: self.total, reserved: self.total, finished: true };
        self.shared.progress.send_replace(progress);
        let _removed_by_somebody = std::fs::remove_file(&self.shared.ring);
        let dropped = self.shared.layout.dropped(self.total);
        let captured = Captured {
            total: self.total,
            dropped,
            unbroken: if dropped == 0 { self.total } else { self.shared.layout.head },
            digest: Digest::from_hash(&self.hash.finalize()),
            trailing_newlines: self.trailing_newlines,
            as_expected: self.expectation.map(|expectation| expectation.holds()),
            fault: self.fault.map(|error| error.to_string()),
        };
        (captured, self.files.head)
    }

    /// Appends the tail, in its order, to the head.
    fn join(&mut self) -> io::Result<()> {
        let layout = self.shared.layout;
        let mut offset = layout.tail_start(self.total);
        let mut at = layout.head;
        let mut buffer = vec![0; READ_BYTES];
        while offset < self.total {
            let Part::Ring { at: source, len } = layout.find(offset, READ_BYTES as u64, self.total) else { break };
            let part = &mut buffer[..usize::try_from(len).expect("at most the buffer")];
            self.files.ring.read_exact_at(part, source)?;
            self.files.head.write_all_at(part, at)?;
            offset += len;
            at += len;
        }
        self.files.head.flush()
    }
}
