use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use mosaic_ids::RunId;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Runs that this launcher has in hand.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    runs: Arc<Mutex<HashMap<RunId, Entry>>>,
}

#[derive(Debug)]
struct Entry {
    stop: CancellationToken,
    over: watch::Receiver<()>,
}

impl Registry {
    /// Takes a run in hand; `None` when it is already.
    #[must_use]
    pub fn enter(&self, run: &RunId) -> Option<Ticket> {
        let mut runs = self.runs();
        if runs.contains_key(run) {
            return None;
        }
        let (over_sender, over) = watch::channel(());
        let stop = CancellationToken::new();
        runs.insert(run.clone(), Entry { stop: stop.clone(), over });
        Some(Ticket { registry: self.clone(), run: run.clone(), stop, _over: over_sender })
    }

    /// How many it has in hand.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs().len()
    }

    /// True when it has none in hand.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs().is_empty()
    }

    /// True when it has a run in hand.
    #[must_use]
    pub fn has(&self, run: &RunId) -> bool {
        self.runs().contains_key(run)
    }

    /// Asks for the end of a run; false when it is not in hand.
    pub fn stop(&self, run: &RunId) -> bool {
        let runs = self.runs();
        let entry = runs.get(run);
        if let Some(entry) = entry {
            entry.stop.cancel();
        }
        entry.is_some()
    }

    /// Waits until a run is out of hand; false when it is not in hand now.
    pub async fn wait(&self, run: &RunId) -> bool {
        let Some(mut over) = self.runs().get(run).map(|entry| entry.over.clone()) else { return false };
        // Nothing is ever sent: the channel closes when the ticket is dropped.
        while over.changed().await.is_ok() {}
        true
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Entry>> {
        self.runs.lock().expect("no code panics while it holds the lock")
    }
}

/// One run in hand, until it is dropped.
#[derive(Debug)]
pub struct Ticket {
    registry: Registry,
    run: RunId,
    stop: CancellationToken,
    _over: watch::Sender<()>,
}

impl Ticket {
    /// The run.
    #[must_use]
    pub const fn run(&self) -> &RunId {
        &self.run
    }

    /// Cancelled when somebody asks for the end of the run.
    #[must_use]
    pub const fn stop(&self) -> &CancellationToken {
        &self.stop
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.registry.runs().remove(&self.run);
    }
}
