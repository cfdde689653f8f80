//! Between the wire and the domain: what comes in is checked here, once, and an error names the field.

pub(super) mod retention;

use std::time::Duration;

use jiff::Timestamp;
use mosaic_ids::{Name, RequestId, RunId};
use mosaic_proto::broker::v1 as pb;
use mosaic_record::{Harvest, Refusal, RunStatus, StepFacts, StepState};
use mosaic_rpc::{PageToken, RpcError};

use crate::app::RunDetails;
use crate::domain::{Change, Event, Fault, Report, Run, RunFilter, RunSummary, raw_hash};

/// Largest spec, in bytes.
const SPEC_BYTES: usize = 72 * 1024 * 1024;
/// Longest name of a step, in bytes.
const STEP_BYTES: usize = 64;
/// Longest message of a refusal, in bytes.
const MESSAGE_BYTES: usize = 4096;
/// Longest harvest, in bytes.
const HARVEST_BYTES: usize = 4 * 1024 * 1024;
/// Longest integration, in bytes.
const INTEGRATION_BYTES: usize = 64 * 1024;
/// Most reports of one call.
const REPORTS: usize = 256;

/// The request is malformed at `field`.
fn invalid(field: &str, why: impl std::fmt::Display) -> RpcError {
    RpcError::invalid(format!("{field}: {why}")).with("field", field)
}

pub(super) fn run_id(text: String) -> Result<RunId, RpcError> {
    RunId::try_from(text).map_err(|error| invalid("run_id", error))
}

pub(super) fn request_id(field: &str, text: String) -> Result<RequestId, RpcError> {
    let why = "1 to 128 bytes of printable ASCII without space";
    RequestId::try_from(text).map_err(|_not_one| invalid(field, why))
}

pub(super) fn spec(text: String) -> Result<String, RpcError> {
    let bytes = text.len();
    if bytes <= SPEC_BYTES { Ok(text) } else { Err(invalid("spec", format!("{bytes} bytes; at most {SPEC_BYTES}"))) }
}

/// A position in the ledger; 0 is the beginning.
pub(super) fn from_sequence(number: i64) -> Result<i64, RpcError> {
    if number >= 0 { Ok(number) } else { Err(invalid("from_sequence", format!("{number} is negative"))) }
}

fn step_name(field: &str, text: String) -> Result<String, RpcError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let valid = (1..=STEP_BYTES).contains(&text.len()) && text.bytes().all(plain);
    if valid { Ok(text) } else { Err(invalid(field, format!("1 to {STEP_BYTES} bytes of a-z 0-9 -"))) }
}

pub(super) fn step(request: pb::RecordStepRequest) -> Result<(RunId, Change), RpcError> {
    use pb::record_step_request::State;
    let state = match request.state() {
        State::Done => StepState::Done,
        State::Undone => StepState::Undone,
        State::Unspecified => return Err(invalid("state", "STATE_DONE or STATE_UNDONE")),
    };
    let facts: StepFacts = match request.facts.as_str() {
        "" => StepFacts::default(),
        json => serde_json::from_str(json).map_err(|error| invalid("facts", error))?,
    };
    let step = step_name("step", request.step)?;
    Ok((run_id(request.run_id)?, Change::Step { epoch: request.epoch, step, state, facts }))
}

pub(super) fn refusal(request: pb::RefuseRunRequest) -> Result<(RunId, Change), RpcError> {
    let reason: Refusal = request.reason.parse().map_err(|error| invalid("reason", error))?;
    let step = step_name("step", request.step)?;
    let bytes = request.message.len();
    if bytes > MESSAGE_BYTES {
        return Err(invalid("message", format!("{bytes} bytes; at most {MESSAGE_BYTES}")));
    }
    let change = Change::Refuse { epoch: request.epoch, reason, step, message: request.message };
    Ok((run_id(request.run_id)?, change))
}

pub(super) fn report_request(request: pb::ReportRunRequest) -> Result<(RunId, Change), RpcError> {
    let reports = reports(request.reports)?;
    Ok((run_id(request.run_id)?, Change::Report { epoch: request.epoch, reports }))
}

/// A stream has a request under this tag that is not answered yet.
pub(super) fn repeated_tag(tag: i64) -> RpcError {
    invalid("tag", format!("{tag} is still unanswered")).with("tag", tag)
}

fn reports(reports: Vec<pb::Report>) -> Result<Vec<Report>, RpcError> {
    if !(1..=REPORTS).contains(&reports.len()) {
        return Err(invalid("reports", format!("{}; 1 to {REPORTS}", reports.len())));
    }
    reports.into_iter().enumerate().map(|(at, report)| self::report(at, &report)).collect()
}

fn report(at: usize, report: &pb::Report) -> Result<Report, RpcError> {
    let field = |name: &str| format!("reports[{at}].{name}");
    let time = report.time.as_ref().ok_or_else(|| invalid(&field("time"), "missing"))?;
    let time = Timestamp::new(time.seconds, time.nanos).map_err(|error| invalid(&field("time"), error))?;
    let event = serde_json::from_str(&report.payload).map_err(|error| invalid(&field("payload"), error))?;
    Ok(Report { number: report.number, time, event })
}

pub(super) fn harvest(request: pb::RecordHarvestRequest) -> Result<(RunId, Change), RpcError> {
    let bytes = request.harvest.len();
    if bytes > HARVEST_BYTES {
        return Err(invalid("harvest", format!("{bytes} bytes; at most {HARVEST_BYTES}")));
    }
    let harvest: Harvest = serde_json::from_str(&request.harvest).map_err(|error| invalid("harvest", error))?;
    if harvest != Harvest::of(harvest.projects.clone()) {
        let why = "its state must be `done` when every project has its work, else `failed`";
        return Err(invalid("harvest", why));
    }
    Ok((run_id(request.run_id)?, Change::Harvested { epoch: request.epoch, harvest, bytes }))
}

pub(super) fn integration(request: pb::RecordIntegrationRequest) -> Result<(RunId, Change), RpcError> {
    let bytes = request.integration.len();
    if bytes > INTEGRATION_BYTES {
        return Err(invalid("integration", format!("{bytes} bytes; at most {INTEGRATION_BYTES}")));
    }
    let integration = serde_json::from_str(&request.integration).map_err(|error| invalid("integration", error))?;
    Ok((run_id(request.run_id)?, Change::Integrated { integration, bytes }))
}

/// Which runs a list is to show.
pub(super) fn filter(request: &pb::ListRunsRequest) -> Result<RunFilter, RpcError> {
    let session = match request.session.as_str() {
        "" => None,
        name => Some(name.parse::<Name>().map_err(|error| invalid("session", error))?),
    };
    let statuses = statuses(&request.states)?;
    Ok(RunFilter { statuses, harvest_pending: request.harvest_pending, session })
}

/// The statuses of a filter, each once.
fn statuses(states: &[i32]) -> Result<Vec<RunStatus>, RpcError> {
    let mut statuses = Vec::new();
    for &number in states {
        let state = pb::run::State::try_from(number).unwrap_or_default();
        let status = status_of(state).ok_or_else(|| invalid("states", format!("{number} is not a state")))?;
        if !statuses.contains(&status) {
            statuses.push(status);
        }
    }
    statuses.sort_unstable();
    Ok(statuses)
}

/// Where a list of runs goes on: before this first sequence.
pub(super) fn before(token: &str, filter: &RunFilter) -> Result<i64, RpcError> {
    if token.is_empty() {
        return Ok(i64::MAX);
    }
    let after = token.parse::<PageToken>().and_then(|token| token.resume(&query(filter)));
    let after = after.map_err(|error| invalid("page_token", error))?;
    after.parse().map_err(|_not_a_sequence| invalid("page_token", mosaic_rpc::InvalidPageToken))
}

/// Token of the page that goes on before this first sequence.
pub(super) fn page_token(before: Option<i64>, filter: &RunFilter) -> String {
    before.map(|before| PageToken::new(before.to_string(), &query(filter)).to_string()).unwrap_or_default()
}

/// What a filter says, for the token that is bound to it.
fn query(filter: &RunFilter) -> String {
    let mut query = filter.statuses.iter().map(|status| status.as_str()).collect::<Vec<_>>().join(",");
    if filter.harvest_pending {
        query.push_str(" harvest-pending");
    }
    if let Some(session) = &filter.session {
        query.push_str(" session:");
        query.push_str(session.as_str());
    }
    query
}

fn status_of(state: pb::run::State) -> Option<RunStatus> {
    use pb::run::State;
    Some(match state {
        State::Unspecified => return None,
        State::Queued => RunStatus::Queued,
        State::Preparing => RunStatus::Preparing,
        State::Running => RunStatus::Running,
        State::Succeeded => RunStatus::Succeeded,
        State::Failed => RunStatus::Failed,
        State::Cancelled => RunStatus::Cancelled,
        State::Lost => RunStatus::Lost,
        State::Refused => RunStatus::Refused,
    })
}

fn state_of(status: RunStatus) -> pb::run::State {
    use pb::run::State;
    match status {
        RunStatus::Queued => State::Queued,
        RunStatus::Preparing => State::Preparing,
        RunStatus::Running => State::Running,
        RunStatus::Succeeded => State::Succeeded,
        RunStatus::Failed => State::Failed,
        RunStatus::Cancelled => State::Cancelled,
        RunStatus::Lost => State::Lost,
        RunStatus::Refused => State::Refused,
    }
}

pub(super) fn time_to_pb(time: Timestamp) -> prost_types::Timestamp {
    // Both round towards the past, as the wire wants it.
    let nanos = time.as_nanosecond();
    let seconds = i64::try_from(nanos.div_euclid(1_000_000_000)).expect("a timestamp's seconds fit 64 bits");
    let nanos = i32::try_from(nanos.rem_euclid(1_000_000_000)).expect("below a thousand millions");
    prost_types::Timestamp { seconds, nanos }
}

/// A run without record and spec.
pub(super) fn summary_to_pb(run: RunSummary) -> pb::Run {
    pb::Run {
        run_id: run.run_id.into(),
        state: state_of(run.status).into(),
        reason: run.reason.unwrap_or_default(),
        create_time: Some(time_to_pb(run.created_at)),
        start_time: run.started_at.map(time_to_pb),
        end_time: run.finished_at.map(time_to_pb),
        task_id: run.task_id.into(),
        adapter: run.adapter.into(),
        model: run.model.unwrap_or_default(),
        workspace: run.workspace.unwrap_or_default(),
        session: run.session.map(String::from).unwrap_or_default(),
        last_sequence: run.last_sequence,
        epoch: run.epoch,
        cancel_requested: run.cancel_requested,
        record: String::new(),
        spec: String::new(),
        kept: run.kept,
        record_pruned: run.record_pruned,
        harvest_pending: run.harvest_pending,
    }
}

/// A run with everything.
pub(super) fn details_to_pb(run: RunDetails) -> pb::Run {
    pb::Run { record: run.record, spec: run.spec, ..summary_to_pb(run.summary) }
}

/// The lease that `run` is under.
pub(super) fn lease_to_pb(run: &Run, term: Duration) -> pb::Lease {
    pb::Lease {
        run_id: run.id().to_string(),
        epoch: run.epoch,
        holder: run.holder.as_ref().map(ToString::to_string).unwrap_or_default(),
        term: prost_types::Duration::try_from(term).ok(),
    }
}

pub(super) fn event_to_pb(event: Event) -> pb::Event {
    pb::Event {
        sequence: event.sequence,
        event_id: event.id.to_string(),
        time: Some(time_to_pb(event.time)),
        hash: raw_hash(&event.hash),
        kind: event.kind,
        actor: event.actor.to_string(),
        subject: event.subject,
        payload: event.payload,
        trace_id: event.trace_id.unwrap_or_default(),
    }
}

pub(super) fn fault_to_pb(fault: Fault) -> pb::LedgerFault {
    pb::LedgerFault { sequence: fault.sequence, run_id: fault.run_id, message: fault.message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_a_state_and_leads_back() {
        for &status in RunStatus::ALL {
            assert_eq!(status_of(state_of(status)), Some(status));
        }
        assert_eq!(status_of(pb::run::State::Unspecified), None);
    }

    #[test]
    fn an_unknown_state_is_refused_and_a_repeated_one_counts_once() {
        statuses(&[0]).expect_err("unspecified");
        statuses(&[99]).expect_err("unknown");
        assert_eq!(statuses(&[2, 1, 2]).expect("known"), [RunStatus::Queued, RunStatus::Preparing]);
    }

    #[test]
    fn a_page_token_is_bound_to_its_filter() {
        let queued = RunFilter { statuses: vec![RunStatus::Queued], ..RunFilter::default() };
        let session = RunFilter { session: Some("talk".parse().expect("a name")), ..queued.clone() };
        let pending = RunFilter { harvest_pending: true, ..queued.clone() };
        let filters = [RunFilter::default(), queued, session, pending];
        for own in &filters {
            let token = page_token(Some(7), own);
            for filter in &filters {
                assert_eq!(before(&token, filter).ok(), (filter == own).then_some(7), "{filter:?}");
            }
            assert_eq!(before("", own).expect("first page"), i64::MAX);
            assert_eq!(page_token(None, own), "");
        }
    }

    #[test]
    fn names_of_steps_are_kebab_case_and_short() {
        for bad in ["", "Up", "a b", "a_b", &"a".repeat(65)] {
            step_name("step", bad.to_owned()).expect_err(bad);
        }
        step_name("step", "workspace-lock".to_owned()).expect("kebab-case");
    }

    #[test]
    fn times_before_1970_round_towards_the_past() {
        let time = Timestamp::new(-1, -500_000_000).expect("timestamp");
        assert_eq!(time_to_pb(time), prost_types::Timestamp { seconds: -2, nanos: 500_000_000 });
    }
}
