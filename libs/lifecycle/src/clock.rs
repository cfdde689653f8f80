use std::fmt::Debug;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// Where times come from; passed in, so that a test can turn it.
pub trait Clock: Debug + Send + Sync {
    /// Wall-clock time: for people and for records, never for deciding that something took too long.
    fn now(&self) -> Timestamp;

    /// Time since an arbitrary origin that only goes forward: for every limit and every lease.
    fn monotonic(&self) -> Duration;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose monotonic origin is now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// A clock that stands still until it is turned.
#[derive(Debug)]
pub struct ManualClock {
    state: Mutex<(Timestamp, Duration)>,
}

impl ManualClock {
    /// A clock that shows `now`, its monotonic side at zero.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self { state: Mutex::new((now, Duration::ZERO)) }
    }

    /// Both sides go forward.
    ///
    /// # Panics
    /// When the wall clock would leave the range of [`Timestamp`].
    pub fn advance(&self, by: Duration) {
        let mut state = self.state.lock().expect("no test panics while it turns the clock");
        state.0 = state.0.checked_add(by).expect("within range");
        state.1 += by;
    }

    /// The wall clock alone is set, as an administrator would.
    ///
    /// # Panics
    /// When a test panicked while it turned the clock.
    pub fn set_wall(&self, now: Timestamp) {
        self.state.lock().expect("no test panics while it turns the clock").0 = now;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.state.lock().expect("no test panics while it turns the clock").0
    }

    fn monotonic(&self) -> Duration {
        self.state.lock().expect("no test panics while it turns the clock").1
    }
}
