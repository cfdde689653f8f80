//! The launcher decides what may run, prepares it, and sees each run through to its record.
//!
//! Invariants:
//! - Nothing is recorded before documents, configuration and the operator's wishes were validated; what is recorded holds
//!   snapshots of all of them.
//! - A run is worked on under a lease, whose epoch fences everybody who had it before.
//! - Preparation is a list of steps. Each is recorded; when one fails, everything before it is undone in reverse and the
//!   run is refused.
//! - Workspace and session of a run are its own from before its preparation until its sandbox is proven gone.
//! - While a run lives, no path below its workspace or session is opened: what is in there belongs to an agent. Afterwards a
//!   walk that follows no link measures, archives and removes it.
//! - A run that ran in clones is over once their work was taken out; until then workspace and session stay its own, and nothing
//!   of it is removed.
//! - Nothing is removed that is not recorded as removed, and nothing that is kept, live or not known as ours.
//!
//! Layout: `intake` reads documents, `domain` decides, `app` acts, `peers` are the services to the right, `rpc` is the
//! surface.

pub mod app;
pub mod domain;
pub mod intake;
pub mod peers;
pub mod process;
pub mod rpc;

use std::sync::Arc;
use std::time::Duration;

use mosaic_config::Config;
use mosaic_data_root::{Credentials, DataRoot, DataRootError, LockHeld, ProcessLock, Service};
use mosaic_lifecycle::{Lifecycle, SystemClock};
use mosaic_proto::launcher::v1::launch_service_server::LaunchServiceServer;
use mosaic_rpc::{Attached, Dial, MAX_MESSAGE_BYTES, RpcError, ServeError, Server};

use app::marks::Marks;
use app::{Accept, App, Checkouts, Parts};
use peers::{Broker, Retention, Runner};
use tokio_util::sync::CancellationToken;

/// How long open calls may take to end once nothing new is served.
const SERVING_ENDS: Duration = Duration::from_secs(2);

/// How a launcher is started.
#[derive(Debug)]
pub struct Options {
    /// Where everything is; this process owns it.
    pub root: DataRoot,
    /// The configuration.
    pub config: Config,
    /// Which runs it takes.
    pub accept: Accept,
}

/// Why a launcher can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another launcher works on this data root.
    #[error("can't lock the launcher of this data root")]
    Lock(#[from] LockHeld),
    /// Its credentials can't be read.
    #[error("can't read the launcher's credentials")]
    Credentials(#[from] DataRootError),
    /// It can't serve.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// It can't keep what it has in hand.
    #[error("can't keep what is in hand on disk")]
    Marks(#[source] std::io::Error),
    /// The broker did not answer.
    #[error("can't take up what is recorded")]
    Reconcile(#[source] RpcError),
}

/// A launcher that runs.
#[derive(Debug)]
pub struct Handle {
    app: App,
    work: Lifecycle,
    serving: Lifecycle,
    attached: Attached,
    _lock: ProcessLock,
}

/// Starts a launcher: it serves, and has taken up what an earlier one left.
///
/// # Errors
/// When another one works on this data root, or the broker can't be talked to.
pub async fn start(options: Options) -> Result<Handle, StartError> {
    let Options { root, config, accept } = options;
    let lock = ProcessLock::acquire(&root.lock(Service::Launcher))?;
    let credentials = Credentials::of(&root);
    let token = credentials.service(Service::Launcher)?;
    let hashes = credentials.hashes(Service::Launcher)?;
    let socket = root.socket(Service::Launcher);
    let descriptors = mosaic_proto::launcher::DESCRIPTORS;
    let server = Server::bind(Service::Launcher, &socket, &hashes, rpc::authz::RULES, descriptors)?;

    let (work, serving) = (Lifecycle::new(), Lifecycle::new());
    let checkouts = Checkouts::new(&config, std::env::var_os("PATH").as_deref());
    let app = App::new(Parts {
        checkouts,
        config,
        accept,
        // One launcher a data root, so that the path names it, across restarts too.
        holder: holder(&root),
        broker: Broker::new(&Dial::new(&root, Service::Broker, &token)),
        runner: Runner::new(&Dial::new(&root, Service::Runner, &token)),
        retention: Retention::new(&Dial::new(&root, Service::Broker, &token)),
        marks: Marks::of(&root).map_err(StartError::Marks)?,
        clock: Arc::new(SystemClock::new()),
        work: work.clone(),
        root,
    });
    app.reconcile().await.map_err(StartError::Reconcile)?;
    app.keep_house();

    let attached = server.attached();
    let service = LaunchServiceServer::new(rpc::LaunchRpc::new(app.clone()))
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    server.serve(tonic::service::Routes::new(service), &serving).await?;
    Ok(Handle { app, work, serving, attached, _lock: lock })
}

/// Id of the launcher of a data root.
fn holder(root: &DataRoot) -> mosaic_ids::RequestId {
    let digest = mosaic_ids::Digest::of(root.path().as_os_str().as_encoded_bytes());
    format!("launcher-{}", &digest.as_str()[..16]).parse().expect("hex digits are printable")
}

impl Handle {
    /// Runs that it has in hand and that are not over.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.app.unfinished()
    }

    /// Who of the operators is attached.
    #[must_use]
    pub const fn attached(&self) -> &Attached {
        &self.attached
    }

    /// Returns when it was asked to hand over: its host is to end once nothing is in hand.
    pub fn handing_over(&self) -> impl Future<Output = ()> + Send + use<> {
        self.work.soft().clone().cancelled_owned()
    }

    /// Takes nothing new, lets what runs finish for at most `limit` or until `hurry` is cancelled, and ends. Returns true
    /// when nothing was cut short.
    pub async fn drain_unless(self, limit: Duration, hurry: &CancellationToken) -> bool {
        let finished = self.work.drain_unless(limit, hurry).await;
        self.serving.drain(SERVING_ENDS).await;
        finished
    }

    /// [`drain_unless`](Self::drain_unless) that nothing cuts short.
    pub async fn drain(self, limit: Duration) -> bool {
        self.drain_unless(limit, &CancellationToken::new()).await
    }
}
