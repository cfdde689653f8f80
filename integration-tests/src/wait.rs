use std::time::{Duration, Instant};

/// Waits until `condition` yields a value, for at most `limit`.
///
/// # Panics
/// When it does not in time; the message names `what`.
#[track_caller]
pub fn wait_for<T>(what: &str, limit: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited {} s in vain for {what}", limit.as_secs());
        std::thread::sleep(Duration::from_millis(10));
    }
}
