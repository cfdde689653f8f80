//! The broker: system of record.
//!
//! It decides nothing about what may run. It keeps what launcher and runner report, checks that each change of state is
//! legal, and fences every writer by the epoch of its lease. It is the only process that opens the database.
//!
//! # Invariants
//!
//! - **An acknowledged write is on disk.** One writer task with one connection takes all commands that wait, writes them
//!   in one transaction, commits once with `synchronous=FULL`, and acknowledges after that (`writer`). A transaction that
//!   fails fails all of its commands and changes nothing in memory.
//! - **Everything is an event, in one chain.** The writer assigns the sequences, from 1 without a gap, and each event's
//!   hash covers the one before (`domain::chain`). Events and what is read from them change in one transaction.
//! - **A cut leaves proof.** Events go only with their whole run, and only runs whose record is pruned go. What is left, and
//!   where the chain goes on, is signed in an event of the same transaction (`domain::checkpoint`); a ledger with a fault is
//!   not cut. `VerifyLedger` proves the rest from there.
//! - **A run is what its events say.** Its state is [`mosaic_record::RunRecord::fold`] over them and nothing else;
//!   `VerifyLedger` folds them again and compares. Only who holds a lease is kept beside the events, because giving it
//!   back is no event.
//! - **Only the highest epoch writes.** A grant raises the epoch of the run by one; a writer under any other is stale.
//!   Holder and epoch are stored. When a lease expires is decided by this process's monotonic clock, and every lease gets
//!   a full term when the process starts (`domain::lease`). An expired lease that nobody has claimed still writes.
//! - **Watching is gap-free.** A watcher is a cursor over the database, woken after commits (`app::watch`); it can be
//!   slow, cut off or away for a week and costs the writer nothing.
//!
//! # Layers
//!
//! `rpc` (the wire) calls `app` (use cases), which calls `writer` and `store` (SQL); what is decided is decided in `domain`,
//! by pure functions.

mod app;
mod config;
mod domain;
pub mod process;
mod rpc;
mod store;
mod writer;

use std::sync::Arc;
use std::time::Duration;

pub use config::{Args, Options};
use mosaic_data_root::{Credentials, DataRootError, LockHeld, ProcessLock, Service};
use mosaic_lifecycle::Lifecycle;
use mosaic_rpc::{Attached, ServeError, Server};
use store::Store;
use tokio_util::sync::CancellationToken;
use writer::{Counts, World, Writer};

/// Why the broker can't start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another broker works on this data root.
    #[error("another broker works on this data root")]
    Locked(#[source] LockHeld),
    /// The ledger can't be opened.
    #[error("can't open the ledger `{}`", path.display())]
    Ledger {
        /// The ledger's path.
        path: std::path::PathBuf,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The hashes of the tokens, or the key of the ledger, can't be read.
    #[error("can't read whom the broker knows and what it signs with")]
    Credentials(#[source] DataRootError),
    /// The socket can't be served.
    #[error(transparent)]
    Serve(ServeError),
}

/// A broker that serves.
#[derive(Debug)]
pub struct Handle {
    lifecycle: Lifecycle,
    counts: Arc<Counts>,
    attached: Attached,
    _lock: ProcessLock,
}

/// Starts a broker: it serves on its socket when this returns.
///
/// # Errors
/// When another broker works on the data root, or the ledger or the socket can't be opened.
pub async fn start(options: Options) -> Result<Handle, Error> {
    let Options { root, clock, random, lease_term } = options;
    let lock = ProcessLock::acquire(&root.lock(Service::Broker)).map_err(Error::Locked)?;
    let credentials = Credentials::of(&root);
    let hashes = credentials.hashes(Service::Broker).map_err(Error::Credentials)?;
    let key = domain::CutKey::new(credentials.ledger_key().map_err(Error::Credentials)?.expose());
    let ledger = |source: store::StoreError| Error::Ledger { path: root.ledger(), source: source.into() };
    let store = Store::open(&root.ledger()).await.map_err(ledger)?;
    let readers = store.readers().clone();

    let lifecycle = Lifecycle::new();
    let world = World { store, clock, random, term: lease_term };
    let (writer, committed, counts) = Writer::start(world, &lifecycle).await.map_err(ledger)?;
    let broker = app::Broker::new(writer, readers, committed, lifecycle.soft().clone(), lease_term, key);

    let socket = root.socket(Service::Broker);
    let descriptors = mosaic_proto::broker::DESCRIPTORS;
    let server = Server::bind(Service::Broker, &socket, &hashes, rpc::RULES, descriptors).map_err(Error::Serve)?;
    let attached = server.attached();
    server.serve(rpc::routes(broker), &lifecycle).await.map_err(Error::Serve)?;
    Ok(Handle { lifecycle, counts, attached, _lock: lock })
}

impl Handle {
    /// Who of the operators is attached now.
    #[must_use]
    pub fn attached(&self) -> Attached {
        self.attached.clone()
    }

    /// Transactions that were committed since the start.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.counts.commits()
    }

    /// Events that were appended since the start.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.counts.events()
    }

    /// Takes nothing new, ends every watch, lets open calls end for at most `limit` or until `hurry` is cancelled, and
    /// closes the ledger. Returns true when nothing had to be cut short.
    pub async fn drain_unless(self, limit: Duration, hurry: &CancellationToken) -> bool {
        self.lifecycle.drain_unless(limit, hurry).await
    }

    /// [`drain_unless`](Self::drain_unless) that nothing cuts short.
    pub async fn drain(self, limit: Duration) -> bool {
        self.lifecycle.drain(limit).await
    }
}
