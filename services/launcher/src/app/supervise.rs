//! Having a run in hand: under a lease, again and again, until it is over.

use std::time::Duration;

use mosaic_ids::RunId;
use mosaic_proto::broker::v1::run::State;
use mosaic_record::{Refusal, RunStatus};
use mosaic_rpc::{Reason, RpcError};
use tracing::Instrument as _;

use super::locks::{Claim, Held};
use super::registry::Ticket;
use super::{Accept, App, RUNS_IN_HAND};
use crate::peers::{Leased, RunView, persist};

/// How often a launcher that takes everything looks for runs that it does not have in hand.
const QUEUE_POLL: Duration = Duration::from_secs(2);
/// How long the first pause before another attempt is, and how long a pause gets.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How an attempt to see a run through ended, when not at its terminal record.
#[derive(Debug, thiserror::Error)]
pub(super) enum GivenUp {
    /// The lease is somebody else's.
    #[error("another launcher has taken the run")]
    Superseded,
    /// The launcher ends; the run stays queued for the next one.
    #[error("the launcher ends")]
    Ending,
    /// The broker or the runner answered what can't be gone on with.
    #[error(transparent)]
    Rpc(#[from] RpcError),
}

/// The span of seeing one run through, in the trace of its launch.
fn run_span(run: &RunId, leased: &Leased) -> tracing::Span {
    let parent = leased.spec.traceparent.as_deref().and_then(|text| text.parse::<mosaic_telemetry::Traceparent>().ok());
    let trace = parent.as_ref().map(mosaic_telemetry::Traceparent::trace_id).unwrap_or_default();
    let span = tracing::info_span!("run", otel.name = "mosaic.launcher.supervise", run.id = %run, trace.id = trace);
    if let Some(parent) = &parent {
        mosaic_telemetry::follow(&span, parent);
    }
    span
}

impl App {
    /// Looks at what an earlier launcher of this data root left, and goes on with it.
    ///
    /// # Errors
    /// What the broker answers.
    pub async fn reconcile(&self) -> Result<(), RpcError> {
        super::integrate::remove_left(&self.inner.root);
        // What was live keeps its workspace and session until its sandbox is proven gone: before anything queued is looked at.
        // So does what ended, until it is harvested.
        let mut live = persist(|| self.inner.broker.to_harvest()).await?;
        live.extend(persist(|| self.inner.broker.list(&[State::Preparing, State::Running])).await?);
        for view in live {
            let held = match persist(|| self.inner.broker.get(&view.run_id)).await {
                Ok((_, _, spec)) => self.inner.locks.try_take(&view.run_id, &Claim::of(&spec)).ok(),
                Err(error) => {
                    tracing::error!(run.id = %view.run_id, %error, "A live run can't be read");
                    None
                }
            };
            self.take_in_hand(&view.run_id, held);
        }
        for run in self.inner.marks.all().map_err(|error| RpcError::internal(&error))? {
            self.take_up_marked(&run).await?;
        }
        if self.inner.accept == Accept::Everything {
            let app = self.clone();
            self.inner.work.spawn("queue", async move { app.take_queued().await });
        }
        Ok(())
    }

    /// Goes on with what an earlier launcher has left half done of a run that is not live: its files, or a wish.
    async fn take_up_marked(&self, run: &RunId) -> Result<(), RpcError> {
        if self.inner.registry.has(run) {
            return Ok(());
        }
        match persist(|| self.inner.broker.get(run)).await {
            // Left in the queue, for whoever takes what is queued.
            Ok((view, ..))
                if view.status == RunStatus::Queued
                    && self.inner.accept == Accept::OwnLaunches
                    && self.inner.marks.read(run).stop.is_none() => {}
            Ok(_) => self.take_in_hand(run, None),
            Err(error) if error.reason == Reason::NotFound => self.inner.marks.remove(run),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn take_queued(self) {
        let soft = self.inner.work.soft().clone();
        loop {
            match self.inner.broker.list(&[State::Queued]).await {
                Ok(views) => self.take_some(&views),
                Err(error) => tracing::debug!(%error, "Could not look for queued runs"),
            }
            if soft.run_until_cancelled(tokio::time::sleep(QUEUE_POLL)).await.is_none() {
                return;
            }
        }
    }

    /// Takes the oldest runs in hand, as many as it may have.
    fn take_some(&self, views: &[RunView]) {
        let room = RUNS_IN_HAND.saturating_sub(self.inner.registry.len());
        views.iter().take(room).for_each(|view| self.take_in_hand(&view.run_id, None));
    }

    /// Sees a run through in a task of its own, unless one does so already.
    pub(super) fn take_in_hand(&self, run: &RunId, held: Option<Held>) {
        let Some(ticket) = self.inner.registry.enter(run) else { return };
        if let Some(actor) = self.inner.marks.read(run).stop {
            ticket.stop().cancel();
            self.record_wish(run, actor);
        }
        self.inner.marks.put(run);
        let app = self.clone();
        self.inner.work.spawn("supervise", async move { app.supervise(ticket, held).await });
    }

    async fn supervise(self, ticket: Ticket, mut held: Option<Held>) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.attempt(&ticket, &mut held).await {
                Ok(()) => return self.inner.marks.remove(ticket.run()),
                Err(GivenUp::Ending) => return tracing::info!(run.id = %ticket.run(), "Left a run in the queue"),
                Err(GivenUp::Superseded) if held.is_none() => return self.inner.marks.remove(ticket.run()),
                Err(GivenUp::Rpc(error)) if error.reason == Reason::NotFound && held.is_none() => {
                    tracing::warn!(run.id = %ticket.run(), %error, "There is no such run");
                    return self.inner.marks.remove(ticket.run());
                }
                Err(error) => tracing::warn!(run.id = %ticket.run(), %error, "Trying again to see a run through"),
            }
            // What the run has for itself stays its own meanwhile: its sandbox may live.
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Claims the run and sees it through under that lease.
    async fn attempt(&self, ticket: &Ticket, held: &mut Option<Held>) -> Result<(), GivenUp> {
        let run = ticket.run();
        let claim = persist(|| self.inner.broker.claim(run, &self.inner.holder));
        // A launcher that ends takes nothing new; what waits stays queued for the next one.
        let claimed = match held {
            Some(_) => claim.await,
            None => self.inner.work.soft().run_until_cancelled(claim).await.ok_or(GivenUp::Ending)?,
        };
        match claimed {
            Ok(Some(leased)) => {
                let span = run_span(run, &leased);
                self.under_lease(ticket, leased, held).instrument(span).await
            }
            // It is over already.
            Ok(None) => self.record(run).await,
            Err(error) if error.refusal() == Some(Refusal::Superseded) => Err(GivenUp::Superseded),
            Err(error) => Err(error.into()),
        }
    }

    /// Holds the lease while the run is seen through.
    async fn under_lease(&self, ticket: &Ticket, leased: Leased, held: &mut Option<Held>) -> Result<(), GivenUp> {
        let (epoch, term) = (leased.epoch, leased.term);
        let life = async {
            let ended = Box::pin(self.see_through(ticket, leased, held)).await;
            if matches!(ended, Ok(()) | Err(GivenUp::Ending)) {
                persist(|| self.inner.broker.release(ticket.run(), epoch)).await?;
            }
            if ended.is_ok() {
                tracing::info!("A run is over");
            }
            ended
        };
        tokio::select! {
            ended = life => ended,
            () = self.keep_lease(ticket, epoch, term) => Err(GivenUp::Superseded),
        }
    }

    /// Renews the lease until it is lost. Learns here, too, that somebody has asked for the end of the run.
    async fn keep_lease(&self, ticket: &Ticket, epoch: i64, term: Duration) {
        loop {
            tokio::time::sleep(term / 3).await;
            match self.inner.broker.renew(ticket.run(), epoch).await {
                Ok(true) => ticket.stop().cancel(),
                Ok(false) => {}
                Err(error) if matches!(error.reason, Reason::Unavailable | Reason::Internal) => {}
                Err(_lost) => return,
            }
        }
    }
}
