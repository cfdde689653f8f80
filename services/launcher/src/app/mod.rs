//! What the launcher does: launches, stops, and sees each run through to its record.

mod checkouts;
mod disk;
mod handing;
mod harvest;
mod integrate;
mod launch;
pub mod locks;
pub mod marks;
pub mod prepare;
pub mod projection;
mod registry;
mod repair;
pub mod retention;
mod see_through;
mod stop;
mod supervise;
mod turns;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use mosaic_config::Config;
use mosaic_data_root::DataRoot;
use mosaic_ids::RequestId;
use mosaic_lifecycle::{Clock, Lifecycle};
use mosaic_rpc::RpcError;
use tokio::sync::{Mutex, Semaphore};

pub use checkouts::Checkouts;
pub use handing::Part;
pub use integrate::{IntegrateOrder, Told};
pub use launch::{Launched, Validated};
pub use registry::Registry;
pub use repair::Repaired;
pub use stop::Stopping;

use crate::peers::{Broker, Retention, Runner};
use locks::Locks;
use marks::Marks;

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
    retention: Retention,
    checkouts: Arc<Checkouts>,
    locks: Locks,
    marks: Marks,
    registry: Registry,
    live: Semaphore,
    work: Lifecycle,
    clock: Arc<dyn Clock>,
    /// Wall clock and monotonic clock when it was made.
    started: (Timestamp, Duration),
    /// Held by whoever removes things.
    pruning: Mutex<()>,
    remedy: disk::LastRemedy,
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
    /// The broker, for removing things.
    pub retention: Retention,
    /// What it has in hand, on disk.
    pub marks: Marks,
    /// What checkouts are made with.
    pub checkouts: Checkouts,
    /// Ends its work.
    pub work: Lifecycle,
    /// Where times come from.
    pub clock: Arc<dyn Clock>,
}

impl App {
    /// A launcher that does nothing yet; [`App::reconcile`] makes it look at what is there.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { config, root, holder, accept, broker, runner, retention, checkouts, marks, work, clock } = parts;
        let (locks, registry, live) = (Locks::default(), Registry::default(), Semaphore::new(LIVE_RUNS));
        let (pruning, remedy) = (Mutex::default(), disk::LastRemedy::default());
        let started = (clock.now(), clock.monotonic());
        let inner = Inner {
            config,
            root,
            holder,
            accept,
            broker,
            runner,
            retention,
            checkouts: Arc::new(checkouts),
            locks,
            marks,
            registry,
            live,
            work,
            clock,
            started,
            pruning,
            remedy,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Runs that it has taken and that are not over.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.inner.registry.len()
    }

    /// True once it takes nothing more.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.inner.work.soft().is_cancelled()
    }

    /// Takes nothing more, so that another host can have what waits. Whoever hosts this launcher ends it after that.
    ///
    /// # Errors
    /// When it takes everything there is: then no other host may.
    pub fn hand_over(&self) -> Result<(), RpcError> {
        if self.inner.accept == Accept::Everything {
            let message = "this launcher is not part of a background host; end its process instead";
            return Err(RpcError::invalid(message));
        }
        self.inner.work.stop_taking();
        Ok(())
    }

    /// Where adapters are looked for.
    fn adapter_directories(&self) -> Vec<PathBuf> {
        let mut directories = vec![self.inner.root.adapters()];
        directories.extend(self.inner.config.adapter_dirs.iter().cloned());
        directories
    }
}
