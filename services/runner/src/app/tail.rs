use std::sync::Arc;

use futures::Stream as FutureStream;

use super::{AppError, Execution};
use crate::capture::{Chunk, ReadError, Reader};

/// Which of the adapter's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// The response.
    Stdout,
    /// Diagnostics.
    Stderr,
}

/// The chunks of a stream from `offset` on; with `follow` until the execution has ended, otherwise what is there now.
pub(crate) fn tail(
    execution: &Arc<Execution>,
    stream: Stream,
    offset: u64,
    follow: bool,
) -> Result<impl FutureStream<Item = Result<Chunk, ReadError>> + Send + use<>, AppError> {
    let unknown = || AppError::Unknown { run: execution.run.clone() };
    let (stdout, stderr) = execution.streams().ok_or_else(unknown)?;
    let reader = match stream {
        Stream::Stdout => stdout,
        Stream::Stderr => stderr,
    };
    Ok(chunks(reader, offset, follow))
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
