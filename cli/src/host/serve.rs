//! The services, hosted in one process.

use std::time::Duration;

use mosaic_config::Config;
use mosaic_data_root::{Credentials, DataRoot, DataRootError, LockHeld, ProcessLock};
use mosaic_launcher::app::Accept;
use mosaic_lifecycle::Lifecycle;

use super::{HostFile, Identity, Kind};

/// How often a background host looks whether anybody needs it.
const IDLE_POLL: Duration = Duration::from_millis(500);
/// How often a host that ends looks whether runs are live.
const SETTLE_POLL: Duration = Duration::from_millis(20);
/// How long ended runs may take to be recorded.
const RECORDS_END: Duration = Duration::from_secs(60);
/// How long the broker may take to finish what it has accepted.
const BROKER_ENDS: Duration = Duration::from_secs(10);

/// How a host is started.
#[derive(Debug)]
pub(crate) struct HostOptions {
    /// The configuration.
    pub config: Config,
    /// Whose host it is.
    pub kind: Kind,
    /// Ends when nobody has needed it for this long.
    pub idle_exit: Option<Duration>,
    /// How long running work may go on after it was asked to end.
    pub drain: Duration,
}

/// Why a host can't run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    /// Another host works on this data root.
    #[error("another host works on this data root")]
    Held(#[source] LockHeld),
    /// The data root can't be used.
    #[error(transparent)]
    DataRoot(#[from] DataRootError),
    /// The broker can't start.
    #[error("the broker can't start")]
    Broker(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The runner can't start.
    #[error("the runner can't start")]
    Runner(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The launcher can't start.
    #[error("the launcher can't start")]
    Launcher(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The operating system refused.
    #[error("can't host")]
    Io(#[from] std::io::Error),
}

/// All services of one host.
struct Services {
    broker: mosaic_broker::Handle,
    runner: mosaic_runner::Handle,
    launcher: mosaic_launcher::Handle,
}

/// Hosts the services until `shutdown` begins its soft stage or nobody has needed them for long enough.
///
/// # Errors
/// When another host has the data root, or a service can't start.
pub(crate) async fn serve(
    options: HostOptions,
    shutdown: &Lifecycle,
    ready: impl FnOnce(&DataRoot),
) -> Result<(), HostError> {
    let root = DataRoot::create_or_open(&options.config.data_root)?;
    let _lock = ProcessLock::acquire(&root.host_lock()).map_err(HostError::Held)?;
    // What a host that was killed has left says nothing about this one.
    HostFile::remove(&root.host_file());
    Credentials::of(&root).ensure()?;
    let services = start(&root, &options).await?;
    let identity = Identity::of_this_process(&options.config);
    HostFile { pid: std::process::id(), kind: options.kind, identity }.write(&root)?;
    tracing::info!(data_root = %root.path().display(), "Hosting");
    ready(&root);

    tokio::select! {
        () = shutdown.soft().cancelled() => {}
        () = idle(&services, options.idle_exit) => tracing::info!("Nobody needs this host any more"),
        () = handed_over(&services) => tracing::info!("Another host takes the place of this one"),
    }
    // The file stays meanwhile: what still runs can be watched and stopped.
    end(services, options.drain, shutdown).await;
    HostFile::remove(&root.host_file());
    Ok(())
}

/// Starts each service after those that it needs.
async fn start(root: &DataRoot, options: &HostOptions) -> Result<Services, HostError> {
    let config = &options.config;
    let broker = mosaic_broker::start(mosaic_broker::Options::new(root.clone()))
        .await
        .map_err(|error| HostError::Broker(error.into()))?;
    let runner = mosaic_runner::start(mosaic_runner::Options::new(root.clone(), config)?)
        .await
        .map_err(|error| HostError::Runner(error.into()))?;
    let accept = match options.kind {
        Kind::Foreground => Accept::Everything,
        Kind::Background => Accept::OwnLaunches,
    };
    let options = mosaic_launcher::Options { root: root.clone(), config: config.clone(), accept };
    let launcher = mosaic_launcher::start(options).await.map_err(|error| HostError::Launcher(error.into()))?;
    Ok(Services { broker, runner, launcher })
}

/// Returns when another host wants the place of this one, and everything that runs is over.
async fn handed_over(services: &Services) {
    services.launcher.handing_over().await;
    while services.launcher.unfinished() > 0 {
        tokio::time::sleep(SETTLE_POLL).await;
    }
}

/// Returns when nobody has been attached and nothing has been unfinished for `limit`.
async fn idle(services: &Services, limit: Option<Duration>) {
    let Some(limit) = limit else { return std::future::pending().await };
    let Services { broker, runner, launcher } = services;
    let attached = [broker.attached(), runner.attached().clone(), launcher.attached().clone()];
    loop {
        tokio::time::sleep(IDLE_POLL.min(limit)).await;
        let unneeded = |attached: &mosaic_rpc::Attached| attached.idle_for().is_some_and(|idle| idle >= limit);
        if launcher.unfinished() == 0 && attached.iter().all(unneeded) {
            return;
        }
    }
}

/// Ends the services. Live runs end by themselves within `drain`, or are ended: at its end, or when somebody asks a second
/// time. The launcher sees their records through meanwhile, and the broker takes them to the end.
async fn end(services: Services, drain: Duration, shutdown: &Lifecycle) {
    let Services { broker, runner, launcher } = services;
    let runs = async {
        let settled = async {
            while runner.live() > 0 {
                tokio::time::sleep(SETTLE_POLL).await;
            }
        };
        tokio::select! {
            () = settled => {}
            () = tokio::time::sleep(drain) => tracing::warn!("The drain is over: live runs are ended"),
            () = shutdown.hard().cancelled() => tracing::warn!("Asked twice to end: live runs are ended"),
        }
        runner.drain(Duration::ZERO).await
    };
    tokio::join!(launcher.drain(drain + RECORDS_END), runs);
    broker.drain(BROKER_ENDS).await;
}
