use std::collections::HashMap;
use std::time::Duration;

use mosaic_ids::RunId;

/// What a command does to the lease of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseChange {
    Keep,
    /// A full term from now.
    Renew,
    /// It is given back.
    Drop,
}

/// When leases expire. Holder and epoch are in the store; expiries are here, by the monotonic clock of this process.
///
/// A lease that was not renewed since the start got a full term at the start: nobody loses a lease because the broker
/// was away. So a run that is missing here is not without a lease; whether it has one, the store says.
#[derive(Debug)]
pub(crate) struct Leases {
    term: Duration,
    first_expiry: Duration,
    expiries: HashMap<RunId, Duration>,
}

impl Leases {
    /// Leases of a process that started at `now`.
    pub(crate) fn new(term: Duration, now: Duration) -> Self {
        Self { term, first_expiry: now + term, expiries: HashMap::new() }
    }

    /// A view on which a batch of commands can try its changes.
    pub(crate) fn stage(&self) -> Staged<'_> {
        Staged { base: self, changes: HashMap::new() }
    }

    /// Makes the changes of a batch real, and forgets what has expired: a run that is missing expired at the latest then.
    pub(crate) fn apply(&mut self, changes: HashMap<RunId, Option<Duration>>, now: Duration) {
        for (run_id, expiry) in changes {
            match expiry {
                Some(expiry) => self.expiries.insert(run_id, expiry),
                None => self.expiries.remove(&run_id),
            };
        }
        if now >= self.first_expiry {
            self.expiries.retain(|_, expiry| *expiry > now);
        }
    }
}

/// Leases with the changes of a batch that is not committed yet.
#[derive(Debug)]
pub(crate) struct Staged<'a> {
    base: &'a Leases,
    changes: HashMap<RunId, Option<Duration>>,
}

impl Staged<'_> {
    /// True while the lease of a run that has a holder has not expired.
    pub(crate) fn is_live(&self, run_id: &RunId, now: Duration) -> bool {
        let known = self.changes.get(run_id).copied().flatten().or_else(|| self.base.expiries.get(run_id).copied());
        known.unwrap_or(self.base.first_expiry) > now
    }

    /// Tries a change.
    pub(crate) fn change(&mut self, run_id: &RunId, change: LeaseChange, now: Duration) {
        match change {
            LeaseChange::Keep => {}
            LeaseChange::Renew => drop(self.changes.insert(run_id.clone(), Some(now + self.base.term))),
            LeaseChange::Drop => drop(self.changes.insert(run_id.clone(), None)),
        }
    }

    /// The changes, to be applied once they are committed.
    pub(crate) fn into_changes(self) -> HashMap<RunId, Option<Duration>> {
        self.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn run_id() -> RunId {
        "r-test".parse().expect("run id")
    }

    #[test]
    fn every_lease_has_a_full_term_from_the_start() {
        let leases = Leases::new(TERM, at(100));
        assert!(leases.stage().is_live(&run_id(), at(129)));
        assert!(!leases.stage().is_live(&run_id(), at(130)));
    }

    #[test]
    fn a_renewal_counts_within_its_batch_and_afterwards_only_when_it_is_applied() {
        let mut leases = Leases::new(TERM, at(0));
        let mut staged = leases.stage();
        staged.change(&run_id(), LeaseChange::Renew, at(20));
        assert!(staged.is_live(&run_id(), at(49)));
        assert!(!leases.stage().is_live(&run_id(), at(49)), "the batch was dropped");

        let mut staged = leases.stage();
        staged.change(&run_id(), LeaseChange::Renew, at(20));
        let changes = staged.into_changes();
        leases.apply(changes, at(20));
        assert!(leases.stage().is_live(&run_id(), at(49)));
        assert!(!leases.stage().is_live(&run_id(), at(50)));
    }

    #[test]
    fn what_has_expired_is_forgotten_and_stays_expired() {
        let mut leases = Leases::new(TERM, at(0));
        leases.apply(HashMap::from([(run_id(), Some(at(40)))]), at(10));
        leases.apply(HashMap::new(), at(41));
        assert!(leases.expiries.is_empty());
        assert!(!leases.stage().is_live(&run_id(), at(41)));
    }
}
