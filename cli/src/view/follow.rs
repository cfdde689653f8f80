//! Following a run: its events from the broker and its output from the runner, as one stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use mosaic_ids::RunId;
use mosaic_proto::broker::v1 as broker;
use mosaic_proto::launcher::v1 as launcher;
use mosaic_proto::runner::v1 as runner;
use mosaic_record::RunEvent;
use mosaic_rpc::{Reason, RpcError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::client::Client;
use crate::exit::Failure;
use crate::host::attach::attach_any;
use crate::settings::Settings;

/// Items that may wait for whoever shows them.
const WAITING_ITEMS: usize = 64;
/// How often a lost host is looked for again.
const REATTACH_LIMIT: usize = 20;
/// How long to wait before it is.
const REATTACH_WAIT: Duration = Duration::from_millis(250);

/// One of the adapter's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// The response.
    Stdout,
    /// Diagnostics.
    Stderr,
}

impl Stream {
    /// Its name.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Something that happened, or was written.
#[derive(Debug)]
pub(crate) enum Item {
    /// An event.
    Event(Box<Event>),
    /// Bytes that the adapter wrote.
    Output {
        /// Where to.
        stream: Stream,
        /// Offset of the first byte.
        offset: i64,
        /// Bytes dropped before it.
        dropped: i64,
        /// The bytes.
        data: Vec<u8>,
    },
}

/// An event, read.
#[derive(Debug)]
pub(crate) struct Event {
    /// As it was sent.
    pub raw: broker::Event,
    /// What it says.
    pub payload: RunEvent,
}

/// Follows a run from the event `from` on until it is terminal and all of its output was handed over. The stream ends
/// with an error when its host is lost for good.
#[must_use]
pub(crate) fn follow(
    settings: &Settings,
    client: Client,
    run: &RunId,
    from: i64,
) -> mpsc::Receiver<Result<Item, Failure>> {
    let (items, receiver) = mpsc::channel(WAITING_ITEMS);
    let follower =
        Follower { settings: settings.clone(), client, run: run.clone(), items, offsets: Offsets::default() };
    tokio::spawn(follower.follow(from));
    receiver
}

struct Follower {
    settings: Settings,
    client: Client,
    run: RunId,
    items: mpsc::Sender<Result<Item, Failure>>,
    offsets: Offsets,
}

/// How far each stream was handed over; what a tail goes on from after its host was lost.
#[derive(Debug, Clone, Default)]
struct Offsets {
    stdout: Arc<AtomicI64>,
    stderr: Arc<AtomicI64>,
}

impl Offsets {
    fn of(&self, stream: Stream) -> &Arc<AtomicI64> {
        match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        }
    }
}

impl Follower {
    async fn follow(mut self, from: i64) {
        let mut next = from;
        let mut tails = JoinSet::new();
        let mut failures = 0;
        while failures < REATTACH_LIMIT {
            let before = next;
            match self.events(&mut next, &mut tails).await {
                Ok(()) => {
                    while tails.join_next().await.is_some() {}
                    return;
                }
                Err(error) if error.reason == Reason::Unavailable => {
                    failures = if next > before { 0 } else { failures + 1 };
                    tails.shutdown().await;
                    tokio::time::sleep(REATTACH_WAIT).await;
                    match attach_any(&self.settings).await {
                        Ok(client) => self.client = client,
                        Err(failure) => return self.fail(failure).await,
                    }
                }
                Err(error) => return self.fail(error.into()).await,
            }
        }
        self.fail(Failure::unreachable("the host was lost again and again")).await;
    }

    /// Whoever hosts now takes the run in hand, if it was left in the queue.
    async fn have_taken(&mut self) {
        let no_time = Some(prost_types::Duration::default());
        let request = launcher::AwaitRunRequest { run_id: self.run.to_string(), timeout: no_time };
        if let Err(error) = self.client.launches.await_run(request).await {
            tracing::debug!(%error, "Could not ask for the run");
        }
    }

    async fn fail(&self, failure: Failure) {
        // Nobody listens any more: then nobody needs to know.
        let _gone = self.items.send(Err(failure)).await;
    }

    /// Hands over events until the run is terminal.
    async fn events(&mut self, next: &mut i64, tails: &mut JoinSet<()>) -> Result<(), RpcError> {
        let request = broker::WatchRunRequest { run_id: self.run.to_string(), from_sequence: *next };
        let mut stream = self.client.runs.watch_run(request).await.map_err(failed)?.into_inner();
        // After the stream was opened: whoever hosts may be another one by now than the one that launched, also where no
        // connection was seen to break, and a host that ends from here on ends the stream.
        self.have_taken().await;
        let mut tails_begun = false;
        if *next > 0 && self.has_run().await? {
            tails_begun = true;
            self.begin_tails(tails);
        }
        while let Some(response) = stream.message().await.map_err(failed)? {
            let Some(raw) = response.event else { continue };
            *next = raw.sequence + 1;
            let payload: RunEvent = serde_json::from_str(&raw.payload).map_err(|error| RpcError::internal(&error))?;
            let has_run = payload.is_report();
            if self.items.send(Ok(Item::Event(Box::new(Event { raw, payload })))).await.is_err() {
                return Ok(());
            }
            if has_run && !tails_begun {
                tails_begun = true;
                self.begin_tails(tails);
            }
        }
        Ok(())
    }

    /// True when the run's adapter was started: the event that says so may lie before those that are asked for.
    async fn has_run(&mut self) -> Result<bool, RpcError> {
        let request = broker::GetRunRequest { run_id: self.run.to_string() };
        let run = self.client.runs.get_run(request).await.map_err(failed)?.into_inner().run.unwrap_or_default();
        Ok(run.start_time.is_some())
    }

    fn begin_tails(&self, tails: &mut JoinSet<()>) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let (client, run, items) = (self.client.clone(), self.run.clone(), self.items.clone());
            let at = Arc::clone(self.offsets.of(stream));
            tails.spawn(async move {
                if let Err(error) = tail(client, &run, stream, &items, &at).await {
                    tracing::debug!(%error, stream = stream.name(), "Could not follow the output");
                }
            });
        }
    }
}

async fn tail(
    mut client: Client,
    run: &RunId,
    stream: Stream,
    items: &mpsc::Sender<Result<Item, Failure>>,
    at: &AtomicI64,
) -> Result<(), RpcError> {
    let which = match stream {
        Stream::Stdout => runner::tail_output_request::Stream::Stdout,
        Stream::Stderr => runner::tail_output_request::Stream::Stderr,
    };
    let offset = at.load(Ordering::Relaxed);
    let request = runner::TailOutputRequest { run_id: run.to_string(), stream: which.into(), offset, follow: true };
    let mut chunks = client.executions.tail_output(request).await.map_err(failed)?.into_inner();
    while let Some(chunk) = chunks.message().await.map_err(failed)? {
        let runner::TailOutputResponse { offset, dropped, data } = chunk;
        let end = offset.saturating_add(i64::try_from(data.len()).unwrap_or(i64::MAX));
        if items.send(Ok(Item::Output { stream, offset, dropped, data })).await.is_err() {
            return Ok(());
        }
        at.store(end, Ordering::Relaxed);
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "the form that `map_err` takes")]
fn failed(status: tonic::Status) -> RpcError {
    RpcError::from_status(&status)
}
