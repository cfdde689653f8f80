//! Use cases, and the life of each execution as one task.

mod drive;
mod error;
mod execution;
mod finish;
mod prepare;
mod recover;
mod registry;
mod reporter;
mod tail;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mosaic_data_root::DataRoot;
use mosaic_ids::{Digest, RunId};
use mosaic_lifecycle::Clock;
use mosaic_record::Environment;
use mosaic_shim::protocol::Identity;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

pub(crate) use error::AppError;
pub(crate) use execution::{Execution, State};
pub(crate) use tail::Stream;

use crate::broker::Broker;
use crate::domain::admission::{Again, again};
use crate::sandbox::Workshop;
use registry::{Registry, Reserved};

/// Longest time that a caller may wait for the end of an execution.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(600);

/// How long the answer to such a caller waits for the broker to take the end.
const REPORT_PATIENCE: Duration = Duration::from_secs(1);

/// What executions are made with.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) root: DataRoot,
    pub(crate) environment: Environment,
    /// Whom sandboxes run as; absent where this process is not root.
    pub(crate) identity: Option<Identity>,
    pub(crate) workshop: Workshop,
    pub(crate) shim_executable: PathBuf,
    pub(crate) broker: Broker,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The runner.
#[derive(Debug, Clone)]
pub(crate) struct App {
    parts: Arc<Parts>,
    registry: Arc<Registry>,
    /// The copy of the shim, made when the first sandbox needs it.
    shim: Arc<OnceCell<(PathBuf, Digest)>>,
    executions: TaskTracker,
    reporters: TaskTracker,
    /// Cancelled when nothing new is taken.
    closing: CancellationToken,
    /// Cancelled when reporters are to leave what they have on disk.
    leaving: CancellationToken,
}

impl App {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            parts: Arc::new(parts),
            registry: Arc::default(),
            shim: Arc::default(),
            executions: TaskTracker::new(),
            reporters: TaskTracker::new(),
            closing: CancellationToken::new(),
            leaving: CancellationToken::new(),
        }
    }

    /// Starts a run, and returns once its adapter runs. Under the same epoch the execution that is there is returned; under
    /// a higher one it goes on under that.
    pub(crate) async fn start_run(&self, run: &RunId, epoch: i64, digest: &Digest) -> Result<Arc<Execution>, AppError> {
        if self.closing.is_cancelled() {
            return Err(AppError::Closing);
        }
        let execution = match self.registry.reserve(run, epoch)? {
            Reserved::New(execution) => {
                let life = self.clone().live(Arc::clone(&execution), digest.clone());
                self.executions.spawn(life.instrument(execute_span(run, epoch)));
                execution
            }
            Reserved::Present(execution) => {
                match again(execution.status().epoch, epoch) {
                    Again::Same => {}
                    Again::Adopt => self.adopt(&execution, epoch),
                    Again::Stale => return Err(AppError::Stale { run: run.clone(), epoch: execution.status().epoch }),
                }
                execution
            }
        };
        match execution.started().await {
            Ok(()) => Ok(execution),
            Err(error) => Err(error),
        }
    }

    /// Asks for the end of a run. Returns at once.
    pub(crate) fn stop_run(&self, run: &RunId) -> Result<Arc<Execution>, AppError> {
        let execution = self.registry.get(run).ok_or_else(|| AppError::Unknown { run: run.clone() })?;
        execution.stop();
        Ok(execution)
    }

    /// The execution of a run; waits for its end up to `wait`.
    pub(crate) async fn execution(&self, run: &RunId, wait: Duration) -> Result<Arc<Execution>, AppError> {
        let execution = self.registry.get(run).ok_or_else(|| AppError::Unknown { run: run.clone() })?;
        let settled = async {
            execution.ended().await;
            // Who waits for the end wants the record next; a broker that is away must not keep the answer for long.
            let _away = tokio::time::timeout(REPORT_PATIENCE, execution.reported()).await;
        };
        // A wait that is over is an answer too.
        let _over = tokio::time::timeout(wait.min(WAIT_LIMIT), settled).await;
        Ok(execution)
    }

    /// Returns when streams are to end: everything that ran has ended.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        self.leaving.clone().cancelled_owned()
    }

    /// Executions that have not ended.
    pub(crate) fn live_count(&self) -> usize {
        self.registry.live().len()
    }

    /// Takes nothing new, lets what runs finish for at most `limit` or until `hurry` is cancelled, then stops it; gives the
    /// reports a moment, and leaves the rest of them on disk. Returns true when nothing was stopped.
    pub(crate) async fn drain(&self, limit: Duration, hurry: &CancellationToken, reports: Duration) -> bool {
        self.closing.cancel();
        self.executions.close();
        let finished = tokio::select! {
            () = self.executions.wait() => true,
            () = tokio::time::sleep(limit) => false,
            () = hurry.cancelled() => false,
        };
        // Also those whose start was under way when the door closed.
        while let live = self.registry.live()
            && !live.is_empty()
        {
            live.iter().for_each(|execution| execution.stop());
            self.executions.wait().await;
        }
        self.reporters.close();
        let _left_on_disk = tokio::time::timeout(reports, self.reporters.wait()).await;
        self.leaving.cancel();
        self.reporters.wait().await;
        finished
    }

    /// The copy of the shim and its digest.
    async fn shim(&self) -> std::io::Result<(PathBuf, Digest)> {
        let install = || async {
            let parts = Arc::clone(&self.parts);
            let installed =
                tokio::task::spawn_blocking(move || crate::sandbox::install_shim(&parts.root, &parts.shim_executable));
            installed.await.map_err(std::io::Error::other)?
        };
        self.shim.get_or_try_init(install).await.cloned()
    }

    /// Makes the copy of the shim before somebody waits for it.
    pub(crate) fn warm_up(&self) {
        let app = self.clone();
        self.reporters.spawn(async move {
            if let Err(error) = app.shim().await {
                tracing::error!(%error, "Could not copy the shim");
            }
        });
    }
}

/// The span of an execution, below the call that started it.
fn execute_span(run: &RunId, epoch: i64) -> tracing::Span {
    tracing::info_span!(
        "execute",
        otel.name = "mosaic.runner.execute",
        otel.status_code = tracing::field::Empty,
        run.id = %run,
        run.epoch = epoch,
        run.status = tracing::field::Empty,
        run.reason = tracing::field::Empty
    )
}
