//! Start, shutdown, tracked tasks and clocks of a Mosaic process.
//!
//! Shutdown has two stages. *Soft*: nothing new is taken, what runs may finish. *Hard*: what still runs ends now. Every
//! task is tracked, so that a service is over only when its last task is.

mod clock;
mod signals;
mod text;

use std::future::Future;
use std::time::Duration;

pub use clock::{Clock, ManualClock, SystemClock};
pub use signals::shut_down_on_signals;
pub use text::{error_chain, human_bytes, parse_duration};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The two stages of a shutdown, and the tasks that they end.
#[derive(Debug, Clone, Default)]
pub struct Lifecycle {
    soft: CancellationToken,
    hard: CancellationToken,
    tasks: TaskTracker,
}

impl Lifecycle {
    /// A lifecycle of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A lifecycle below this one: ended with it, and able to end alone.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { soft: self.soft.child_token(), hard: self.hard.child_token(), tasks: TaskTracker::new() }
    }

    /// Cancelled when nothing new is to be taken.
    #[must_use]
    pub fn soft(&self) -> &CancellationToken {
        &self.soft
    }

    /// Cancelled when everything is to end now.
    #[must_use]
    pub fn hard(&self) -> &CancellationToken {
        &self.hard
    }

    /// Runs `task` until it is done or the hard stage drops it.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let hard = self.hard.clone();
        self.tasks.spawn(async move {
            if hard.run_until_cancelled(task).await.is_none() {
                tracing::debug!(task.name = name, "Ended a task at the hard stage of the shutdown");
            }
        });
    }

    /// Begins the soft stage.
    pub fn stop_taking(&self) {
        self.soft.cancel();
    }

    /// Begins the soft stage, waits for all tasks up to `limit`, then begins the hard stage and waits for the rest.
    /// Returns true when nothing had to be cut short.
    pub async fn drain(&self, limit: Duration) -> bool {
        self.drain_unless(limit, &CancellationToken::new()).await
    }

    /// [`drain`](Self::drain), cut short when `hurry` is cancelled.
    pub async fn drain_unless(&self, limit: Duration, hurry: &CancellationToken) -> bool {
        self.soft.cancel();
        self.tasks.close();
        let finished = tokio::select! {
            () = self.tasks.wait() => true,
            () = tokio::time::sleep(limit) => false,
            () = hurry.cancelled() => false,
        };
        self.hard.cancel();
        self.tasks.wait().await;
        finished
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_drain_waits_for_what_finishes_and_cuts_what_does_not() {
        let patient = Lifecycle::new();
        let soft = patient.soft().clone();
        patient.spawn("finishes", async move { soft.cancelled().await });
        assert!(patient.drain(Duration::from_secs(5)).await);

        let impatient = Lifecycle::new();
        impatient.spawn("never", std::future::pending());
        assert!(!impatient.drain(Duration::from_millis(10)).await);

        let hurried = Lifecycle::new();
        hurried.spawn("never", std::future::pending());
        let hurry = CancellationToken::new();
        hurry.cancel();
        assert!(!hurried.drain_unless(Duration::from_secs(3600), &hurry).await);
    }
}
