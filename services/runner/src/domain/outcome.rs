//! The outcome of an execution: a pure function of what was observed.

use mosaic_adapters::TurnMarker;
use mosaic_record::{EndReason, Note, Outcome, Output, RunStatus};
use mosaic_shim::protocol::Exit;

use super::response::Response;
use super::turn::TurnResult;

/// Everything that an outcome depends on.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    /// What came of the turn.
    pub(crate) turn: TurnResult,
    /// Whether the adapter must write a turn marker.
    pub(crate) turn_marker: TurnMarker,
    /// True when an empty answer is a success.
    pub(crate) allows_empty_answer: bool,
    /// The response.
    pub(crate) response: Response,
    /// Whether it is the expected one; `None` where nothing was expected.
    pub(crate) as_expected: Option<bool>,
    /// What was written and kept.
    pub(crate) output: Output,
    /// What was killed for want of memory, if something was.
    pub(crate) out_of_memory: Option<OutOfMemory>,
    /// The limit of processes, if it was hit.
    pub(crate) process_limit: Option<u64>,
    /// Time from the start of the adapter to its end, in milliseconds.
    pub(crate) duration_ms: u64,
    /// What else people should know.
    pub(crate) warnings: Vec<String>,
}

/// What was killed for want of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfMemory {
    /// Processes.
    pub(crate) kills: u64,
    /// The limit, in bytes.
    pub(crate) limit_bytes: u64,
    /// Highest use, in bytes; 0 where it is not known.
    pub(crate) peak_bytes: u64,
}

/// The outcome.
pub(crate) fn outcome(observed: Observed) -> Outcome {
    let (status, reason, warning) = verdict(&observed);
    let mut warnings = observed.warnings;
    warnings.extend(warning);
    let mut notes = Vec::new();
    if observed.output.dropped > 0 {
        notes.push(Note::OutputTruncated);
    }
    if observed.turn.lingered {
        notes.push(Note::Lingered);
    }
    let (exit_code, signal) = match observed.turn.exit {
        Some(Exit::Code(code)) => (Some(code), None),
        Some(Exit::Signal(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    Outcome {
        status,
        reason,
        notes,
        warnings,
        exit_code,
        signal,
        response: Some(observed.response.text),
        response_truncated: observed.response.truncated,
        output: observed.output,
        duration_ms: Some(observed.duration_ms),
    }
}

type Verdict = (RunStatus, Option<EndReason>, Option<String>);

fn failed(reason: EndReason, warning: impl Into<Option<String>>) -> Verdict {
    (RunStatus::Failed, Some(reason), warning.into())
}

/// First what was done to the run, then what it did, then what it said.
fn verdict(observed: &Observed) -> Verdict {
    if observed.turn.cause == Some(EndReason::Cancelled) {
        return (RunStatus::Cancelled, Some(EndReason::Cancelled), None);
    }
    if let Some(OutOfMemory { kills, limit_bytes, peak_bytes }) = observed.out_of_memory {
        let warning = format!("{kills} killed for want of memory; limit {limit_bytes} bytes, peak {peak_bytes} bytes");
        return failed(EndReason::Oom, warning);
    }
    if let Some(limit) = observed.process_limit {
        return failed(EndReason::ProcessLimit, format!("forks were refused at the limit of {limit} processes"));
    }
    if let Some(cause) = observed.turn.cause {
        return failed(cause, None);
    }
    if let Some(failure) = adapter_failure(observed) {
        return failure;
    }
    if observed.as_expected == Some(false) {
        return failed(EndReason::ExpectMismatch, None);
    }
    (RunStatus::Succeeded, None, None)
}

fn adapter_failure(observed: &Observed) -> Option<Verdict> {
    let turn = &observed.turn;
    let reason = EndReason::AdapterFailed;
    match turn.exit {
        // Killed after its marker: the turn was over by then.
        None if turn.lingered => {}
        None => return Some(failed(reason, "the sandbox ended without telling how the adapter did".to_owned())),
        Some(Exit::Code(0)) if observed.turn_marker == TurnMarker::Required && !turn.has_marker => {
            return Some(failed(reason, "exit status 0 without the turn marker that the adapter declares".to_owned()));
        }
        Some(Exit::Code(0)) => {}
        Some(Exit::Code(code)) => return Some(failed(reason, format!("exit status {code}"))),
        Some(Exit::Signal(signal)) => return Some(failed(reason, format!("ended by signal {signal}"))),
    }
    let is_silent = observed.response.text.is_empty() && !observed.allows_empty_answer;
    is_silent.then(|| failed(EndReason::NoAnswer, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed() -> Observed {
        Observed {
            turn: TurnResult { exit: Some(Exit::Code(0)), ..TurnResult::default() },
            turn_marker: TurnMarker::None,
            allows_empty_answer: false,
            response: Response { text: "ok".to_owned(), truncated: false },
            as_expected: None,
            output: Output::default(),
            out_of_memory: None,
            process_limit: None,
            duration_ms: 5,
            warnings: Vec::new(),
        }
    }

    const OOM: OutOfMemory = OutOfMemory { kills: 1, limit_bytes: 100, peak_bytes: 99 };

    type Change = fn(&mut Observed);

    #[test]
    fn each_observation_has_its_verdict() {
        let silent: Change = |o| o.response.text.clear();
        let cases: [(&str, Change, RunStatus, Option<EndReason>); 19] = [
            ("an answer", |_| {}, RunStatus::Succeeded, None),
            ("the expected answer", |o| o.as_expected = Some(true), RunStatus::Succeeded, None),
            ("another answer", |o| o.as_expected = Some(false), RunStatus::Failed, Some(EndReason::ExpectMismatch)),
            ("no answer", silent, RunStatus::Failed, Some(EndReason::NoAnswer)),
            (
                "no answer where that is allowed",
                |o| (o.response.text, o.allows_empty_answer) = (String::new(), true),
                RunStatus::Succeeded,
                None,
            ),
            ("an error", |o| o.turn.exit = Some(Exit::Code(3)), RunStatus::Failed, Some(EndReason::AdapterFailed)),
            ("a signal", |o| o.turn.exit = Some(Exit::Signal(11)), RunStatus::Failed, Some(EndReason::AdapterFailed)),
            ("nobody saw it", |o| o.turn.exit = None, RunStatus::Failed, Some(EndReason::AdapterFailed)),
            (
                "lingered",
                |o| o.turn = TurnResult { has_marker: true, lingered: true, ..TurnResult::default() },
                RunStatus::Succeeded,
                None,
            ),
            (
                "lingered with the wrong answer",
                |o| {
                    o.turn = TurnResult { has_marker: true, lingered: true, ..TurnResult::default() };
                    o.as_expected = Some(false);
                },
                RunStatus::Failed,
                Some(EndReason::ExpectMismatch),
            ),
            (
                "a missing marker",
                |o| o.turn_marker = TurnMarker::Required,
                RunStatus::Failed,
                Some(EndReason::AdapterFailed),
            ),
            (
                "a required marker",
                |o| (o.turn_marker, o.turn.has_marker) = (TurnMarker::Required, true),
                RunStatus::Succeeded,
                None,
            ),
            ("an optional marker left out", |o| o.turn_marker = TurnMarker::Optional, RunStatus::Succeeded, None),
            (
                "an error after the marker",
                |o| o.turn = TurnResult { exit: Some(Exit::Code(1)), has_marker: true, ..TurnResult::default() },
                RunStatus::Failed,
                Some(EndReason::AdapterFailed),
            ),
            ("too late", |o| o.turn.cause = Some(EndReason::TimedOut), RunStatus::Failed, Some(EndReason::TimedOut)),
            ("memory, though it exits well", |o| o.out_of_memory = Some(OOM), RunStatus::Failed, Some(EndReason::Oom)),
            (
                "memory, and then too late",
                |o| (o.out_of_memory, o.turn.cause) = (Some(OOM), Some(EndReason::TimedOut)),
                RunStatus::Failed,
                Some(EndReason::Oom),
            ),
            ("a fork bomb", |o| o.process_limit = Some(8), RunStatus::Failed, Some(EndReason::ProcessLimit)),
            (
                "a stop, whatever else",
                |o| (o.out_of_memory, o.turn.cause) = (Some(OOM), Some(EndReason::Cancelled)),
                RunStatus::Cancelled,
                Some(EndReason::Cancelled),
            ),
        ];
        for (name, change, status, reason) in cases {
            let mut case = observed();
            change(&mut case);
            let outcome = outcome(case);
            assert_eq!((outcome.status, outcome.reason), (status, reason), "{name}");
        }
    }

    #[test]
    fn notes_and_warnings_say_what_lies_behind() {
        let mut case = observed();
        case.output.dropped = 1;
        case.turn.lingered = true;
        case.out_of_memory = Some(OOM);
        let outcome = outcome(case);
        assert_eq!(outcome.notes, [Note::OutputTruncated, Note::Lingered]);
        assert_eq!(outcome.warnings, ["1 killed for want of memory; limit 100 bytes, peak 99 bytes"]);
        assert_eq!((outcome.exit_code, outcome.signal), (Some(0), None));
    }
}
