//! Seeing one run through under a lease: queue, preparation, execution, record.

use std::sync::Arc;
use std::time::Duration;

use mosaic_adapters::AdapterError;
use mosaic_ids::RunId;
use mosaic_record::{Refusal, RunSpec, RunStatus, StepFacts, StepState};
use mosaic_rpc::{Reason, RpcError};
use tracing::Instrument as _;

use super::locks::{Claim, Held};
use super::prepare::{Places, Preparation, Step, StepFailed};
use super::registry::Ticket;
use super::supervise::GivenUp;
use super::{App, checkouts, projection};
use crate::domain::disk::Room;
use crate::peers::{Ended, Leased, persist};

/// How often a runner that can't be reached is tried again.
const RUNNER_POLL: Duration = Duration::from_millis(200);

/// The run is not to be started.
enum Stopped {
    Refused { step: &'static str, refusal: Refusal, message: String },
    Cancelled,
}

impl App {
    pub(super) async fn see_through(
        &self,
        ticket: &Ticket,
        leased: Leased,
        held: &mut Option<Held>,
    ) -> Result<(), GivenUp> {
        let Leased { epoch, view, spec, .. } = leased;
        if view.cancel_requested {
            ticket.stop().cancel();
        }
        if held.is_none() {
            *held = match view.status.is_terminal() {
                true => Some(self.wait_for_harvest(ticket.run(), &Claim::of(&spec)).await?),
                false => self.wait_in_queue(ticket, epoch, &Claim::of(&spec), spec.no_wait).await?,
            };
        }
        if held.is_some() {
            let has_clones = !spec.projects.is_empty();
            match view.status {
                RunStatus::Queued => self.prepare_and_run(ticket, epoch, spec).await?,
                RunStatus::Preparing => self.resume_preparing(ticket, epoch, spec).await?,
                RunStatus::Running => self.adopt(ticket, epoch).await?,
                _awaits_its_harvest => {}
            }
            // The run is over and the sandbox is gone.
            if has_clones {
                self.harvest(ticket.run(), epoch).await?;
            }
        }
        checkouts::forget(&self.inner.root, ticket.run());
        *held = None;
        self.record(ticket.run()).await
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
        let place = self.inner.locks.enter(run, claims);
        let facts = StepFacts { waits_for: Some(busy.claim.to_string()), ..StepFacts::default() };
        persist(|| self.inner.broker.step(run, epoch, "waiting", StepState::Done, &facts)).await?;
        tokio::select! {
            held = place.take() => Ok(Some(held)),
            () = ticket.stop().cancelled() => {
                self.confirm_cancel(run, epoch).await?;
                Ok(None)
            }
            () = self.inner.work.soft().cancelled() => Err(GivenUp::Ending),
        }
    }

    /// Waits for what a run had for itself, and needs again for its harvest.
    async fn wait_for_harvest(&self, run: &RunId, claims: &[Claim]) -> Result<Held, GivenUp> {
        let place = self.inner.locks.enter(run, claims);
        self.inner.work.soft().run_until_cancelled(place.take()).await.ok_or(GivenUp::Ending)
    }

    async fn prepare_and_run(&self, ticket: &Ticket, epoch: i64, spec: RunSpec) -> Result<(), GivenUp> {
        let run = ticket.run();
        let _permit = tokio::select! {
            biased;
            () = ticket.stop().cancelled() => {
                return self.confirm_cancel(run, epoch).await;
            }
            () = self.inner.work.soft().cancelled() => return Err(GivenUp::Ending),
            permit = self.inner.live.acquire() => permit,
        };
        if persist(|| self.inner.broker.prepare(run, epoch)).await? {
            ticket.stop().cancel();
        }
        let span = tracing::info_span!("prepare", otel.name = "mosaic.launcher.prepare", run.id = %run);
        match self.prepare(ticket, epoch, spec).instrument(span).await? {
            Ok(()) => self.execution(ticket, epoch).await,
            Err(Stopped::Cancelled) => self.confirm_cancel(run, epoch).await,
            Err(Stopped::Refused { step, refusal, message }) => {
                tracing::info!(step, reason = %refusal, "Refused a run");
                Ok(persist(|| self.inner.broker.refuse(run, epoch, refusal, step, &message)).await?)
            }
        }
    }

    /// Takes every step and starts the execution; undoes them in reverse when the run is not to go on.
    async fn prepare(&self, ticket: &Ticket, epoch: i64, spec: RunSpec) -> Result<Result<(), Stopped>, GivenUp> {
        if let Some(message) = self.low_disk(Room::Low).await {
            return Ok(Err(Stopped::Refused { step: "disk", refusal: Refusal::DiskLow, message }));
        }
        let found = match &spec.check {
            Some(check) => crate::domain::check::adapter(check).map_err(AdapterError::from),
            None => mosaic_adapters::find(&spec.adapter, &self.adapter_directories()),
        };
        let adapter = match found {
            Ok(adapter) => adapter,
            Err(error) => {
                let (refusal, message) = (error.refusal(), error.to_string());
                return Ok(Err(Stopped::Refused { step: "adapter", refusal, message }));
            }
        };
        let places = Places { run_id: ticket.run().clone(), root: self.inner.root.clone(), spec };
        let (sandbox_uid, checkouts) = (self.inner.config.sandbox_uid(), Arc::clone(&self.inner.checkouts));
        let left = self.left_by_session(&places).await?;
        let preparation = Preparation { places, adapter, sandbox_uid, checkouts, left, changed: Vec::new() };
        let mut made = Vec::new();
        let stopped = self.steps(ticket, epoch, &preparation, &mut made).await?;
        if stopped.is_err() {
            self.undo(&preparation.places, epoch, &made).await?;
        }
        Ok(stopped)
    }

    async fn steps(
        &self,
        ticket: &Ticket,
        epoch: i64,
        preparation: &Preparation,
        made: &mut Vec<Step>,
    ) -> Result<Result<(), Stopped>, GivenUp> {
        let run = ticket.run();
        let mut preparation = preparation.clone();
        let mut bundle = None;
        for step in preparation.places.steps() {
            if ticket.stop().is_cancelled() {
                return Ok(Err(Stopped::Cancelled));
            }
            let (worker, marks) = (preparation.clone(), self.inner.marks.clone());
            let taken = blocking(move || {
                if worker.places.is_missing(step) {
                    marks.begin(&worker.places.run_id, step);
                }
                worker.take(step)
            })
            .await?;
            let facts = match taken {
                Ok(facts) => facts,
                Err(StepFailed { refusal, message }) => {
                    return Ok(Err(Stopped::Refused { step: step.name(), refusal, message }));
                }
            };
            if facts.made {
                made.push(step);
            }
            persist(|| self.inner.broker.step(run, epoch, step.name(), StepState::Done, &facts)).await?;
            if let Some(left) = &preparation.left {
                preparation.changed.extend(left.changed(&facts.checkouts));
            }
            bundle = facts.bundle_digest.or(bundle);
        }
        let bundle = bundle.expect("the step `bundle` yields a digest");
        loop {
            if ticket.stop().is_cancelled() {
                return Ok(Err(Stopped::Cancelled));
            }
            let (step, ending) = ("start", self.inner.work.soft().is_cancelled());
            match self.inner.runner.start(run, epoch, &bundle).await {
                Ok(()) => return Ok(Ok(())),
                Err(error) if error.reason == Reason::Unavailable && !ending => tokio::time::sleep(RUNNER_POLL).await,
                Err(error) if error.reason == Reason::Unavailable => {
                    let message = "the host ended before the run was started; launch it again".to_owned();
                    return Ok(Err(Stopped::Refused { step, refusal: Refusal::Interrupted, message }));
                }
                Err(error) => {
                    let refusal = error.refusal().unwrap_or(Refusal::SandboxUnavailable);
                    return Ok(Err(Stopped::Refused { step, refusal, message: error.message }));
                }
            }
        }
    }

    /// Undoes what steps have made, in reverse.
    async fn undo(&self, places: &Places, epoch: i64, made: &[Step]) -> Result<(), GivenUp> {
        for &step in made.iter().rev() {
            let worker = places.clone();
            blocking(move || worker.undo(step)).await?;
            let facts = StepFacts::default();
            persist(|| self.inner.broker.step(&places.run_id, epoch, step.name(), StepState::Undone, &facts)).await?;
        }
        Ok(())
    }

    /// Ends a run that has not run as cancelled; a wish that was taken without the broker is recorded first.
    async fn confirm_cancel(&self, run: &RunId, epoch: i64) -> Result<(), GivenUp> {
        if let Some(actor) = self.inner.marks.read(run).stop {
            persist(|| self.inner.broker.cancel(run, &actor)).await?;
        }
        Ok(persist(|| self.inner.broker.confirm_cancel(run, epoch)).await?)
    }

    /// Waits for the end of an execution, and hands on the wish that it should end.
    async fn execution(&self, ticket: &Ticket, epoch: i64) -> Result<(), GivenUp> {
        let run = ticket.run();
        let hand_on_stop = async {
            ticket.stop().cancelled().await;
            if let Err(error) = persist(|| self.inner.runner.stop(run)).await {
                tracing::warn!(%error, "Could not stop an execution");
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

    /// A run that was found in preparation: either its execution was started after all, or it is refused and what its steps
    /// had made is undone.
    async fn resume_preparing(&self, ticket: &Ticket, epoch: i64, spec: RunSpec) -> Result<(), GivenUp> {
        let run = ticket.run();
        if persist(|| self.inner.runner.known(run)).await? {
            return self.adopt(ticket, epoch).await;
        }
        let recorded = persist(|| self.inner.broker.made_steps(run)).await?;
        let begun = self.inner.marks.read(run).begun;
        // A step that was begun may have made something without having been recorded.
        let is_made = |step: &Step| begun.contains(step) || recorded.iter().any(|name| name == step.name());
        let made: Vec<Step> = Step::ALL.into_iter().filter(is_made).collect();
        let places = Places { run_id: run.clone(), root: self.inner.root.clone(), spec };
        self.undo(&places, epoch, &made).await?;
        let message = "the launcher was ended while it prepared the run; launch it again";
        Ok(persist(|| self.inner.broker.refuse(run, epoch, Refusal::Interrupted, "preparing", message)).await?)
    }

    /// Writes what the ledger says of a terminal run.
    pub(super) async fn record(&self, run: &RunId) -> Result<(), GivenUp> {
        projection::write_run(&self.inner.broker, &self.inner.root, run).await?;
        Ok(())
    }
}

/// Does what blocks on the file system where no other call waits for it.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, RpcError> {
    tokio::task::spawn_blocking(work).await.map_err(|panic| RpcError::internal(&panic))
}
