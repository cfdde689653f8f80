//! Seeing one run through: lease, locks, preparation, execution, record.

use std::time::Duration;

use mosaic_ids::RunId;
use mosaic_proto::broker::v1::run::State;
use mosaic_record::{Refusal, RunStatus, StepFacts, StepState};
use mosaic_rpc::{Reason, RpcError};
use tracing::Instrument as _;

use super::locks::{Claim, Held};
use super::prepare::{Preparation, Step, StepDone, StepFailed};
use super::registry::Ticket;
use super::{Accept, App, projection};
use crate::peers::{Ended, Leased, persist};

/// How often a launcher that takes everything looks for runs that others have queued.
const QUEUE_POLL: Duration = Duration::from_secs(2);

/// How often a runner that can't be reached is tried again.
const RUNNER_POLL: Duration = Duration::from_millis(200);

/// How an attempt to see a run through ended, when not at its terminal record.
#[derive(Debug, thiserror::Error)]
enum GivenUp {
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

/// A step of the preparation could not be taken, or the run is to end instead.
enum Stopped {
    Refused { step: &'static str, refusal: Refusal, message: String },
    Cancelled,
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

/// Says how an attempt to see a run through ended.
fn report(ended: Result<(), GivenUp>) {
    match ended {
        Ok(()) => tracing::info!("A run is over"),
        Err(GivenUp::Ending) => tracing::info!("Left a run in the queue"),
        Err(error) => tracing::warn!(%error, "Gave up a run"),
    }
}

impl App {
    /// Looks at what an earlier launcher of this data root left, and goes on with it.
    ///
    /// # Errors
    /// What the broker answers.
    pub async fn reconcile(&self) -> Result<(), RpcError> {
        // What was live keeps its workspace and session until its sandbox is proven gone: before anything queued is looked at.
        for view in persist(|| self.inner.broker.list(&[State::Preparing, State::Running])).await? {
            let (_, _, spec) = persist(|| self.inner.broker.get(&view.run_id)).await?;
            let held = self.inner.locks.try_take(&view.run_id, &Claim::of(&spec));
            self.take_in_hand(&view.run_id, held.ok());
        }
        if self.inner.accept == Accept::Everything {
            for view in persist(|| self.inner.broker.list(&[State::Queued])).await? {
                self.take_in_hand(&view.run_id, None);
            }
        }
        if self.inner.accept == Accept::Everything {
            let app = self.clone();
            self.inner.work.spawn("queue", async move { app.take_queued().await });
        }
        Ok(())
    }

    async fn take_queued(self) {
        let soft = self.inner.work.soft().clone();
        while soft.run_until_cancelled(tokio::time::sleep(QUEUE_POLL)).await.is_some() {
            match self.inner.broker.list(&[State::Queued]).await {
                Ok(views) => views.iter().for_each(|view| self.take_in_hand(&view.run_id, None)),
                Err(error) => tracing::debug!(%error, "Could not look for queued runs"),
            }
        }
    }

    /// Sees a run through in a task of its own, unless one does so already.
    pub(super) fn take_in_hand(&self, run: &RunId, held: Option<Held>) {
        let Some(ticket) = self.inner.registry.enter(run) else { return };
        let app = self.clone();
        self.inner.work.spawn("supervise", async move { app.supervise(ticket, held).await });
    }

    async fn supervise(self, ticket: Ticket, held: Option<Held>) {
        let run = ticket.run().clone();
        let soft = self.inner.work.soft().clone();
        // A launcher that ends takes nothing new; what waits stays queued for the next one.
        let claim = soft.run_until_cancelled(persist(|| self.inner.broker.claim(&run, &self.inner.holder)));
        let Some(claim) = claim.await else { return };
        match claim {
            Ok(Some(leased)) => {
                let span = run_span(&run, &leased);
                let log = span.clone();
                let ended = self.under_lease(&ticket, leased, held).instrument(span).await;
                log.in_scope(|| report(ended));
            }
            Err(error) if error.refusal() == Some(Refusal::Superseded) => report(Err(GivenUp::Superseded)),
            // Cancelled before anybody had it.
            Ok(None) => report(self.record(&run).await),
            Err(error) => report(Err(error.into())),
        }
    }

    /// Holds the lease while the run is seen through.
    async fn under_lease(&self, ticket: &Ticket, leased: Leased, held: Option<Held>) -> Result<(), GivenUp> {
        let (epoch, term) = (leased.epoch, leased.term);
        let life = async {
            let ended = self.see_through(ticket, leased, held).await;
            if ended.is_ok() {
                persist(|| self.inner.broker.release(ticket.run(), epoch)).await?;
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
                Err(error) if error.reason == Reason::Unavailable => {}
                Err(_lost) => return,
            }
        }
    }

    async fn see_through(&self, ticket: &Ticket, leased: Leased, held: Option<Held>) -> Result<(), GivenUp> {
        let Leased { epoch, view, spec, .. } = leased;
        let run = ticket.run();
        if view.cancel_requested {
            ticket.stop().cancel();
        }
        let claims = Claim::of(&spec);
        let held = match held {
            Some(held) => held,
            None => match self.wait_in_queue(ticket, epoch, &claims, spec.no_wait).await? {
                Some(held) => held,
                None => return self.record(run).await,
            },
        };
        match view.status {
            RunStatus::Queued => {
                let permit = self.inner.live.acquire().await;
                self.prepare_and_run(ticket, epoch, spec).await?;
                drop(permit);
            }
            RunStatus::Preparing => self.resume_preparing(ticket, epoch).await?,
            _ => self.adopt(ticket, epoch).await?,
        }
        self.record(run).await?;
        drop(held);
        Ok(())
    }

    /// Waits for what the run needs for itself; `None` when the run is over instead.
    async fn wait_in_queue(
        &self,
        ticket: &Ticket,
        epoch: i64,
        claims: &[Claim],
        no_wait: bool,
    ) -> Result<Option<Held>, GivenUp> {
        let run = ticket.run();
        let busy = match self.inner.locks.try_take(run, claims) {
            Ok(held) => return Ok(Some(held)),
            Err(busy) => busy,
        };
        if no_wait {
            let message = format!("{busy}; launch without `--no-wait` to wait for it");
            persist(|| self.inner.broker.refuse(run, epoch, Refusal::SessionLive, "locks", &message)).await?;
            return Ok(None);
        }
        let facts = StepFacts { waits_for: Some(busy.claim.to_string()), ..StepFacts::default() };
        persist(|| self.inner.broker.step(run, epoch, "waiting", StepState::Done, &facts)).await?;
        tokio::select! {
            held = self.inner.locks.take(run, claims) => Ok(Some(held)),
            () = ticket.stop().cancelled() => {
                persist(|| self.inner.broker.confirm_cancel(run, epoch)).await?;
                Ok(None)
            }
            () = self.inner.work.soft().cancelled() => Err(GivenUp::Ending),
        }
    }

    async fn prepare_and_run(&self, ticket: &Ticket, epoch: i64, spec: mosaic_record::RunSpec) -> Result<(), GivenUp> {
        let run = ticket.run();
        if persist(|| self.inner.broker.prepare(run, epoch)).await? {
            ticket.stop().cancel();
        }
        let span = tracing::info_span!("prepare", otel.name = "mosaic.launcher.prepare", run.id = %run);
        match self.prepare(ticket, epoch, spec).instrument(span).await? {
            Ok(()) => self.execution(ticket, epoch).await,
            Err(Stopped::Cancelled) => Ok(persist(|| self.inner.broker.confirm_cancel(run, epoch)).await?),
            Err(Stopped::Refused { step, refusal, message }) => {
                tracing::info!(run.id = %run, step, reason = %refusal, "Refused a run");
                Ok(persist(|| self.inner.broker.refuse(run, epoch, refusal, step, &message)).await?)
            }
        }
    }

    /// Takes every step and starts the execution; undoes them in reverse when the run is not to go on.
    async fn prepare(
        &self,
        ticket: &Ticket,
        epoch: i64,
        spec: mosaic_record::RunSpec,
    ) -> Result<Result<(), Stopped>, GivenUp> {
        let adapter = match mosaic_adapters::find(&spec.adapter, &self.adapter_directories()) {
            Ok(adapter) => adapter,
            Err(error) => {
                let (refusal, message) = (error.refusal(), error.to_string());
                return Ok(Err(Stopped::Refused { step: "adapter", refusal, message }));
            }
        };
        let run_id = ticket.run().clone();
        let (root, sandbox_uid) = (self.inner.root.clone(), self.sandbox_uid());
        let preparation = Preparation { run_id, spec, adapter, root, sandbox_uid };
        let mut done = Vec::new();
        let stopped = self.steps(ticket, epoch, &preparation, &mut done).await?;
        if stopped.is_err() {
            for (step, what) in done.iter().rev().filter(|(_, what)| what.has_made()) {
                preparation.undo(*step, what);
                let (facts, name) = (StepFacts::default(), step.name());
                persist(|| self.inner.broker.step(ticket.run(), epoch, name, StepState::Undone, &facts)).await?;
            }
        }
        Ok(stopped)
    }

    async fn steps(
        &self,
        ticket: &Ticket,
        epoch: i64,
        preparation: &Preparation,
        done: &mut Vec<(Step, StepDone)>,
    ) -> Result<Result<(), Stopped>, GivenUp> {
        let run = ticket.run();
        let mut bundle = None;
        for step in preparation.steps() {
            if ticket.stop().is_cancelled() {
                return Ok(Err(Stopped::Cancelled));
            }
            let worker = preparation.clone();
            let taken = tokio::task::spawn_blocking(move || worker.take(step)).await;
            let taken = match taken.map_err(|panic| RpcError::internal(&panic))? {
                Ok(taken) => taken,
                Err(StepFailed { refusal, message }) => {
                    return Ok(Err(Stopped::Refused { step: step.name(), refusal, message }));
                }
            };
            persist(|| self.inner.broker.step(run, epoch, step.name(), StepState::Done, &taken.facts)).await?;
            bundle = taken.facts.bundle_digest.clone().or(bundle);
            done.push((step, taken));
        }
        if ticket.stop().is_cancelled() {
            return Ok(Err(Stopped::Cancelled));
        }
        let bundle = bundle.expect("the step `bundle` yields a digest");
        match persist(|| self.inner.runner.start(run, epoch, &bundle)).await {
            Ok(()) => Ok(Ok(())),
            Err(error) => {
                let refusal = error.refusal().unwrap_or(Refusal::SandboxUnavailable);
                Ok(Err(Stopped::Refused { step: "start", refusal, message: error.message }))
            }
        }
    }

    /// Waits for the end of an execution, and hands on the wish that it should end.
    async fn execution(&self, ticket: &Ticket, epoch: i64) -> Result<(), GivenUp> {
        let run = ticket.run();
        let hand_on_stop = async {
            ticket.stop().cancelled().await;
            if let Err(error) = persist(|| self.inner.runner.stop(run)).await {
                tracing::warn!(run.id = %run, %error, "Could not stop an execution");
            }
            std::future::pending::<()>().await;
        };
        let over = async {
            loop {
                match self.inner.runner.wait(run).await {
                    Ok(Ended::NotYet) => {}
                    Ok(Ended::Reported) => return Ok(()),
                    Ok(Ended::Unknown) => return self.lose(run, epoch).await,
                    // A runner that ends reports first; then the broker knows what it can't answer any more.
                    Err(error) if error.reason == Reason::Unavailable => {
                        if persist(|| self.inner.broker.get(run)).await?.0.status.is_terminal() {
                            return Ok(());
                        }
                        tokio::time::sleep(RUNNER_POLL).await;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        tokio::select! {
            over = over => over,
            () = hand_on_stop => unreachable!("it never ends"),
        }
    }

    /// Ends a run whose execution nobody knows, unless its end is recorded already.
    async fn lose(&self, run: &RunId, epoch: i64) -> Result<(), GivenUp> {
        if persist(|| self.inner.broker.get(run)).await?.0.status.is_terminal() {
            return Ok(());
        }
        Ok(persist(|| self.inner.broker.lose(run, epoch)).await?)
    }

    /// A run that was found running: it goes on under the new epoch, or is lost when nobody knows it.
    async fn adopt(&self, ticket: &Ticket, epoch: i64) -> Result<(), GivenUp> {
        let run = ticket.run();
        let (_, record, _) = persist(|| self.inner.broker.get(run)).await?;
        if let Some(bundle) = &record.bundle_digest {
            match persist(|| self.inner.runner.start(run, epoch, bundle)).await {
                Ok(()) => tracing::info!("Adopted a run"),
                Err(error) => tracing::info!(%error, "Could not adopt a run"),
            }
        }
        self.execution(ticket, epoch).await
    }

    /// A run that was found in preparation: either its execution was started after all, or it is refused.
    async fn resume_preparing(&self, ticket: &Ticket, epoch: i64) -> Result<(), GivenUp> {
        let run = ticket.run();
        if persist(|| self.inner.runner.known(run)).await? {
            return self.adopt(ticket, epoch).await;
        }
        let bundle = self.inner.root.bundle(run);
        if let Err(error) = tokio::fs::remove_dir_all(&bundle).await
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(run.id = %run, %error, "Could not remove the bundle of an interrupted run");
        }
        let message = "the launcher was ended while it prepared the run; launch it again";
        Ok(persist(|| self.inner.broker.refuse(run, epoch, Refusal::Interrupted, "preparing", message)).await?)
    }

    /// Writes what the ledger says of a terminal run.
    async fn record(&self, run: &RunId) -> Result<(), GivenUp> {
        Ok(projection::write_run(&self.inner.broker, &self.inner.root, run).await?)
    }
}
