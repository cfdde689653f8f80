//! What is kept and what may go, between the wire and the domain.

use mosaic_ids::{Digest, Name, RunId};
use mosaic_proto::broker::v1 as pb;
use mosaic_record::{Archive, Pruned, RunPart};
use mosaic_rpc::RpcError;

use super::{invalid, run_id, time_to_pb};
use crate::app::Cut;
use crate::domain::{Change, Recorded, raw_hash};

/// Longest name of an archive, in bytes: that of a file.
const FILE_NAME_BYTES: usize = 255;

pub(in crate::rpc) fn keep(request: pb::KeepRunRequest) -> Result<(RunId, Change), RpcError> {
    Ok((run_id(request.run_id)?, Change::Keep { kept: request.kept }))
}

pub(in crate::rpc) fn prune(request: pb::PruneRunRequest) -> Result<(RunId, Change), RpcError> {
    let part = part(request.part())?;
    let freed_bytes = size("freed_bytes", request.freed_bytes)?;
    let archive = request.archive.map(archive).transpose()?;
    if archive.is_some() && part != RunPart::Workspace {
        return Err(invalid("archive", format!("only a workspace has one, not the part `{part}`")));
    }
    Ok((run_id(request.run_id)?, Change::Prune(Pruned { part, freed_bytes, archive })))
}

fn part(part: pb::RunPart) -> Result<RunPart, RpcError> {
    match part {
        pb::RunPart::Unspecified => Err(invalid("part", "which part is removed")),
        pb::RunPart::Output => Ok(RunPart::Output),
        pb::RunPart::Workspace => Ok(RunPart::Workspace),
        pb::RunPart::Record => Ok(RunPart::Record),
    }
}

fn archive(archive: pb::Archive) -> Result<Archive, RpcError> {
    let name = archive.name;
    let plain = !matches!(name.as_str(), "" | "." | "..") && !name.contains(['/', '\0']);
    if !plain || name.len() > FILE_NAME_BYTES {
        return Err(invalid("archive.name", "the name of a file below the run's directory"));
    }
    let digest = Digest::try_from(archive.digest).map_err(|error| invalid("archive.digest", error))?;
    Ok(Archive { name, digest, size_bytes: size("archive.size_bytes", archive.size_bytes)? })
}

/// A session that is removed and the bytes that it took.
pub(in crate::rpc) fn session(request: pb::PruneSessionRequest) -> Result<(Name, u64), RpcError> {
    let session = Name::try_from(request.session).map_err(|error| invalid("session", error))?;
    Ok((session, size("freed_bytes", request.freed_bytes)?))
}

pub(in crate::rpc) fn cut_to_pb(cut: &Cut) -> pb::CutLedgerResponse {
    let checkpoint = cut.checkpoint.as_ref().map(checkpoint_to_pb);
    pb::CutLedgerResponse { checkpoint, events: cut.events, runs: cut.runs }
}

pub(in crate::rpc) fn checkpoint_to_pb(recorded: &Recorded) -> pb::Checkpoint {
    pb::Checkpoint {
        sequence: recorded.checkpoint.sequence,
        hash: raw_hash(&recorded.checkpoint.hash),
        time: Some(time_to_pb(recorded.time)),
        public_key: recorded.public_key().map(Vec::from).unwrap_or_default(),
    }
}

/// A number of bytes.
fn size(field: &str, bytes: i64) -> Result<u64, RpcError> {
    u64::try_from(bytes).map_err(|_negative| invalid(field, format!("{bytes} is negative")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(part: pb::RunPart, archive: Option<&str>) -> pb::PruneRunRequest {
        let archive = archive.map(|name| pb::Archive { name: name.to_owned(), digest: "a".repeat(64), size_bytes: 3 });
        pb::PruneRunRequest { run_id: "r-1".to_owned(), part: part.into(), freed_bytes: 7, archive }
    }

    #[test]
    fn a_removal_names_its_part_and_only_a_workspace_has_an_archive() {
        for part in [pb::RunPart::Output, pb::RunPart::Workspace, pb::RunPart::Record] {
            prune(request(part, None)).expect("a part");
            assert_eq!(prune(request(part, Some("w.tar.gz"))).is_ok(), part == pb::RunPart::Workspace);
        }
        prune(request(pb::RunPart::Unspecified, None)).expect_err("no part");
        prune(pb::PruneRunRequest { freed_bytes: -1, ..request(pb::RunPart::Output, None) }).expect_err("negative");
    }

    #[test]
    fn an_archive_is_a_file_of_the_runs_own_directory() {
        for bad in ["", ".", "..", "a/b", "/etc/passwd", "a\0b", &"x".repeat(256)] {
            prune(request(pb::RunPart::Workspace, Some(bad))).expect_err(bad);
        }
    }
}
