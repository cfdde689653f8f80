use jiff::Timestamp;
use mosaic_ids::{Digest, Name, RequestId, RunId};
use mosaic_record::{EventMeta, IllegalEvent, RunEvent, RunPart, RunRecord, RunSpec, RunStatus};

/// What the broker knows about a run: its record, and what fences its writers.
///
/// All of it follows from the run's events, except `holder`: giving a lease back is no event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    /// The record, without `request` and `expected_exact`: they may be megabytes, never change, and are in `run.queued`.
    pub(crate) record: RunRecord,
    /// The caller's id of the request that made it.
    pub(crate) request_id: RequestId,
    /// Digest of the payload of `run.queued`.
    pub(crate) request_digest: Digest,
    /// Highest epoch granted; 0 before the first lease.
    pub(crate) epoch: i64,
    /// Who was granted it and has not given it back.
    pub(crate) holder: Option<RequestId>,
    /// Epoch under which the preparation began.
    pub(crate) prepared_epoch: Option<i64>,
    /// Highest number of the runner's reports.
    pub(crate) reported: i64,
    /// Sequence of its first event.
    pub(crate) first_sequence: i64,
    /// Sequence of its last event.
    pub(crate) last_sequence: i64,
    /// Sequence of the event that made it terminal; of a run that is harvested, of the harvest.
    pub(crate) end_sequence: Option<i64>,
}

/// What lists show of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunSummary {
    pub(crate) run_id: RunId,
    pub(crate) status: RunStatus,
    pub(crate) reason: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Option<Timestamp>,
    pub(crate) task_id: Name,
    pub(crate) adapter: Name,
    pub(crate) model: Option<String>,
    pub(crate) workspace: Option<String>,
    pub(crate) session: Option<Name>,
    pub(crate) cancel_requested: bool,
    pub(crate) epoch: i64,
    pub(crate) first_sequence: i64,
    pub(crate) last_sequence: i64,
    pub(crate) end_sequence: Option<i64>,
    pub(crate) kept: bool,
    pub(crate) record_pruned: bool,
    pub(crate) harvest_pending: bool,
}

/// Which runs a list shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RunFilter {
    /// Those in one of these; all when there is none.
    pub(crate) statuses: Vec<RunStatus>,
    /// Only those whose work is still to be taken out of their clones.
    pub(crate) harvest_pending: bool,
    /// Only those of this session.
    pub(crate) session: Option<Name>,
}

/// What makes two specs the same: everything but the span of the call, which is another one when a request is sent again.
pub(crate) fn request_digest(spec: &RunSpec) -> Digest {
    let comparable = RunSpec { traceparent: None, ..spec.clone() };
    let text = serde_json::to_string(&comparable).expect("a spec has string keys and no failing type");
    Digest::of(text.as_bytes())
}

impl Run {
    /// The run after its first event.
    pub(crate) fn queued(
        run_id: &RunId,
        meta: &EventMeta,
        event: &RunEvent,
        sequence: i64,
    ) -> Result<Self, IllegalEvent> {
        let mut record = RunRecord::fold(None, run_id, meta, event)?;
        let RunEvent::Queued { request_id, spec } = event else {
            unreachable!("the fold takes nothing else as a first event")
        };
        record.request.clear();
        record.expected_exact = None;
        Ok(Self {
            record,
            request_id: request_id.clone(),
            request_digest: request_digest(spec),
            epoch: 0,
            holder: None,
            prepared_epoch: None,
            reported: 0,
            first_sequence: sequence,
            last_sequence: sequence,
            end_sequence: None,
        })
    }

    /// The run after its next event.
    pub(crate) fn then(self, meta: &EventMeta, event: &RunEvent, sequence: i64) -> Result<Self, IllegalEvent> {
        let run_id = self.record.run_id.clone();
        let record = RunRecord::fold(Some(self.record), &run_id, meta, event)?;
        let mut run = Self { record, last_sequence: sequence, ..self };
        match event {
            RunEvent::Claimed { holder, epoch } => {
                run.holder = Some(holder.clone());
                run.epoch = *epoch;
            }
            RunEvent::Preparing { epoch } => run.prepared_epoch = Some(*epoch),
            event if event.is_report() => run.reported += 1,
            _ => {}
        }
        let over = run.record.status.is_terminal() && !run.record.awaits_harvest();
        if over && run.end_sequence.is_none() {
            run.end_sequence = Some(sequence);
        }
        Ok(run)
    }

    /// Its id.
    pub(crate) fn id(&self) -> &RunId {
        &self.record.run_id
    }

    /// What lists show of it.
    pub(crate) fn summary(&self) -> RunSummary {
        let record = &self.record;
        RunSummary {
            run_id: record.run_id.clone(),
            status: record.status,
            reason: record.reason.clone(),
            created_at: record.created_at,
            started_at: record.started_at,
            finished_at: record.finished_at,
            task_id: record.task_id.clone(),
            adapter: record.adapter.clone(),
            model: record.model.clone(),
            workspace: record.workspace.as_ref().map(ToString::to_string),
            session: record.session.clone(),
            cancel_requested: record.cancel_requested,
            epoch: self.epoch,
            first_sequence: self.first_sequence,
            last_sequence: self.last_sequence,
            end_sequence: self.end_sequence,
            kept: record.kept,
            record_pruned: record.is_pruned(RunPart::Record),
            harvest_pending: record.awaits_harvest(),
        }
    }
}
