use futures::Stream as FutureStream;
use mosaic_ids::RunId;

use super::{App, AppError};
use crate::capture::{Chunk, ReadError, Reader, reopen};

/// Which of the adapter's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// The response.
    Stdout,
    /// Diagnostics.
    Stderr,
}

impl App {
    /// The chunks of a stream from `offset` on; with `follow` until the execution has ended, otherwise what is there now.
    /// Of one that is not known any more, what is on disk.
    pub(crate) fn tail(
        &self,
        run: &RunId,
        stream: Stream,
        offset: u64,
        follow: bool,
    ) -> Result<impl FutureStream<Item = Result<Chunk, ReadError>> + Send + use<>, AppError> {
        Ok(chunks(self.reader(run, stream)?, offset, follow))
    }

    fn reader(&self, run: &RunId, stream: Stream) -> Result<Reader, AppError> {
        let unknown = || AppError::Unknown { run: run.clone() };
        if let Some(execution) = self.registry.get(run) {
            if let Some((stdout, stderr)) = execution.streams() {
                return Ok(if stream == Stream::Stdout { stdout } else { stderr });
            }
            // Only of one of an earlier life the files are all that there will be.
            if !execution.is_inherited() {
                return Err(unknown());
            }
        }
        let file = match stream {
            Stream::Stdout => self.parts.root.run_stdout(run),
            Stream::Stderr => self.parts.root.run_stderr(run),
        };
        reopen(&file).map_err(AppError::fault("could not look at what was kept of an output"))?.ok_or_else(unknown)
    }
}

fn chunks(mut reader: Reader, mut offset: u64, follow: bool) -> impl FutureStream<Item = Result<Chunk, ReadError>> {
    let end = if follow { u64::MAX } else { reader.progress().total };
    async_stream::stream! {
        // An offset beyond the stream is an error, even where nothing is there to read.
        loop {
            match reader.read(offset) {
                Ok(Some(chunk)) => {
                    offset = chunk.offset + chunk.data.len() as u64;
                    yield Ok(chunk);
                }
                Ok(None) if !follow => return,
                Ok(None) => {
                    let progress = reader.more_than(offset).await;
                    if progress.total <= offset {
                        return;
                    }
                }
                Err(error) => {
                    yield Err(error);
                    return;
                }
            }
            if offset >= end {
                return;
            }
        }
    }
}
