use jiff::Timestamp;
use mosaic_ids::{Name, RunId};
use mosaic_proto::broker::v1 as pb;
use mosaic_proto::broker::v1::retention_service_client::RetentionServiceClient;
use mosaic_proto::broker::v1::run_service_client::RunServiceClient;
use mosaic_record::{Actor, Archive, RunPart, Workspace};
use mosaic_rpc::{AuthedChannel, Dial, RpcError, acting_for};
use tonic::Request;

use super::broker::{failed, in_states, malformed, pages};

/// The broker, as whoever removes files uses it.
#[derive(Debug, Clone)]
pub struct Retention {
    runs: RunServiceClient<AuthedChannel>,
    client: RetentionServiceClient<AuthedChannel>,
}

/// A run that is over, as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastRun {
    /// The run.
    pub run: RunId,
    /// When it became terminal.
    pub finished_at: Timestamp,
    /// True while a person keeps it.
    pub kept: bool,
    /// True once its removal as a whole is recorded.
    pub record_pruned: bool,
    /// True while the work in its clones is still to be taken out.
    pub harvest_pending: bool,
    /// Where it worked.
    pub workspace: Option<Workspace>,
    /// The session that it used.
    pub session: Option<Name>,
}

/// What a cut of the ledger has removed from it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cut {
    /// Events.
    pub events: i64,
    /// Runs.
    pub runs: i64,
}

impl Retention {
    /// The broker that `dial` leads to.
    #[must_use]
    pub fn new(dial: &Dial) -> Self {
        let channel = dial.channel();
        Self { runs: RunServiceClient::new(channel.clone()), client: RetentionServiceClient::new(channel) }
    }

    /// Every run that is over.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    pub async fn ended(&self) -> Result<Vec<PastRun>, RpcError> {
        use pb::run::State;
        let terminal = [State::Succeeded, State::Failed, State::Cancelled, State::Lost, State::Refused];
        pages(&self.runs, &in_states(&terminal)).await?.into_iter().map(ended).collect()
    }

    /// Sessions that runs use, or wait for, that are not over.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    pub async fn busy_sessions(&self) -> Result<Vec<Name>, RpcError> {
        use pb::run::State;
        let live = pages(&self.runs, &in_states(&[State::Queued, State::Preparing, State::Running])).await?;
        live.into_iter().filter_map(|run| name(&run.session).transpose()).collect()
    }

    /// Records that a part of a run is removed, for `actor` where somebody asked for it.
    ///
    /// # Errors
    /// `not-permitted` when the run is kept; what else the broker answers, or `unavailable`.
    pub async fn prune_run(
        &self,
        run: &RunId,
        part: RunPart,
        freed: u64,
        archive: Option<&Archive>,
        actor: Option<&Actor>,
    ) -> Result<(), RpcError> {
        let part = match part {
            RunPart::Output => pb::RunPart::Output,
            RunPart::Workspace => pb::RunPart::Workspace,
            RunPart::Record => pb::RunPart::Record,
        };
        let archive = archive.map(|archive| pb::Archive {
            name: archive.name.clone(),
            digest: archive.digest.to_string(),
            size_bytes: bytes(archive.size_bytes),
        });
        let request =
            pb::PruneRunRequest { run_id: run.to_string(), part: part.into(), freed_bytes: bytes(freed), archive };
        self.client.clone().prune_run(for_somebody(request, actor)).await.map_err(failed)?;
        Ok(())
    }

    /// Records that a session is removed, for `actor` where somebody asked for it.
    ///
    /// # Errors
    /// `session-live` when it is in use; what else the broker answers, or `unavailable`.
    pub async fn prune_session(&self, session: &Name, freed: u64, actor: Option<&Actor>) -> Result<(), RpcError> {
        let request = pb::PruneSessionRequest { session: session.to_string(), freed_bytes: bytes(freed) };
        self.client.clone().prune_session(for_somebody(request, actor)).await.map_err(failed)?;
        Ok(())
    }

    /// Removes pruned runs from the ledger, for `actor` where somebody asked for it.
    ///
    /// # Errors
    /// What the broker answers, or `unavailable`.
    pub async fn cut(&self, actor: Option<&Actor>) -> Result<Cut, RpcError> {
        let request = for_somebody(pb::CutLedgerRequest { dry_run: false }, actor);
        let cut = self.client.clone().cut_ledger(request).await.map_err(failed)?.into_inner();
        Ok(Cut { events: cut.events, runs: cut.runs })
    }
}

fn for_somebody<T>(message: T, actor: Option<&Actor>) -> Request<T> {
    match actor {
        Some(actor) => acting_for(message, actor),
        None => Request::new(message),
    }
}

fn bytes(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn ended(run: pb::Run) -> Result<PastRun, RpcError> {
    let finished = run.end_time.ok_or_else(malformed)?;
    let workspace = if run.workspace.is_empty() { None } else { Some(Workspace::try_from(run.workspace)) };
    Ok(PastRun {
        run: run.run_id.parse().map_err(|_not_ours| malformed())?,
        finished_at: Timestamp::new(finished.seconds, finished.nanos).map_err(|_out_of_range| malformed())?,
        kept: run.kept,
        record_pruned: run.record_pruned,
        harvest_pending: run.harvest_pending,
        workspace: workspace.transpose().map_err(|_not_one| malformed())?,
        session: name(&run.session)?,
    })
}

fn name(text: &str) -> Result<Option<Name>, RpcError> {
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|_not_one| malformed()) }
}
