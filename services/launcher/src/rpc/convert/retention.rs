use std::time::Duration;

use mosaic_proto::launcher::v1 as pb;
use mosaic_record::Actor;
use mosaic_rpc::RpcError;
use pb::prune_response::Progress;
use tonic::Status;

use crate::app::retention::{Fate, Kind, Order, Pruned, Sum, Told};
use crate::domain::retention::What;

/// Longest age that a prune may name: two centuries, more than any record has.
const LONGEST_AGE: Duration = Duration::from_secs(200 * 366 * 24 * 3600);

pub(in crate::rpc) fn prune_order(request: pb::PruneRequest, actor: Actor) -> Result<Order, RpcError> {
    let overrides = request.overrides.unwrap_or_default();
    let age = |age: prost_types::Duration| match Duration::try_from(age) {
        Ok(age) if age <= LONGEST_AGE => Ok(age),
        _ => Err(RpcError::invalid("overrides.older_than: write an age of 0 seconds to 200 years")),
    };
    Ok(Order {
        dry_run: request.dry_run,
        older_than: overrides.older_than.map(age).transpose()?,
        only: overrides.only.into_iter().map(kind).collect::<Result<_, _>>()?,
        actor: Some(actor),
    })
}

fn kind(number: i32) -> Result<Kind, RpcError> {
    match pb::PruneKind::try_from(number) {
        Ok(pb::PruneKind::Records) => Ok(Kind::Records),
        Ok(pb::PruneKind::Output) => Ok(Kind::Output),
        Ok(pb::PruneKind::Workspaces) => Ok(Kind::Workspaces),
        Ok(pb::PruneKind::Sessions) => Ok(Kind::Sessions),
        Ok(pb::PruneKind::Unspecified) | Err(_) => {
            Err(RpcError::invalid(format!("overrides.only: {number} is not a kind")))
        }
    }
}

/// What a prune tells, as a message of its stream.
pub(in crate::rpc) fn prune_progress(told: Told) -> Result<pb::PruneResponse, Status> {
    let progress = match told {
        Told::Item(pruned) => Progress::Item(pruned.into()),
        Told::Sum(sum) => Progress::Summary(sum.into()),
        Told::Error(error) => return Err(error.into()),
    };
    Ok(pb::PruneResponse { progress: Some(progress) })
}

impl From<Pruned> for pb::PruneItem {
    fn from(pruned: Pruned) -> Self {
        use pb::prune_item::Fate as Wire;
        let Pruned { planned, fate } = pruned;
        let (kind, run, session) = match planned.what {
            What::Record(run) => (pb::PruneKind::Records, Some(run), None),
            What::Output(run) => (pb::PruneKind::Output, Some(run), None),
            What::Workspace(run) => (pb::PruneKind::Workspaces, Some(run), None),
            What::Session(name) => (pb::PruneKind::Sessions, None, Some(name)),
        };
        let (fate, problem, archive) = match fate {
            Fate::WouldGo => (Wire::WouldGo, String::new(), None),
            Fate::Gone { archive } => (Wire::Gone, String::new(), archive),
            Fate::Left(why) => (Wire::Left, why, None),
            Fate::Failed(why) => (Wire::Failed, why, None),
        };
        Self {
            kind: kind.into(),
            run_id: run.map(Into::into).unwrap_or_default(),
            session: session.map(Into::into).unwrap_or_default(),
            size_bytes: number(planned.bytes),
            why: planned.why.to_string(),
            fate: fate.into(),
            problem,
            archive_size_bytes: archive.as_ref().map_or(0, |archive| number(archive.size_bytes)),
            archive_digest: archive.as_ref().map(|archive| archive.digest.to_string()).unwrap_or_default(),
            archive_name: archive.map(|archive| archive.name).unwrap_or_default(),
        }
    }
}

impl From<Sum> for pb::PruneSummary {
    fn from(sum: Sum) -> Self {
        Self {
            items: number(sum.items),
            freed_bytes: number(sum.freed),
            archived_bytes: number(sum.archived),
            left: number(sum.left),
            failed: number(sum.failed),
            cut_events: sum.cut_events,
            cut_runs: sum.cut_runs,
        }
    }
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(older_than: Option<i64>, only: &[i32]) -> Result<Order, RpcError> {
        let older_than = older_than.map(|seconds| prost_types::Duration { seconds, nanos: 0 });
        let overrides = pb::PruneOverrides { older_than, only: only.to_vec() };
        prune_order(pb::PruneRequest { dry_run: true, overrides: Some(overrides) }, Actor::Operator)
    }

    #[test]
    fn every_kind_is_known_and_nothing_else() {
        let all = order(Some(0), &[1, 2, 3, 4]).expect("known");
        assert_eq!(all.only, Kind::ALL);
        assert_eq!(all.older_than, Some(Duration::ZERO));
        for (older_than, only) in [(None, 0), (None, 5), (Some(-1), 1), (Some(i64::MAX), 1)] {
            order(older_than, &[only]).expect_err("refused");
        }
    }
}
