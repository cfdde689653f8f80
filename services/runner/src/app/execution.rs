use std::sync::Mutex;

use mosaic_ids::RunId;
use mosaic_record::RunEvent;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::AppError;
use crate::capture::Reader;
use crate::store::Spool;

/// Where an execution is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// The sandbox is being made.
    Starting,
    /// The adapter runs.
    Running,
    /// The end was asked for, or the turn is over.
    Ending,
    /// The sandbox is proven gone.
    Ended,
    /// Nothing ran.
    NotStarted(AppError),
}

/// What others see of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Status {
    /// Where it is.
    pub(crate) state: State,
    /// The epoch that it works under.
    pub(crate) epoch: i64,
    /// Name of the sandbox; empty before it has one.
    pub(crate) sandbox: String,
    /// True once the broker has the terminal report.
    pub(crate) reported: bool,
}

/// Why waiting for a change of an execution can't fail.
const HELD: &str = "the execution holds the sender";

/// One execution: what its task, its reporter and its callers share.
#[derive(Debug)]
pub(crate) struct Execution {
    /// The run.
    pub(crate) run: RunId,
    is_inherited: bool,
    status: watch::Sender<Status>,
    stop: CancellationToken,
    revoked: CancellationToken,
    streams: Mutex<Option<Streams>>,
    spool: Mutex<Option<Spool>>,
    /// Number of the last report that is spooled.
    spooled: watch::Sender<i64>,
}

/// What the adapter writes.
#[derive(Debug)]
struct Streams {
    stdout: Reader,
    stderr: Reader,
}

impl Execution {
    /// An execution that is about to be made.
    pub(crate) fn new(run: RunId, epoch: i64) -> Self {
        Self::at(State::Starting, run, epoch)
    }

    /// One that an earlier life of this runner left, and whose sandbox is not proven gone yet.
    pub(crate) fn inherited(run: RunId, epoch: i64) -> Self {
        Self { is_inherited: true, ..Self::at(State::Ending, run, epoch) }
    }

    fn at(state: State, run: RunId, epoch: i64) -> Self {
        let status = Status { state, epoch, sandbox: String::new(), reported: false };
        Self {
            run,
            is_inherited: false,
            status: watch::Sender::new(status),
            stop: CancellationToken::new(),
            revoked: CancellationToken::new(),
            streams: Mutex::default(),
            spool: Mutex::default(),
            spooled: watch::Sender::new(0),
        }
    }

    /// What it is now.
    pub(crate) fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// True when an earlier life of this runner made it.
    pub(crate) const fn is_inherited(&self) -> bool {
        self.is_inherited
    }

    /// Changes what others see.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Status)) {
        self.status.send_modify(change);
    }

    /// Returns when it runs, or why it never will.
    pub(crate) async fn started(&self) -> Result<(), AppError> {
        let mut status = self.status.subscribe();
        let status = status.wait_for(|status| status.state != State::Starting).await.expect(HELD);
        match &status.state {
            State::NotStarted(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Returns when it works under a higher epoch than `epoch`.
    pub(crate) async fn adopted_above(&self, epoch: i64) {
        let mut status = self.status.subscribe();
        status.wait_for(|status| status.epoch > epoch).await.expect(HELD);
    }

    /// Returns when the broker has the terminal report.
    pub(crate) async fn reported(&self) {
        let mut status = self.status.subscribe();
        status.wait_for(|status| status.reported).await.expect(HELD);
    }

    /// Returns when the sandbox is gone.
    pub(crate) async fn ended(&self) {
        let is_over = |status: &Status| matches!(status.state, State::NotStarted(_) | State::Ended);
        let mut status = self.status.subscribe();
        status.wait_for(is_over).await.expect(HELD);
    }

    /// Asks for its end.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Cancelled when somebody has asked for its end.
    pub(crate) const fn stop_asked(&self) -> &CancellationToken {
        &self.stop
    }

    /// Takes away its right to run: its lease is over.
    pub(crate) fn revoke(&self) {
        self.revoked.cancel();
    }

    /// Cancelled when its lease is over.
    pub(crate) const fn revoked(&self) -> &CancellationToken {
        &self.revoked
    }

    /// Lets others read what the adapter writes.
    pub(crate) fn publish_streams(&self, stdout: Reader, stderr: Reader) {
        *self.streams.lock().expect("never poisoned") = Some(Streams { stdout, stderr });
    }

    /// Readers of standard output and standard error; `None` where nothing was captured.
    pub(crate) fn streams(&self) -> Option<(Reader, Reader)> {
        let streams = self.streams.lock().expect("never poisoned");
        streams.as_ref().map(|streams| (streams.stdout.clone(), streams.stderr.clone()))
    }

    /// Begins to keep reports.
    pub(crate) fn open_spool(&self, spool: Spool) {
        self.spooled.send_replace(spool.last_number());
        *self.spool.lock().expect("never poisoned") = Some(spool);
    }

    /// Spools a report.
    pub(crate) fn report(&self, time: jiff::Timestamp, event: RunEvent) {
        let mut spool = self.spool.lock().expect("never poisoned");
        let spool = spool.as_mut().expect("the spool is opened before anything is reported");
        spool.append(time, event);
        self.spooled.send_replace(spool.last_number());
    }

    /// Looks at the spool.
    pub(crate) fn with_spool<T>(&self, look: impl FnOnce(&Spool) -> T) -> Option<T> {
        self.spool.lock().expect("never poisoned").as_ref().map(look)
    }

    /// Number of the last report that is spooled.
    pub(crate) fn spooled(&self) -> watch::Receiver<i64> {
        self.spooled.subscribe()
    }
}
