//! Between the wire and the use cases. Generated types stop here.

use std::time::Duration;

use mosaic_ids::{Digest, RunId};
use mosaic_proto::runner::v1 as pb;
use mosaic_record::Refusal;
use mosaic_rpc::RpcError;

use crate::app::{AppError, Execution, State, Stream, WAIT_LIMIT};
use crate::capture::{Chunk, ReadError};
use crate::domain::message::bounded;

/// Longest message that crosses to a caller, in bytes: it travels in a header, and is recorded.
const MESSAGE_BYTES: usize = 1_999;

/// Longest message of a fault.
const FAULT_BYTES: usize = 1_000;

pub(super) fn run_id(text: &str) -> Result<RunId, RpcError> {
    text.parse().map_err(|error: mosaic_ids::InvalidRunId| {
        RpcError::invalid(format!("run_id: {error}")).with("field", "run_id")
    })
}

pub(super) fn digest(text: &str) -> Result<Digest, RpcError> {
    text.parse().map_err(|error: mosaic_ids::InvalidDigest| {
        RpcError::invalid(format!("bundle_digest: {error}")).with("field", "bundle_digest")
    })
}

pub(super) fn epoch(number: i64) -> Result<i64, RpcError> {
    if number > 0 { Ok(number) } else { Err(RpcError::invalid("epoch: epochs begin at 1").with("field", "epoch")) }
}

pub(super) fn wait(duration: Option<prost_types::Duration>) -> Result<Duration, RpcError> {
    let wait = Duration::try_from(duration.unwrap_or_default());
    match wait {
        Ok(wait) if wait <= WAIT_LIMIT => Ok(wait),
        _ => {
            let message = format!("wait: at most {} s, and not negative", WAIT_LIMIT.as_secs());
            Err(RpcError::invalid(message).with("field", "wait"))
        }
    }
}

pub(super) fn stream(number: i32) -> Result<Stream, RpcError> {
    match pb::tail_output_request::Stream::try_from(number) {
        Ok(pb::tail_output_request::Stream::Stdout) => Ok(Stream::Stdout),
        Ok(pb::tail_output_request::Stream::Stderr) => Ok(Stream::Stderr),
        _ => Err(RpcError::invalid("stream: name STREAM_STDOUT or STREAM_STDERR").with("field", "stream")),
    }
}

pub(super) fn offset(number: i64) -> Result<u64, RpcError> {
    let negative = |_| RpcError::invalid("offset: offsets begin at 0").with("field", "offset");
    u64::try_from(number).map_err(negative)
}

pub(super) fn execution(execution: &Execution) -> pb::Execution {
    let status = execution.status();
    let written = |streams: Option<u64>| i64::try_from(streams.unwrap_or(0)).unwrap_or(i64::MAX);
    let streams = execution.streams();
    let totals = streams.map(|(stdout, stderr)| (stdout.progress().total, stderr.progress().total));
    pb::Execution {
        run_id: execution.run.to_string(),
        state: state(&status.state).into(),
        epoch: status.epoch,
        sandbox: status.sandbox,
        reported: status.reported,
        stdout_bytes: written(totals.map(|(stdout, _)| stdout)),
        stderr_bytes: written(totals.map(|(_, stderr)| stderr)),
    }
}

fn state(state: &State) -> pb::execution::State {
    match state {
        State::Starting => pb::execution::State::Starting,
        State::Running => pb::execution::State::Running,
        State::Ending => pb::execution::State::Ending,
        // Nothing of one that was not started is left either.
        State::Ended | State::NotStarted(_) => pb::execution::State::Ended,
    }
}

pub(super) fn chunk(chunk: Chunk) -> pb::TailOutputResponse {
    pb::TailOutputResponse {
        offset: i64::try_from(chunk.offset).unwrap_or(i64::MAX),
        dropped: i64::try_from(chunk.dropped).unwrap_or(i64::MAX),
        data: chunk.data,
    }
}

pub(super) fn read_error(error: &ReadError) -> RpcError {
    match error {
        ReadError::Beyond { offset, total } => {
            RpcError::out_of_range(error.to_string()).with("offset", offset).with("total", total)
        }
        ReadError::Io(_) => RpcError::internal(error),
    }
}

pub(super) fn app_error(error: AppError) -> RpcError {
    let message = bounded(error.to_string(), MESSAGE_BYTES);
    match error {
        AppError::Unknown { run } => RpcError::not_found(message).with("run_id", run),
        AppError::Stale { run, epoch } => {
            RpcError::refused(Refusal::StaleLease, message).with("run_id", run).with("epoch", epoch)
        }
        AppError::Refused { refusal, .. } => RpcError::refused(refusal, message),
        AppError::Full { limit } => RpcError::unavailable(message).with("limit", limit),
        AppError::Closing => RpcError::unavailable(message),
        // The caller records why a run was not started, and only the cause says that.
        AppError::Fault { .. } => RpcError { message: bounded(message, FAULT_BYTES), ..RpcError::internal(&error) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_malformed_is_refused_with_its_field() {
        let fields = [
            run_id("../x").err(),
            digest("abc").err(),
            epoch(0).err(),
            wait(Some(prost_types::Duration { seconds: 601, nanos: 0 })).err(),
            wait(Some(prost_types::Duration { seconds: -1, nanos: 0 })).err(),
            stream(0).err(),
            offset(-1).err(),
        ];
        let names = ["run_id", "bundle_digest", "epoch", "wait", "wait", "stream", "offset"];
        for (error, name) in fields.into_iter().zip(names) {
            let error = error.expect(name);
            assert_eq!(error.refusal(), Some(Refusal::InvalidRequest), "{name}");
            assert_eq!(error.metadata["field"], name);
        }
    }

    #[test]
    fn messages_are_bounded_and_a_fault_carries_its_cause() {
        let refused = app_error(AppError::refused(Refusal::SandboxUnavailable, "x".repeat(5_000)));
        assert_eq!((refused.refusal(), refused.message.len()), (Some(Refusal::SandboxUnavailable), MESSAGE_BYTES));
        let fault = |cause: String| app_error(AppError::fault("could not make it")(std::io::Error::other(cause)));
        assert_eq!(fault("the cause".to_owned()).message, "could not make it: the cause");
        let long = fault("x".repeat(5_000));
        assert_eq!((long.reason, long.message.len()), (mosaic_rpc::Reason::Internal, FAULT_BYTES));
    }

    #[test]
    fn a_wait_may_be_absent_and_may_be_long() {
        assert_eq!(wait(None).expect("valid"), Duration::ZERO);
        assert_eq!(wait(Some(prost_types::Duration { seconds: 600, nanos: 0 })).expect("valid"), WAIT_LIMIT);
    }
}
