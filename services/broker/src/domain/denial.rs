use mosaic_ids::{Name, RequestId, RunId};
use mosaic_record::{Actor, IllegalEvent, Refusal};

/// Why a command is not carried out. Nothing was written then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denial {
    #[error("no run `{run_id}`")]
    NotFound { run_id: RunId },
    #[error("request `{request_id}` has made run `{run_id}` from a different spec; a new request needs a new id")]
    OtherSpec { request_id: RequestId, run_id: RunId },
    #[error("run `{run_id}`: {source}")]
    Illegal {
        run_id: RunId,
        #[source]
        source: IllegalEvent,
    },
    #[error("run `{run_id}` is under epoch {in_force}, not {epoch}")]
    StaleEpoch { run_id: RunId, epoch: i64, in_force: i64 },
    #[error("the lease of run `{run_id}` with epoch {epoch} was given back")]
    Released { run_id: RunId, epoch: i64 },
    #[error("`{holder}` holds a live lease of run `{run_id}`, epoch {epoch}")]
    Superseded { run_id: RunId, holder: RequestId, epoch: i64 },
    #[error("the preparation of run `{run_id}` began under epoch {prepared}; epoch {epoch} has to undo it")]
    PreparedBefore { run_id: RunId, prepared: i64, epoch: i64 },
    #[error("nobody has asked for the end of run `{run_id}`")]
    NotAsked { run_id: RunId },
    #[error("run `{run_id}` has {accepted} reports; the next one is not number {number}")]
    ReportGap { run_id: RunId, number: i64, accepted: i64 },
    #[error("the runner can't report on run `{run_id}` for `{actor}`, only for the run's own session")]
    NotItsSession { run_id: RunId, actor: Actor },
    #[error("`{kind}` is not for a runner to report")]
    NotAReport { kind: &'static str },
    #[error("run `{run_id}` is kept and nothing of it is removed; `mosaic keep --undo {run_id}` lets it go")]
    Kept { run_id: RunId },
    #[error("session `{session}` is used by run `{run_id}`, which is not over")]
    SessionLive { session: Name, run_id: String },
    #[error("run `{run_id}` is removed already; nothing of it is left to keep")]
    NothingToKeep { run_id: RunId },
    #[error("the work in the clones of run `{run_id}` is not harvested yet; nothing of the run is removed before that")]
    HarvestPending { run_id: RunId },
    #[error("a harvest of run `{run_id}` names each of its projects, in their order, and no other")]
    OtherProjects { run_id: RunId },
}

/// What kind of answer a denial is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DenialKind {
    NotFound,
    Refused(Refusal),
}

impl Denial {
    /// What kind of answer it is.
    pub(crate) fn kind(&self) -> DenialKind {
        match self {
            Self::NotFound { .. } => DenialKind::NotFound,
            Self::StaleEpoch { .. } | Self::Released { .. } => DenialKind::Refused(Refusal::StaleLease),
            Self::NotItsSession { .. } | Self::Kept { .. } => DenialKind::Refused(Refusal::NotPermitted),
            Self::SessionLive { .. } => DenialKind::Refused(Refusal::SessionLive),
            Self::Superseded { .. } => DenialKind::Refused(Refusal::Superseded),
            Self::OtherSpec { .. }
            | Self::Illegal { .. }
            | Self::PreparedBefore { .. }
            | Self::NotAsked { .. }
            | Self::ReportGap { .. }
            | Self::NotAReport { .. }
            | Self::NothingToKeep { .. }
            | Self::HarvestPending { .. }
            | Self::OtherProjects { .. } => DenialKind::Refused(Refusal::InvalidRequest),
        }
    }

    /// Every value of the message, by its name.
    pub(crate) fn values(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::NotFound { run_id }
            | Self::NotAsked { run_id }
            | Self::Kept { run_id }
            | Self::NothingToKeep { run_id }
            | Self::HarvestPending { run_id }
            | Self::OtherProjects { run_id } => vec![("run_id", run_id.to_string())],
            Self::OtherSpec { request_id, run_id } => {
                vec![("request_id", request_id.to_string()), ("run_id", run_id.to_string())]
            }
            Self::Illegal { run_id, source } => vec![
                ("run_id", run_id.to_string()),
                ("kind", source.kind.to_owned()),
                ("status", source.status.clone()),
            ],
            Self::StaleEpoch { run_id, epoch, in_force } => vec![
                ("run_id", run_id.to_string()),
                ("epoch", epoch.to_string()),
                ("epoch_in_force", in_force.to_string()),
            ],
            Self::Released { run_id, epoch } => vec![("run_id", run_id.to_string()), ("epoch", epoch.to_string())],
            Self::Superseded { run_id, holder, epoch } => {
                vec![("run_id", run_id.to_string()), ("holder", holder.to_string()), ("epoch", epoch.to_string())]
            }
            Self::PreparedBefore { run_id, prepared, epoch } => vec![
                ("run_id", run_id.to_string()),
                ("prepared_epoch", prepared.to_string()),
                ("epoch", epoch.to_string()),
            ],
            Self::ReportGap { run_id, number, accepted } => {
                vec![("run_id", run_id.to_string()), ("number", number.to_string()), ("accepted", accepted.to_string())]
            }
            Self::NotItsSession { run_id, actor } => {
                vec![("run_id", run_id.to_string()), ("actor", actor.to_string())]
            }
            Self::SessionLive { session, run_id } => {
                vec![("session", session.to_string()), ("run_id", run_id.clone())]
            }
            Self::NotAReport { kind } => vec![("kind", (*kind).to_owned())],
        }
    }
}
