//! What an adapter writes: counted and digested whole, kept up to a limit, readable while it is written.
//!
//! Invariants:
//! - Memory does not grow with the output: the beginning goes to a file, what follows to a second file of fixed size that
//!   is written round and round, and at the end its content is appended to the first.
//! - Output never ends a run. What is beyond the limit, in the middle, is dropped and counted.
//! - Offsets count everything that was written, kept or not. What the file holds is written beside it when the stream is
//!   over, so that they still hold for whoever reads it later.

mod expectation;
mod layout;
mod reader;
mod stored;
mod writer;

use std::io::{self, PipeReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mosaic_ids::Digest;
use tokio::sync::{oneshot, watch};

pub(crate) use expectation::Expectation;
pub(crate) use layout::Layout;
pub(crate) use reader::{Chunk, ReadError, Reader};
pub(crate) use stored::reopen;

/// How far a stream is. Published after the bytes are in their files; `reserved` before they are overwritten.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Bytes written so far.
    pub(crate) total: u64,
    /// Bytes that the writer may be about to write: what they push out of the tail is no longer read.
    reserved: u64,
    /// True when there will be no more, and both parts are in one file.
    pub(crate) finished: bool,
}

/// What is known of a stream when it is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Captured {
    /// Bytes written.
    pub(crate) total: u64,
    /// Bytes that were not kept.
    pub(crate) dropped: u64,
    /// Bytes from the beginning that the file holds without a gap.
    pub(crate) unbroken: u64,
    /// Digest of everything.
    pub(crate) digest: Digest,
    /// Newlines at the very end.
    pub(crate) trailing_newlines: u64,
    /// Whether the stream was the expected one; `None` where nothing was expected.
    pub(crate) as_expected: Option<bool>,
    /// What kept a part of the output from its file, if something did.
    pub(crate) fault: Option<String>,
}

/// Where a stream is kept, and how far it is.
#[derive(Debug)]
struct Shared {
    /// The file that is left in the end.
    file: PathBuf,
    /// The file that is written round and round.
    ring: PathBuf,
    layout: Layout,
    progress: watch::Sender<Progress>,
}

/// A stream that is being kept.
#[derive(Debug)]
pub(crate) struct Capture {
    shared: Arc<Shared>,
    end: oneshot::Receiver<Captured>,
}

impl Capture {
    /// Makes the files for a stream. `file` must not be there yet: no execution writes into the output of another.
    ///
    /// # Errors
    /// When they can't be made.
    pub(crate) fn prepare(file: &Path, limit: u64) -> io::Result<Prepared> {
        let ring = file.with_extension("tail");
        let files = writer::Files::create(file, &ring)?;
        let progress = watch::Sender::new(Progress::default());
        let shared = Shared { file: file.into(), ring, layout: Layout::within(limit), progress };
        Ok(Prepared { shared: Arc::new(shared), files })
    }

    /// Returns when the stream is over, with what is known of it. To be called once.
    pub(crate) async fn finished(&mut self) -> Option<Captured> {
        (&mut self.end).await.ok()
    }

    /// Reads along.
    pub(crate) fn reader(&self) -> Reader {
        Reader::new(Arc::clone(&self.shared))
    }
}

/// The files of a stream, before anything writes to it.
#[derive(Debug)]
pub(crate) struct Prepared {
    shared: Arc<Shared>,
    files: writer::Files,
}

impl Prepared {
    /// Keeps what comes out of `pipe` until its end, on a thread of its own.
    ///
    /// # Errors
    /// When the thread can't be started.
    pub(crate) fn keep(self, pipe: PipeReader, expectation: Option<Expectation>) -> io::Result<Capture> {
        let (ended, end) = oneshot::channel();
        let writer = writer::Writer::new(Arc::clone(&self.shared), self.files, expectation);
        let thread = std::thread::Builder::new().name("capture".to_owned());
        thread.spawn(move || {
            let (captured, file) = writer.run(pipe);
            let _nobody_waits = ended.send(captured);
            // Nobody waits for the disk either: the terminal report does not depend on it.
            if let Err(error) = file.sync_data() {
                tracing::warn!(%error, "Could not sync kept output");
            }
        })?;
        Ok(Capture { shared: self.shared, end })
    }

    /// Removes the files again: nothing ran.
    pub(crate) fn discard(self) {
        for path in [&self.shared.file, &self.shared.ring] {
            if let Err(error) = std::fs::remove_file(path) {
                tracing::warn!(file.path = %path.display(), %error, "Could not remove an output file");
            }
        }
    }
}

/// What an earlier life of this process kept of a stream: its length. The second file can't be read without what was in
/// memory, and is removed.
pub(crate) fn abandon(file: &Path) -> u64 {
    let _none = std::fs::remove_file(file.with_extension("tail"));
    std::fs::metadata(file).map_or(0, |metadata| metadata.len())
}

#[cfg(test)]
mod tests;
