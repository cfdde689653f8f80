//! What callers can ask of the broker, in its own words.

mod cut;
mod details;
mod error;
mod verify;
mod watch;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use cut::Cut;
pub(crate) use details::RunDetails;
pub(crate) use error::AppError;
use futures::stream::BoxStream;
use mosaic_ids::{RequestId, RunId};
use mosaic_record::{Actor, RunEvent, RunSpec};
use mosaic_telemetry::{Traceparent, current_trace_id};
use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;
pub(crate) use verify::Verdict;

use crate::domain::{Change, Command, CutKey, Event, NewRun, Order, RunFilter, RunSummary, request_digest};
use crate::store::Readers;
use crate::writer::{Writer, Written};

/// The use cases.
#[derive(Debug)]
pub(crate) struct Broker {
    writer: Writer,
    readers: Readers,
    committed: Receiver<i64>,
    stopping: CancellationToken,
    term: Duration,
    /// One proof at a time: it keeps a reader for long.
    proving: tokio::sync::Semaphore,
    /// One cut at a time: each is planned on the one before.
    cutting: tokio::sync::Mutex<()>,
    key: Arc<CutKey>,
}

/// Events in order, without a gap.
pub(crate) type EventStream = BoxStream<'static, Result<Event, AppError>>;

impl Broker {
    /// The use cases on a writer and the readers of the same ledger; `committed` is the sequence of its last event, `key`
    /// signs where it is cut.
    pub(crate) fn new(
        writer: Writer,
        readers: Readers,
        committed: Receiver<i64>,
        stopping: CancellationToken,
        term: Duration,
        key: CutKey,
    ) -> Self {
        let (proving, cutting) = (tokio::sync::Semaphore::new(1), tokio::sync::Mutex::new(()));
        Self { writer, readers, committed, stopping, term, proving, cutting, key: Arc::new(key) }
    }

    /// Term of a lease.
    pub(crate) fn term(&self) -> Duration {
        self.term
    }

    /// Records a new run, or finds the one that the same request made. `Written::changed` says which.
    ///
    /// # Errors
    /// When the spec is malformed, or the request made a run from another one.
    pub(crate) async fn create(&self, actor: Actor, request_id: RequestId, spec: String) -> Result<Written, AppError> {
        let span_trace = current_trace_id();
        let new = off_the_workers(move || new_run(request_id, &spec, span_trace)).await?;
        Ok(self.writer.execute(Command { actor, order: Order::Create(Box::new(new)) }).await?)
    }

    /// Changes a run.
    ///
    /// # Errors
    /// When the change is not allowed.
    pub(crate) async fn change(&self, actor: Actor, run_id: RunId, change: Change) -> Result<Written, AppError> {
        self.hand_over(actor, run_id, change).await?.await
    }

    /// Puts a change into the writer's queue: changes that are handed over one after the other are carried out in that
    /// order. What is returned is done once the change is on disk; whoever drops it learns nothing and stops nothing.
    ///
    /// # Errors
    /// When the queue is closed.
    pub(crate) async fn hand_over(
        &self,
        actor: Actor,
        run_id: RunId,
        change: Change,
    ) -> Result<impl Future<Output = Result<Written, AppError>> + use<>, AppError> {
        let answer = self.writer.submit(Command { actor, order: Order::Change { run_id, change } }).await?;
        Ok(async { Ok(answer.await?) })
    }

    /// Returns once the broker takes nothing new.
    pub(crate) async fn stopping(&self) {
        self.stopping.cancelled().await;
    }

    /// A run with its record and spec.
    ///
    /// # Errors
    /// When there is no such run.
    pub(crate) async fn details(&self, run_id: &RunId) -> Result<RunDetails, AppError> {
        details::read(&self.readers, run_id).await
    }

    /// Up to `limit` runs that `filter` shows and whose first event is before `before`, newest first, and where to go on.
    ///
    /// # Errors
    /// When the ledger can't be read.
    pub(crate) async fn list(
        &self,
        filter: &RunFilter,
        before: i64,
        limit: usize,
    ) -> Result<(Vec<RunSummary>, Option<i64>), AppError> {
        let one_more = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
        let mut runs = self.readers.snapshot().await?.runs(filter, before, one_more).await?;
        let more = runs.len() > limit;
        runs.truncate(limit);
        let next = if more { runs.last().map(|run| run.first_sequence) } else { None };
        Ok((runs, next))
    }

    /// Every event from `from` on, and then those to come.
    ///
    /// # Errors
    /// When `from` is no longer there.
    pub(crate) async fn watch_events(&self, from: i64) -> Result<EventStream, AppError> {
        watch::events(self.watcher(), from).await
    }

    /// The events of a run from `from` on, up to the one that makes it terminal, or to its harvest.
    ///
    /// # Errors
    /// When there is no such run or `from` is no longer there.
    pub(crate) async fn watch_run(&self, run_id: RunId, from: i64) -> Result<EventStream, AppError> {
        watch::run(self.watcher(), run_id, from).await
    }

    /// Proves the ledger.
    ///
    /// # Errors
    /// When the ledger can't be read; a broken one is a verdict.
    pub(crate) async fn verify(&self) -> Result<Verdict, AppError> {
        let verdict = async {
            let _turn = self.proving.acquire().await.map_err(|_closed| AppError::Stopping)?;
            verify::verify(&self.readers, &self.key).await
        };
        self.stopping.run_until_cancelled(verdict).await.ok_or(AppError::Stopping)?
    }

    fn watcher(&self) -> watch::Watcher {
        watch::Watcher::new(self.readers.clone(), self.committed.clone(), self.stopping.clone())
    }
}

/// Does what may take long, for a large document, where no other call waits for it.
async fn off_the_workers<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AppError> + Send + 'static,
) -> Result<T, AppError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_the_runtime_ends) => Err(AppError::Stopping),
        },
    }
}

/// Does everything about a creation that doesn't need the ledger; takes long for a large spec.
fn new_run(request_id: RequestId, spec: &str, span_trace: Option<String>) -> Result<NewRun, AppError> {
    let mut json = serde_json::Deserializer::from_str(spec);
    let parsed: RunSpec = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| AppError::InvalidSpec { path: error.path().to_string(), source: error.into_inner() })?;
    json.end().map_err(|source| AppError::InvalidSpec { path: ".".to_owned(), source })?;
    let launch_trace = parsed.traceparent.as_deref().and_then(|text| text.parse::<Traceparent>().ok());
    let trace_id = launch_trace.map(|parent| parent.trace_id()).or(span_trace);
    let digest = request_digest(&parsed);
    let event = RunEvent::Queued { request_id: request_id.clone(), spec: Box::new(parsed) };
    let payload = serde_json::to_string(&event).expect("an event has string keys and no failing type");
    Ok(NewRun { request_id, event, payload, digest, trace_id })
}
