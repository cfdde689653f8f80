use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use tokio::sync::watch;

use super::layout::Part;
use super::{Progress, Shared};

/// Bytes of one chunk at most.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;

/// What a reader gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Offset of the first byte.
    pub(crate) offset: u64,
    /// Bytes dropped just before it.
    pub(crate) dropped: u64,
    /// The bytes.
    pub(crate) data: Vec<u8>,
}

/// Why reading failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The offset is beyond what was written.
    #[error("offset {offset} is beyond the {total} bytes that were written")]
    Beyond {
        /// The offset.
        offset: u64,
        /// What was written.
        total: u64,
    },
    /// A file can't be read.
    #[error("can't read the output")]
    Io(#[from] io::Error),
}

/// Reads a stream by offset while it is written.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    shared: Arc<Shared>,
    progress: watch::Receiver<Progress>,
}

impl Reader {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let progress = shared.progress.subscribe();
        Self { shared, progress }
    }

    /// How far the stream is.
    pub(crate) fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    /// Returns when there is more than `offset`, or there will never be.
    pub(crate) async fn more_than(&mut self, offset: u64) -> Progress {
        let waited = self.progress.wait_for(|progress| progress.total > offset || progress.finished).await;
        waited.map_or(Progress { finished: true, ..Progress::default() }, |progress| *progress)
    }

    /// The next chunk from `offset` on; `None` when there is nothing there yet.
    ///
    /// # Errors
    /// When the offset is beyond what was written, or a file can't be read.
    pub(crate) fn read(&self, offset: u64) -> Result<Option<Chunk>, ReadError> {
        let mut offset = offset;
        let mut dropped = 0;
        loop {
            let progress = self.progress();
            let Progress { total, finished, .. } = progress;
            if offset > total {
                return Err(ReadError::Beyond { offset, total });
            }
            if offset == total {
                return Ok(None);
            }
            let layout = self.shared.layout;
            let find = if finished {
                layout.find_joined(offset, CHUNK_BYTES as u64, total)
            } else {
                layout.find(offset, CHUNK_BYTES as u64, total)
            };
            let (path, at, len) = match find {
                Part::Head { at, len } => (&self.shared.file, at, len),
                Part::Ring { at, len } => (&self.shared.ring, at, len),
                Part::Dropped { len } => {
                    dropped += len;
                    offset += len;
                    continue;
                }
            };
            let mut data = vec![0; usize::try_from(len).expect("at most one chunk")];
            let read = File::open(path).and_then(|file| file.read_exact_at(&mut data, at));
            // What was read counts only if the writer did not come near it meanwhile.
            let now = self.progress();
            let is_overwritten =
                matches!(find, Part::Ring { .. }) && offset < layout.tail_start(now.reserved.max(now.total));
            if now.finished != finished || is_overwritten {
                continue;
            }
            read?;
            return Ok(Some(Chunk { offset, dropped, data }));
        }
    }
}
