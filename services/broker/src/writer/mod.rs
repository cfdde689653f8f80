//! The one writer.
//!
//! Commands wait in a bounded channel. The writer takes all that wait, up to a bound, decides each against the state that
//! those before it left, writes them in one transaction and commits once; only then does it acknowledge any of them. A
//! command is decided before anything of it is written, so one that is refused leaves nothing behind and spoils nothing
//! for its neighbours. When the transaction fails all of its commands fail, and what the writer keeps in memory (the end
//! of the chain, the leases) is as it was; it opens the database anew and reads the end of the chain from there.

mod batch;
mod errand;
mod known;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use errand::Errand;
use known::{Kept, Known};
use mosaic_lifecycle::{Clock, Lifecycle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tracing::Instrument as _;

use crate::domain::{Command, Denial, Head, Leases, Run};
use crate::store::{Store, StoreError, WriteConnection};

/// Commands that wait at once.
const QUEUE: usize = 1024;

/// Errands that wait at once.
const ERRANDS: usize = 16;

/// Commands of one transaction.
const BATCH_COMMANDS: usize = 512;

/// Text of one transaction, in bytes, beyond its first command.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Text that waits at once, in KiB: a few of the largest specs.
const WAITING_KIB: usize = 512 * 1024;

/// Source of randomness for ids.
pub(crate) type Random = Box<dyn FnMut() -> u64 + Send>;

/// What a command led to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Written {
    /// The run afterwards.
    pub(crate) run: Arc<Run>,
    /// True when this command appended an event.
    pub(crate) changed: bool,
    /// Sequence of the event that carried it out, now or when it was given before.
    pub(crate) sequence: i64,
}

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// It is not allowed.
    #[error(transparent)]
    Denied(Denial),
    /// What is stored of the run is damaged.
    #[error(transparent)]
    Damaged(Arc<StoreError>),
    /// The database failed or the broker is stopping; the same command may succeed later.
    #[error("the ledger can't be written now")]
    Unavailable,
}

/// Counts of what the writer did since its start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    commits: AtomicU64,
    events: AtomicU64,
}

impl Counts {
    /// Transactions that were committed.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Events that were appended.
    pub(crate) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }
}

/// A way to the writer. The writer ends when the last of them is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    jobs: mpsc::Sender<Job>,
    errands: mpsc::Sender<Errand>,
    waiting: Arc<Semaphore>,
}

/// A command that waits.
#[derive(Debug)]
struct Job {
    command: Command,
    weight: usize,
    answer: oneshot::Sender<Result<Written, WriteError>>,
    _waiting: OwnedSemaphorePermit,
}

/// What the writer needs of the world.
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Random,
    /// Term of a lease.
    pub(crate) term: Duration,
}

impl Writer {
    /// Starts the writer as a task of `lifecycle`. Returns the way to it, the sequence of the last committed event to
    /// watch, and its counts.
    ///
    /// # Errors
    /// When the database can't be written to.
    pub(crate) async fn start(
        world: World,
        lifecycle: &Lifecycle,
    ) -> Result<(Self, watch::Receiver<i64>, Arc<Counts>), StoreError> {
        let mut connection = world.store.writer().await?;
        let head = connection.head().await?;
        let (jobs, queue) = mpsc::channel(QUEUE);
        let (errands, errand_queue) = mpsc::channel(ERRANDS);
        let (committed, watched) = watch::channel(head.sequence);
        let counts = Arc::new(Counts::default());
        let leases = Leases::new(world.term, world.clock.monotonic());
        let task = Task {
            world,
            connection: Some(connection),
            head,
            kept: Kept::default(),
            leases,
            committed,
            counts: Arc::clone(&counts),
        };
        lifecycle.spawn("write", task.run(queue, errand_queue));
        Ok((Self { jobs, errands, waiting: Arc::new(Semaphore::new(WAITING_KIB)) }, watched, counts))
    }

    /// Has `command` carried out, and returns when what it wrote is on disk.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(crate) async fn execute(&self, command: Command) -> Result<Written, WriteError> {
        self.submit(command).await?.await
    }

    /// Puts `command` into the queue: those that are put there one after the other are carried out in that order. What is
    /// returned is done when what the command wrote is on disk.
    ///
    /// # Errors
    /// When the writer has ended.
    pub(crate) async fn submit(
        &self,
        command: Command,
    ) -> Result<impl Future<Output = Result<Written, WriteError>> + use<>, WriteError> {
        let weight = command.weight();
        let kib = u32::try_from((weight / 1024).clamp(1, WAITING_KIB)).expect("clamped");
        let waiting =
            Arc::clone(&self.waiting).acquire_many_owned(kib).await.map_err(|_closed| WriteError::Unavailable)?;
        let (answer, answered) = oneshot::channel();
        let job = Job { command, weight, answer, _waiting: waiting };
        self.jobs.send(job).await.map_err(|_ended| WriteError::Unavailable)?;
        Ok(async { answered.await.map_err(|_dropped| WriteError::Unavailable)? })
    }
}

/// The writer's own state.
struct Task {
    world: World,
    /// None after a failure, until the next batch.
    connection: Option<WriteConnection>,
    head: Head,
    kept: Kept,
    leases: Leases,
    committed: watch::Sender<i64>,
    counts: Arc<Counts>,
}

impl Task {
    async fn run(mut self, mut queue: mpsc::Receiver<Job>, mut errands: mpsc::Receiver<Errand>) {
        loop {
            tokio::select! {
                first = queue.recv() => {
                    let Some(first) = first else { break };
                    let jobs = fill(first, &mut queue);
                    self.carry_out(jobs).await;
                }
                Some(errand) = errands.recv() => self.run_errand(errand).await,
            }
        }
        if let Err(error) = self.world.store.close(self.connection).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "Could not close the ledger in order");
        }
    }

    async fn carry_out(&mut self, jobs: Vec<Job>) {
        let commands: Vec<&Command> = jobs.iter().map(|job| &job.command).collect();
        let span = tracing::info_span!("mosaic.broker.commit", batch.commands = jobs.len());
        let answers = match self.write(&commands).instrument(span).await {
            Ok(answers) => answers,
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    batch.commands = jobs.len(),
                    "Could not write to the ledger; its commands have failed"
                );
                self.connection = None;
                self.kept.forget();
                jobs.iter().map(|_| Err(WriteError::Unavailable)).collect()
            }
        };
        for (job, answer) in jobs.into_iter().zip(answers) {
            // A caller that has gone away asks again with the same request.
            let _gone = job.answer.send(answer);
        }
    }

    async fn write(&mut self, commands: &[&Command]) -> Result<Vec<batch::Answer>, StoreError> {
        let connection = opened(&self.world.store, &mut self.connection, &mut self.head).await?;
        let known = Known::read(connection, &self.kept, commands).await?;
        let now = self.world.clock.monotonic();
        let mut batch = batch::Batch {
            known,
            head: self.head.clone(),
            leases: self.leases.stage(),
            clock: self.world.clock.as_ref(),
            now,
            random: &mut self.world.random,
            events: Vec::new(),
            changed: HashMap::new(),
        };
        let answers = commands.iter().map(|command| batch.command(command)).collect();
        let outcome = batch.outcome();
        if !outcome.runs.is_empty() {
            connection.write(outcome.events, &outcome.runs).await?;
        }

        self.leases.apply(outcome.leases, now);
        self.kept.take(outcome.known);
        let events = outcome.head.sequence - self.head.sequence;
        self.head = outcome.head;
        if events > 0 {
            self.counts.commits.fetch_add(1, Ordering::Relaxed);
            self.counts.events.fetch_add(events.unsigned_abs(), Ordering::Relaxed);
            self.committed.send_replace(self.head.sequence);
            // The batch is on disk, whatever becomes of this.
            if let Err(error) = connection.keep_wal_bounded().await {
                tracing::warn!(error = &error as &dyn std::error::Error, "Could not empty the write-ahead log");
            }
        }
        Ok(answers)
    }
}

/// The connection, opened anew after a failure; the end of the chain is then read from it.
async fn opened<'a>(
    store: &Store,
    connection: &'a mut Option<WriteConnection>,
    head: &mut Head,
) -> Result<&'a mut WriteConnection, StoreError> {
    match connection {
        Some(connection) => Ok(connection),
        none => {
            let mut connection = store.writer().await?;
            *head = connection.head().await?;
            Ok(none.insert(connection))
        }
    }
}

/// Takes what waits, up to the bounds of a batch.
fn fill(first: Job, queue: &mut mpsc::Receiver<Job>) -> Vec<Job> {
    let mut weight = first.weight;
    let mut jobs = vec![first];
    while jobs.len() < BATCH_COMMANDS && weight < BATCH_BYTES {
        let Ok(job) = queue.try_recv() else { break };
        weight += job.weight;
        jobs.push(job);
    }
    jobs
}
