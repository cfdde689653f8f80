//! Integration on the wire.

use mosaic_checkout::Onto;
use mosaic_ids::Name;
use mosaic_proto::launcher::v1 as pb;
use mosaic_proto::launcher::v1::integrate_check::State;
use mosaic_proto::launcher::v1::integrate_outcome::Result as Ended;
use mosaic_proto::launcher::v1::integrate_response::Progress;
use mosaic_record::Actor;
use mosaic_rpc::RpcError;
use tonic::Status;

use super::convert::run_id;
use crate::app::{IntegrateOrder, Told};

/// Longest name of a branch, in bytes.
const BRANCH_BYTES: usize = 255;

pub(super) fn order(request: pb::IntegrateRequest, actor: Actor) -> Result<IntegrateOrder, RpcError> {
    let name = |key: &str, text: &str| {
        text.parse::<Name>().map_err(|error| RpcError::invalid(format!("{key}: {error}")).with("key", key))
    };
    let branch = Some(request.branch).filter(|branch| !branch.is_empty());
    let invalid = |problem: &str| RpcError::invalid(format!("branch: {problem}")).with("key", "branch");
    let onto = match (branch, request.on_base) {
        (Some(_), true) => return Err(invalid("goes with no `on_base`")),
        (None, true) => Onto::Base,
        (Some(branch), false) if branch.len() > BRANCH_BYTES || branch.chars().any(char::is_control) => {
            return Err(invalid("is no name of a branch"));
        }
        (branch, false) => Onto::Tip(branch),
    };
    Ok(IntegrateOrder {
        run: run_id(&request.run_id)?,
        project: match request.project.as_str() {
            "" => None,
            text => Some(name("project", text)?),
        },
        onto,
        checks: request.checks.iter().map(|text| name("checks", text)).collect::<Result<_, _>>()?,
        actor,
    })
}

pub(super) fn progress(told: Result<Told, RpcError>) -> Result<pb::IntegrateResponse, Status> {
    let ended = |result: Ended, conflicts| Progress::Outcome(pb::IntegrateOutcome { result: result.into(), conflicts });
    let check = |name: &Name, run_id: &mosaic_ids::RunId, state: State, reason: Option<String>| {
        Progress::Check(pb::IntegrateCheck {
            name: name.to_string(),
            run_id: run_id.to_string(),
            state: state.into(),
            reason: reason.unwrap_or_default(),
        })
    };
    let progress = match told? {
        Told::Work { project, commit, integrated } => Progress::Work(work(&project, commit, &integrated)),
        Told::Started(name, run) => check(&name, &run, State::Started, None),
        Told::Ended(result, reason) => {
            let state = if result.passed { State::Passed } else { State::Failed };
            check(&result.name, &result.run_id, state, reason)
        }
        Told::Chunk(bytes) => Progress::Chunk(bytes),
        Told::Conflicts(paths) => ended(Ended::Conflicts, paths),
        Told::ChecksFailed => ended(Ended::ChecksFailed, Vec::new()),
        Told::Nothing => ended(Ended::NothingToApply, Vec::new()),
        Told::HandedOut => ended(Ended::HandedOut, Vec::new()),
    };
    Ok(pb::IntegrateResponse { progress: Some(progress) })
}

fn work(
    project: &mosaic_record::Project,
    commit: String,
    integrated: &mosaic_checkout::Integrated,
) -> pb::IntegratedWork {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let files = &integrated.files;
    pb::IntegratedWork {
        project: project.id.to_string(),
        root: project.root.clone(),
        branch: integrated.branch.clone().unwrap_or_default(),
        onto: integrated.onto.clone(),
        work: commit,
        tip: integrated.tip.clone(),
        files: number(files.len() as u64),
        added: number(files.iter().filter_map(|file| file.added).sum()),
        removed: number(files.iter().filter_map(|file| file.removed).sum()),
        bundle_bytes: number(integrated.bundle_bytes),
        bundle_digest: integrated.bundle_digest.to_string(),
    }
}
