//! What the launcher does: launches, stops, and sees each run through to its record.

mod launch;
pub mod locks;
pub mod prepare;
pub mod projection;
mod registry;
mod repair;
mod see_through;
mod stop;
mod supervise;

use std::path::PathBuf;
use std::sync::Arc;

use mosaic_config::Config;
use mosaic_data_root::DataRoot;
use mosaic_ids::RequestId;
use mosaic_lifecycle::Lifecycle;
use tokio::sync::Semaphore;

pub use launch::{Launched, Validated};
pub use registry::Registry;
pub use repair::Repaired;

use crate::peers::{Broker, Runner};
use locks::Locks;

/// Runs that are prepared or running at once; further ones wait in the queue.
const LIVE_RUNS: usize = 64;

/// Runs that may wait or run at once; more are turned away.
const RUNS_IN_HAND: usize = 1024;

/// Which runs a launcher takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accept {
    /// Everything that is queued.
    Everything,
    /// Only what was launched through it while it lives.
    OwnLaunches,
}

/// The launcher.
#[derive(Debug, Clone)]
pub struct App {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: Config,
    root: DataRoot,
    /// Id of this launcher; the same after its restart.
    holder: RequestId,
    accept: Accept,
    broker: Broker,
    runner: Runner,
    locks: Locks,
    registry: Registry,
    live: Semaphore,
    work: Lifecycle,
}

/// What an [`App`] is made of.
#[derive(Debug)]
pub struct Parts {
    /// The configuration.
    pub config: Config,
    /// Where everything is.
    pub root: DataRoot,
    /// Id of this launcher.
    pub holder: RequestId,
    /// Which runs it takes.
    pub accept: Accept,
    /// The broker.
    pub broker: Broker,
    /// The runner.
    pub runner: Runner,
    /// Ends its work.
    pub work: Lifecycle,
}

impl App {
    /// A launcher that does nothing yet; [`App::reconcile`] makes it look at what is there.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { config, root, holder, accept, broker, runner, work } = parts;
        let (locks, registry, live) = (Locks::default(), Registry::default(), Semaphore::new(LIVE_RUNS));
        Self { inner: Arc::new(Inner { config, root, holder, accept, broker, runner, locks, registry, live, work }) }
    }

    /// Runs that it has taken and that are not over.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.inner.registry.len()
    }

    /// Where adapters are looked for.
    fn adapter_directories(&self) -> Vec<PathBuf> {
        let mut directories = vec![self.inner.root.adapters()];
        directories.extend(self.inner.config.adapter_dirs.iter().cloned());
        directories
    }
}
