use mosaic_ids::{Digest, RunId};

use super::AppError;
use crate::domain::{ChainWalk, Fault, Faults, RunWalk};
use crate::store::{PageLimits, Readers, Snapshot, StoreError};

/// Runs on a page.
const RUNS: i64 = 256;

/// What a proof of the ledger found.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// Events that were checked.
    pub(crate) events: i64,
    /// Runs that were checked.
    pub(crate) runs: i64,
    /// Hash of the last event; none for an empty ledger.
    pub(crate) head_hash: Option<Digest>,
    /// What is wrong; nothing in an intact ledger.
    pub(crate) faults: Vec<Fault>,
}

/// Walks the chain, then every run, in one snapshot and page by page. Writers go on; the write-ahead log can't be emptied
/// meanwhile.
pub(super) async fn verify(readers: &Readers) -> Result<Verdict, AppError> {
    let mut snapshot = readers.snapshot().await?;
    let mut faults = Faults::default();
    let chain = walk_chain(&mut snapshot, &mut faults).await?;
    for (sequence, subject) in snapshot.subjects_without_run(RUNS).await? {
        faults.add(sequence, &subject, "the run of this event is missing");
    }
    let runs = walk_runs(&mut snapshot, &mut faults).await?;
    Ok(Verdict { events: chain.events(), runs, head_hash: chain.head_hash(), faults: faults.into_vec() })
}

async fn walk_chain(snapshot: &mut Snapshot, faults: &mut Faults) -> Result<ChainWalk, AppError> {
    let mut chain = ChainWalk::new();
    let mut next = 0;
    loop {
        let page = snapshot.events(next, PageLimits::DEFAULT).await?;
        let Some(last) = page.last() else { return Ok(chain) };
        next = last.sequence + 1;
        for stored in page {
            match stored.event {
                Ok(event) => chain.event(&event, faults),
                Err(error) => chain.damaged(stored.sequence, with_cause(&error), faults),
            }
        }
        // A page is read and hashed without waiting for anything; others go first.
        tokio::task::yield_now().await;
    }
}

async fn walk_runs(snapshot: &mut Snapshot, faults: &mut Faults) -> Result<i64, AppError> {
    let mut runs = 0;
    let mut after = i64::MIN;
    loop {
        let page = snapshot.run_ids(after, RUNS).await?;
        let Some((last, _)) = page.last() else { return Ok(runs) };
        after = *last;
        for (_, run_id) in page {
            runs += 1;
            match run_id.parse::<RunId>() {
                Ok(run_id) => walk_run(snapshot, run_id, faults).await?,
                Err(error) => faults.add(0, &run_id, error),
            }
        }
    }
}

async fn walk_run(snapshot: &mut Snapshot, run_id: RunId, faults: &mut Faults) -> Result<(), AppError> {
    let mut walk = RunWalk::new(run_id.clone());
    let mut next = 0;
    loop {
        let page = snapshot.events_of(run_id.as_str(), next, PageLimits::DEFAULT).await?;
        let Some(last) = page.last() else { break };
        next = last.sequence + 1;
        for stored in page {
            match stored.event {
                Ok(event) => walk.event(&event, faults),
                Err(_told_by_the_chain) => walk.damaged(),
            }
        }
        tokio::task::yield_now().await;
    }
    let stored = snapshot.run(&run_id).await;
    let columns = snapshot.summary(&run_id).await;
    match (stored, columns) {
        (Ok(Some(run)), Ok(Some(columns))) => walk.compare(&run, &columns, faults),
        (Err(error), _) | (_, Err(error)) if error.is_damage() => faults.add(0, run_id.as_str(), with_cause(&error)),
        (Err(error), _) | (_, Err(error)) => return Err(error.into()),
        (Ok(None), _) | (_, Ok(None)) => faults.add(0, run_id.as_str(), "the run is missing"),
    }
    Ok(())
}

fn with_cause(error: &StoreError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}
