//! Standing still: when this process did not run for a while, what it hears then happened meanwhile.

use std::time::Duration;

/// A pause between two looks from which on this process stood still: several times longer than they are apart, and far below
/// the smallest limit.
pub(crate) const STANDSTILL: Duration = Duration::from_millis(1_000);

/// Remembers when it was looked at last. Times are durations since the adapter was started, by a monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Looks {
    /// What is heard now happened not before.
    since: Duration,
    now: Duration,
}

impl Looks {
    /// Looks at `now`; true when this process stood still before.
    pub(crate) fn look(&mut self, now: Duration) -> bool {
        let stood_still = now.saturating_sub(self.now) >= STANDSTILL;
        self.since = if stood_still { self.now } else { now };
        self.now = now;
        stood_still
    }

    /// When something happened that is said to have happened at `claimed`. What the sandbox says counts only within the time
    /// that nobody has seen.
    pub(crate) fn when(&self, claimed: Duration) -> Duration {
        claimed.clamp(self.since, self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn what_is_claimed_counts_only_within_a_standstill() {
        let mut looks = Looks::default();
        assert!(!looks.look(at(250)));
        assert_eq!(looks.when(at(10)), at(250), "somebody was there to hear it");
        assert!(looks.look(at(35_000)));
        for (claimed, counts) in [(10, 250), (250, 250), (3_000, 3_000), (35_000, 35_000), (99_000, 35_000)] {
            assert_eq!(looks.when(at(claimed)), at(counts), "{claimed}");
        }
        assert!(!looks.look(at(35_100)));
        assert_eq!(looks.when(at(3_000)), at(35_100));
    }
}
