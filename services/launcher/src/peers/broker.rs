use mosaic_ids::{Name, RequestId, RunId};
use mosaic_proto::broker::v1 as pb;
use mosaic_proto::broker::v1::run_service_client::RunServiceClient;
use mosaic_record::{
    Actor, Harvest, Integration, Refusal, RunEvent, RunRecord, RunSpec, RunStatus, StepFacts, StepState,
};
use mosaic_rpc::{AuthedChannel, Dial, MAX_MESSAGE_BYTES, RpcError, acting_for};
use serde::de::DeserializeOwned;
use tonic::Status;

/// The broker, as the launcher uses it.
#[derive(Debug, Clone)]
pub struct Broker {
    client: RunServiceClient<AuthedChannel>,
}

/// A run as the broker has it.
#[derive(Debug, Clone)]
pub struct RunView {
    /// The run.
    pub run_id: RunId,
    /// Where it is in its life.
    pub status: RunStatus,
    /// True once somebody has asked for its end.
    pub cancel_requested: bool,
    /// True while the work in its clones is still to be taken out.
    pub harvest_pending: bool,
}

impl RunView {
    /// True when it is terminal, and nothing is to be taken out of its clones any more.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.status.is_terminal() && !self.harvest_pending
    }
}

/// A run of a session, as lists show it.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The run.
    pub run_id: RunId,
    /// Where it worked, as the spec says it; empty for nowhere.
    pub workspace: String,
    /// True when its adapter was started.
    pub ran: bool,
}

/// A run that was recorded.
#[derive(Debug, Clone)]
pub struct Created {
    /// The run.
    pub run_id: RunId,
    /// False when an earlier call with the same request id made it.
    pub created: bool,
}

/// A run under a lease.
#[derive(Debug, Clone)]
pub struct Leased {
    /// The lease's epoch.
    pub epoch: i64,
    /// Full term of the lease.
    pub term: std::time::Duration,
    /// Where the run is in its life.
    pub view: RunView,
    /// What is to run.
    pub spec: RunSpec,
}

impl Broker {
    /// The broker that `dial` leads to.
    #[must_use]
    pub fn new(dial: &Dial) -> Self {
        let client = RunServiceClient::new(dial.channel())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Self { client }
    }

    /// Records a run for `actor`.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    ///
    /// # Panics
    /// Never: a spec serializes.
    pub async fn create(&self, request_id: &RequestId, spec: &RunSpec, actor: &Actor) -> Result<Created, RpcError> {
        let spec = serde_json::to_string(spec).expect("a spec serializes");
        let request = pb::CreateRunRequest { request_id: request_id.to_string(), spec };
        let response = self.client.clone().create_run(acting_for(request, actor)).await.map_err(failed)?.into_inner();
        Ok(Created { run_id: view(response.run)?.run_id, created: response.created })
    }

    /// One run and its record.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    pub async fn get(&self, run: &RunId) -> Result<(RunView, RunRecord, RunSpec), RpcError> {
        let run = self.get_raw(run).await?;
        let (record, spec) = (json(&run.record)?, json(&run.spec)?);
        Ok((view(Some(run))?, record, spec))
    }

    /// Every run in one of `states`, oldest first.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    pub async fn list(&self, states: &[pb::run::State]) -> Result<Vec<RunView>, RpcError> {
        let mut runs = Vec::new();
        for run in pages(&self.client, &in_states(states)).await? {
            runs.push(view(Some(run))?);
        }
        runs.reverse();
        Ok(runs)
    }

    /// Every run whose work is still to be taken out of its clones, oldest first.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    pub async fn to_harvest(&self) -> Result<Vec<RunView>, RpcError> {
        let pending = pb::ListRunsRequest { harvest_pending: true, ..pb::ListRunsRequest::default() };
        let runs = pages(&self.client, &pending).await?;
        runs.into_iter().rev().map(|run| view(Some(run))).collect()
    }

    /// The newest runs of a session, newest first; as many as a page has.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    pub async fn newest_turns(&self, session: &Name) -> Result<Vec<Turn>, RpcError> {
        let request =
            pb::ListRunsRequest { page_size: PAGE, session: session.to_string(), ..pb::ListRunsRequest::default() };
        let page = self.client.clone().list_runs(request).await.map_err(failed)?.into_inner();
        let turn = |run: pb::Run| {
            let run_id = run.run_id.parse().map_err(|_not_ours| malformed())?;
            Ok(Turn { run_id, workspace: run.workspace, ran: run.start_time.is_some() })
        };
        page.runs.into_iter().map(turn).collect()
    }

    /// Leases a run; `None` when it is over.
    ///
    /// # Errors
    /// `superseded` when somebody else has it; what else the broker answers, or `unavailable`.
    pub async fn claim(&self, run: &RunId, holder: &RequestId) -> Result<Option<Leased>, RpcError> {
        let request = pb::ClaimRunRequest { holder: holder.to_string(), run_id: run.to_string() };
        let response = self.client.clone().claim_run(request).await.map_err(failed)?.into_inner();
        let run = response.run.ok_or_else(malformed)?;
        let Some(lease) = response.lease else { return Ok(None) };
        let term = lease.term.and_then(|term| term.try_into().ok()).ok_or_else(malformed)?;
        Ok(Some(Leased { epoch: lease.epoch, term, spec: json(&run.spec)?, view: view(Some(run))? }))
    }

    /// Extends a lease; says whether somebody has asked for the end of the run.
    ///
    /// # Errors
    /// `stale-lease` when it is somebody else's by now; what else the broker answers, or `unavailable`.
    pub async fn renew(&self, run: &RunId, epoch: i64) -> Result<bool, RpcError> {
        let request = pb::RenewLeaseRequest { run_id: run.to_string(), epoch };
        let response = self.client.clone().renew_lease(request).await.map_err(failed)?;
        Ok(response.into_inner().cancel_requested)
    }

    /// Gives a lease back.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    pub async fn release(&self, run: &RunId, epoch: i64) -> Result<(), RpcError> {
        let request = pb::ReleaseLeaseRequest { run_id: run.to_string(), epoch };
        self.client.clone().release_lease(request).await.map_err(failed)?;
        Ok(())
    }

    /// `queued` to `preparing`; says whether somebody has asked for the end of the run.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    pub async fn prepare(&self, run: &RunId, epoch: i64) -> Result<bool, RpcError> {
        let request = pb::PrepareRunRequest { run_id: run.to_string(), epoch };
        let response = self.client.clone().prepare_run(request).await.map_err(failed)?.into_inner();
        Ok(view(response.run)?.cancel_requested)
    }

    /// Records a step.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    ///
    /// # Panics
    /// Never: facts serialize.
    pub async fn step(
        &self,
        run: &RunId,
        epoch: i64,
        step: &str,
        state: StepState,
        facts: &StepFacts,
    ) -> Result<(), RpcError> {
        use pb::record_step_request::State;
        let state = match state {
            StepState::Done => State::Done,
            StepState::Undone => State::Undone,
        };
        let facts = if *facts == StepFacts::default() {
            String::new()
        } else {
            serde_json::to_string(facts).expect("facts serialize")
        };
        let request =
            pb::RecordStepRequest { run_id: run.to_string(), epoch, step: step.into(), state: state.into(), facts };
        self.client.clone().record_step(request).await.map_err(failed)?;
        Ok(())
    }

    /// Ends a run that never ran.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    pub async fn refuse(
        &self,
        run: &RunId,
        epoch: i64,
        reason: Refusal,
        step: &str,
        message: &str,
    ) -> Result<(), RpcError> {
        let request = pb::RefuseRunRequest {
            run_id: run.to_string(),
            epoch,
            reason: reason.to_string(),
            step: step.into(),
            message: shortened(message),
        };
        self.client.clone().refuse_run(request).await.map_err(failed)?;
        Ok(())
    }

    /// Asks, for `actor`, for the end of a run.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    pub async fn cancel(&self, run: &RunId, actor: &Actor) -> Result<RunView, RpcError> {
        let request = acting_for(pb::CancelRunRequest { run_id: run.to_string() }, actor);
        view(self.client.clone().cancel_run(request).await.map_err(failed)?.into_inner().run)
    }

    /// `queued` or `preparing` to `cancelled`.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    pub async fn confirm_cancel(&self, run: &RunId, epoch: i64) -> Result<(), RpcError> {
        let request = pb::ConfirmCancelRequest { run_id: run.to_string(), epoch };
        self.client.clone().confirm_cancel(request).await.map_err(failed)?;
        Ok(())
    }

    /// `preparing` or `running` to `lost`: nobody knows the execution any more.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    pub async fn lose(&self, run: &RunId, epoch: i64) -> Result<(), RpcError> {
        let request = pb::LoseRunRequest { run_id: run.to_string(), epoch };
        self.client.clone().lose_run(request).await.map_err(failed)?;
        Ok(())
    }

    /// Records what became of the work in a run's clones.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    ///
    /// # Panics
    /// Never: a harvest serializes.
    pub async fn record_harvest(&self, run: &RunId, epoch: i64, harvest: &Harvest) -> Result<(), RpcError> {
        let harvest = serde_json::to_string(harvest).expect("a harvest serializes");
        let request = pb::RecordHarvestRequest { run_id: run.to_string(), epoch, harvest };
        self.client.clone().record_harvest(request).await.map_err(failed)?;
        Ok(())
    }

    /// Records for `actor` that work was put onto a branch.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    ///
    /// # Panics
    /// Never: an integration serializes.
    pub async fn integrated(&self, run: &RunId, integration: &Integration, actor: &Actor) -> Result<(), RpcError> {
        let integration = serde_json::to_string(integration).expect("an integration serializes");
        let request = pb::RecordIntegrationRequest { run_id: run.to_string(), integration };
        self.client.clone().record_integration(acting_for(request, actor)).await.map_err(failed)?;
        Ok(())
    }

    /// Names of the steps of a run that have made something and were not undone, in their order. Reads what is there now.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    pub async fn made_steps(&self, run: &RunId) -> Result<Vec<String>, RpcError> {
        let last = self.get_raw(run).await?.last_sequence;
        let request = pb::WatchRunRequest { run_id: run.to_string(), from_sequence: 0 };
        let mut events = self.client.clone().watch_run(request).await.map_err(failed)?.into_inner();
        let mut made = Vec::new();
        while let Some(response) = events.message().await.map_err(failed)? {
            let event = response.event.ok_or_else(malformed)?;
            if let RunEvent::Step { step, state, facts, .. } = json(&event.payload)? {
                match state {
                    StepState::Done if facts.made => made.push(step),
                    StepState::Done => {}
                    StepState::Undone => made.retain(|name| *name != step),
                }
            }
            if event.sequence >= last {
                break;
            }
        }
        Ok(made)
    }

    async fn get_raw(&self, run: &RunId) -> Result<pb::Run, RpcError> {
        let request = pb::GetRunRequest { run_id: run.to_string() };
        self.client.clone().get_run(request).await.map_err(failed)?.into_inner().run.ok_or_else(malformed)
    }

    /// Every event of a run that is over, oldest first, as lines of JSON.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    pub async fn events(&self, run: &RunId, mut line: impl FnMut(&str) + Send) -> Result<(), RpcError> {
        let request = pb::WatchRunRequest { run_id: run.to_string(), from_sequence: 0 };
        let mut events = self.client.clone().watch_run(request).await.map_err(failed)?.into_inner();
        while let Some(response) = events.message().await.map_err(failed)? {
            let event = response.event.ok_or_else(malformed)?;
            line(&event_line(&event)?);
        }
        Ok(())
    }
}

/// Most runs of a page.
const PAGE: i32 = 200;

/// Asks for every run in one of `states`.
pub(super) fn in_states(states: &[pb::run::State]) -> pb::ListRunsRequest {
    pb::ListRunsRequest { states: states.iter().map(|&state| state.into()).collect(), ..pb::ListRunsRequest::default() }
}

/// Every run that `filter` asks for, newest first.
pub(super) async fn pages(
    client: &RunServiceClient<AuthedChannel>,
    filter: &pb::ListRunsRequest,
) -> Result<Vec<pb::Run>, RpcError> {
    let (mut runs, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = pb::ListRunsRequest { page_size: PAGE, page_token, ..filter.clone() };
        let page = client.clone().list_runs(request).await.map_err(failed)?.into_inner();
        runs.extend(page.runs);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(runs);
        }
    }
}

/// Longest message of a refusal, in bytes; the broker takes no longer one.
const MESSAGE_BYTES: usize = 4096;

fn shortened(message: &str) -> String {
    message[..message.floor_char_boundary(MESSAGE_BYTES)].to_owned()
}

/// One event as a line of `events.jsonl`.
fn event_line(event: &pb::Event) -> Result<String, RpcError> {
    let payload: Box<serde_json::value::RawValue> = json(&event.payload)?;
    let time = event.time.and_then(|time| jiff::Timestamp::new(time.seconds, time.nanos).ok()).ok_or_else(malformed)?;
    let line = EventLine {
        sequence: event.sequence,
        event_id: &event.event_id,
        time,
        kind: &event.kind,
        actor: &event.actor,
        trace_id: &event.trace_id,
        payload: &payload,
    };
    Ok(serde_json::to_string(&line).expect("a line serializes"))
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct EventLine<'a> {
    sequence: i64,
    event_id: &'a str,
    time: jiff::Timestamp,
    kind: &'a str,
    actor: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    trace_id: &'a str,
    payload: &'a serde_json::value::RawValue,
}

fn view(run: Option<pb::Run>) -> Result<RunView, RpcError> {
    use pb::run::State;
    let run = run.ok_or_else(malformed)?;
    let status = match run.state() {
        State::Unspecified => return Err(malformed()),
        State::Queued => RunStatus::Queued,
        State::Preparing => RunStatus::Preparing,
        State::Running => RunStatus::Running,
        State::Succeeded => RunStatus::Succeeded,
        State::Failed => RunStatus::Failed,
        State::Cancelled => RunStatus::Cancelled,
        State::Lost => RunStatus::Lost,
        State::Refused => RunStatus::Refused,
    };
    let run_id = run.run_id.parse().map_err(|_not_ours| malformed())?;
    Ok(RunView { run_id, status, cancel_requested: run.cancel_requested, harvest_pending: run.harvest_pending })
}

fn json<T: DeserializeOwned>(text: &str) -> Result<T, RpcError> {
    serde_json::from_str(text).map_err(|error| RpcError::internal(&error))
}

#[expect(clippy::needless_pass_by_value, reason = "the form that `map_err` takes")]
pub(super) fn failed(status: Status) -> RpcError {
    RpcError::from_status(&status)
}

#[derive(Debug, thiserror::Error)]
#[error("the broker sent a message that its contract does not allow")]
struct Malformed;

pub(super) fn malformed() -> RpcError {
    RpcError::internal(&Malformed)
}
