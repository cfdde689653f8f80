//! The runner runs sealed bundles in sandboxes, and reports what happened.
//!
//! It decides nothing about what may run, except that its own configuration is stricter than whatever it is asked. It trusts
//! a bundle by its digest only, and what comes out of a sandbox not at all.
//!
//! # Invariants
//!
//! - **A name before anything runs.** The sandbox's name, run id and a nonce, is on disk before the sandbox is made, so that
//!   whatever is left after a crash can be found and proven gone (`store`, `app::recover`).
//! - **Never weaker.** A sandbox that can't be made as planned is a refusal. What holds it and what enforces each limit is
//!   in the run's record (`domain::enforcement`).
//! - **The whole sandbox, or nothing.** The unit of killing is the pid namespace. `ENDED` means that the kernel has said so
//!   (`sandbox`).
//! - **One output, one time.** The files that take an adapter's output are made exclusively: no run runs twice.
//! - **Reports are spooled before they are sent**, in order, each with a number, and delivered until the broker has them or
//!   the lease is over, which ends the sandbox (`app::reporter`).
//! - **Output is not memory.** It goes to files of a fixed size, and watchers read it there (`capture`).
//!
//! # Layers
//!
//! `rpc` (the wire) calls `app` (use cases, and each execution's life as one task), which acts through `sandbox`, `capture`,
//! `store` and `broker`; what is decided is decided in `domain`, by pure functions.

mod app;
mod broker;
mod capture;
mod config;
mod domain;
pub mod probe;
pub mod process;
mod rpc;
mod sandbox;
mod store;

use std::time::Duration;

pub use config::{Args, Options};
use mosaic_data_root::{Credentials, DataRootError, LockHeld, ProcessLock, Service};
use mosaic_lifecycle::Lifecycle;
use mosaic_rpc::{Attached, Dial, ServeError, Server};
use mosaic_shim::protocol::Identity;
use tokio_util::sync::CancellationToken;

use app::{App, Parts};
use broker::Broker;
use sandbox::{System, Workshop, cgroup::Cgroups};

/// How long open calls may take to end once nothing new is served.
const SERVING_ENDS: Duration = Duration::from_secs(2);

/// How long the last reports may take before they are left for the next start.
const REPORTS_END: Duration = Duration::from_secs(5);

/// Why a runner can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another runner works on this data root.
    #[error("another runner works on this data root")]
    Locked(#[source] LockHeld),
    /// Its credentials can't be read.
    #[error("can't read the runner's credentials")]
    Credentials(#[source] DataRootError),
    /// It can't serve.
    #[error(transparent)]
    Serve(ServeError),
}

/// A runner that serves.
#[derive(Debug)]
pub struct Handle {
    app: App,
    serving: Lifecycle,
    attached: Attached,
    _lock: ProcessLock,
}

/// Starts a runner: it serves, and everything that an earlier one left is proven gone.
///
/// # Errors
/// When another runner works on the data root, or the socket can't be served.
pub async fn start(options: Options) -> Result<Handle, StartError> {
    let Options { root, environment, sandbox_uid, shim_executable, bubblewrap, clock } = options;
    let lock = ProcessLock::acquire(&root.lock(Service::Runner)).map_err(StartError::Locked)?;
    let credentials = Credentials::of(&root);
    let token = credentials.service(Service::Runner).map_err(StartError::Credentials)?;
    let hashes = credentials.hashes(Service::Runner).map_err(StartError::Credentials)?;
    let is_root = nix::unistd::geteuid().is_root();
    let app = App::new(Parts {
        environment,
        identity: is_root.then_some(Identity { uid: sandbox_uid, gid: sandbox_uid }),
        workshop: Workshop { cgroups: Cgroups::detect(), system: System::look(), bubblewrap },
        shim_executable,
        broker: Broker::new(&Dial::new(&root, Service::Broker, &token)),
        clock,
        root: root.clone(),
    });
    app.warm_up();
    app.recover().await;

    let descriptors = mosaic_proto::runner::DESCRIPTORS;
    let server = Server::bind(Service::Runner, &root.socket(Service::Runner), &hashes, rpc::authz::RULES, descriptors)
        .map_err(StartError::Serve)?;
    let attached = server.attached();
    let serving = Lifecycle::new();
    server.serve(rpc::routes(app.clone()), &serving).await.map_err(StartError::Serve)?;
    Ok(Handle { app, serving, attached, _lock: lock })
}

impl Handle {
    /// Who of the operators is attached.
    #[must_use]
    pub const fn attached(&self) -> &Attached {
        &self.attached
    }

    /// Executions that have not ended.
    #[must_use]
    pub fn live(&self) -> usize {
        self.app.live_count()
    }

    /// Takes nothing new, lets what runs finish for at most `limit` or until `hurry` is cancelled, stops the rest, and ends
    /// when every sandbox is proven gone. Reports that the broker does not take soon are left for the next start. Returns
    /// true when nothing was stopped.
    pub async fn drain_unless(self, limit: Duration, hurry: &CancellationToken) -> bool {
        let finished = self.app.drain(limit, hurry, REPORTS_END).await;
        self.serving.drain(SERVING_ENDS).await;
        finished
    }

    /// [`drain_unless`](Self::drain_unless) that nothing cuts short.
    pub async fn drain(self, limit: Duration) -> bool {
        self.drain_unless(limit, &CancellationToken::new()).await
    }
}
