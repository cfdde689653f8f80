mod runs;

use mosaic_ids::Digest;

use super::{AppError, off_the_workers};
use crate::domain::{ChainWalk, CutKey, Fault, Faults, Recorded};
use crate::store::{PageLimits, Readers, Snapshot, StoreError};

/// Events of a page.
const PAGE: PageLimits = PageLimits { events: 1024, bytes: 1024 * 1024 };

/// Events without a run that are told.
const STRAYS: i64 = 256;

/// What a proof of the ledger found.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// Events that were checked.
    pub(crate) events: i64,
    /// Runs that were checked.
    pub(crate) runs: i64,
    /// Hash of the last event; none for an empty ledger.
    pub(crate) head_hash: Option<Digest>,
    /// The newest checkpoint, if it is proven; none for a ledger that was never cut.
    pub(crate) checkpoint: Option<Recorded>,
    /// What is wrong; nothing in an intact ledger.
    pub(crate) faults: Vec<Fault>,
}

/// Walks the chain, then every run, in one snapshot and page by page; a page is hashed and folded while the next one is
/// read. Writers go on; the write-ahead log can't be emptied meanwhile.
pub(super) async fn verify(readers: &Readers, key: &CutKey) -> Result<Verdict, AppError> {
    let mut snapshot = readers.snapshot().await?;
    let mut faults = Faults::default();
    let newest = newest_checkpoint(&mut snapshot, &mut faults).await?;
    let checkpoint = newest.clone().filter(|newest| proven(newest, key, &mut faults));
    let (chain, mut faults) = walk_chain(&mut snapshot, newest.as_ref(), faults).await?;
    for (sequence, subject) in snapshot.subjects_without_run(STRAYS).await? {
        faults.add(sequence, &subject, "the run of this event is missing");
    }
    let (runs, faults) = runs::walk(&mut snapshot, faults).await?;
    let events = chain.events();
    Ok(Verdict { events, runs, head_hash: chain.head_hash(), checkpoint, faults: faults.into_vec() })
}

/// The newest checkpoint, whether or not it is proven: the chain is walked from where it says.
async fn newest_checkpoint(snapshot: &mut Snapshot, faults: &mut Faults) -> Result<Option<Recorded>, AppError> {
    // One that can't be read is told by the walk of the chain.
    let Some(Ok(event)) = snapshot.newest_checkpoint().await?.map(|stored| stored.event) else { return Ok(None) };
    match Recorded::of(&event) {
        Ok(newest) => Ok(Some(newest)),
        Err(forged) => {
            faults.add(event.sequence, "", format_args!("event {}: {forged}", event.sequence));
            Ok(None)
        }
    }
}

fn proven(newest: &Recorded, key: &CutKey, faults: &mut Faults) -> bool {
    let proof = key.prove(newest);
    if let Err(forged) = proof {
        faults.add(newest.sequence, "", format_args!("the checkpoint in event {} {forged}", newest.sequence));
    }
    proof.is_ok()
}

async fn walk_chain(
    snapshot: &mut Snapshot,
    newest: Option<&Recorded>,
    mut faults: Faults,
) -> Result<(ChainWalk, Faults), AppError> {
    let mut chain = ChainWalk::new(newest);
    let mut page = snapshot.events(0, PAGE).await?;
    while let Some(last) = page.last() {
        let next = last.sequence + 1;
        let walked = off_the_workers(move || {
            for stored in page {
                match stored.event {
                    Ok(event) => chain.event(&event, &mut faults),
                    Err(error) => chain.damaged(stored.sequence, with_cause(&error), &mut faults),
                }
            }
            Ok((chain, faults))
        });
        let (walked, following) = tokio::join!(walked, snapshot.events(next, PAGE));
        ((chain, faults), page) = (walked?, following?);
    }
    Ok((chain, faults))
}

fn with_cause(error: &StoreError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}
