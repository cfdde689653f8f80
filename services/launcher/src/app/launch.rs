use std::io::Read as _;
use std::path::Path;

use mosaic_config::Business;
use mosaic_ids::{RequestId, RunId};
use mosaic_record::{Actor, Project, Refusal, RunSpec};
use mosaic_rpc::RpcError;
use tracing::Instrument as _;

use super::locks::Claim;
use super::{App, RUNS_IN_HAND};
use crate::domain::admission::{self, Application, Overrides, Refused, Wish, admit};
use crate::domain::retry::{differences, retry_wish};
use crate::intake::{MissionFile, TaskFile};

/// Largest business file that is read, in bytes.
const BUSINESS_BYTES: u64 = 4 * 1024 * 1024;

/// A launch that was recorded.
#[derive(Debug, Clone)]
pub struct Launched {
    /// The run.
    pub run_id: RunId,
    /// False when an earlier call made it.
    pub created: bool,
}

/// What a launch would do.
#[derive(Debug, Clone)]
pub struct Validated {
    /// The spec that would be recorded.
    pub spec: RunSpec,
}

impl App {
    /// Records a run and takes it in hand.
    ///
    /// # Errors
    /// When it is refused before it was recorded, or the broker can't be reached.
    pub async fn launch(&self, request_id: &RequestId, wish: Wish, actor: &Actor) -> Result<Launched, RpcError> {
        self.record_spec(request_id, self.admit_blocking(wish)?, actor).await
    }

    /// Launches a terminal run again, from the snapshots in its record.
    ///
    /// # Errors
    /// When there is no such run or it is not over, and those of [`App::launch`].
    pub async fn retry(
        &self,
        request_id: &RequestId,
        run: &RunId,
        overrides: Overrides,
        no_wait: bool,
        actor: &Actor,
    ) -> Result<Launched, RpcError> {
        let (view, _, before) = self.inner.broker.get(run).await?;
        if !view.status.is_terminal() {
            let message = format!("`{run}` is {}; wait for its end, or stop it first", view.status);
            return Err(RpcError::invalid(message).with("run_id", run));
        }
        if let Some(check) = &before.check {
            let message = format!("`{run}` is a check of the work of `{}`\nhint: mosaic apply {}", check.of, check.of);
            return Err(RpcError::invalid(message).with("run_id", run));
        }
        let spec = self.admit_blocking(retry_wish(&before, overrides, no_wait))?;
        let warnings = differences(&before, &spec);
        let spec = RunSpec { retried_from: Some(run.clone()), warnings, ..spec };
        self.record_spec(request_id, spec, actor).await
    }

    pub(super) async fn record_spec(
        &self,
        request_id: &RequestId,
        spec: RunSpec,
        actor: &Actor,
    ) -> Result<Launched, RpcError> {
        if self.inner.work.soft().is_cancelled() {
            return Err(RpcError::unavailable("the launcher is ending and takes no new runs; try again"));
        }
        if self.inner.registry.len() >= RUNS_IN_HAND {
            let message = format!("{RUNS_IN_HAND} runs are in hand; wait until some have ended");
            return Err(RpcError::unavailable(message));
        }
        self.check_reserve().await?;
        if spec.no_wait
            && let Some(busy) = self.inner.locks.in_the_way(&Claim::of(&spec))
        {
            return Err(RpcError::refused(Refusal::SessionLive, busy.to_string())
                .with("claim", &busy.claim)
                .with("run_id", &busy.by));
        }
        // In a task of its own: a caller that goes away must not leave a recorded run in nobody's hand.
        let (answer, answered) = tokio::sync::oneshot::channel();
        let (app, request_id, actor) = (self.clone(), request_id.clone(), actor.clone());
        self.inner.work.spawn(
            "launch",
            async move {
                let recorded = app.inner.broker.create(&request_id, &spec, &actor).await;
                if let Ok(recorded) = &recorded {
                    app.take_in_hand(&recorded.run_id, None);
                }
                let _gone_away = answer.send(recorded);
            }
            .in_current_span(),
        );
        let ending = || RpcError::unavailable("the launcher is ending; send the same request again");
        let recorded = answered.await.map_err(|_ended| ending())??;
        // It may not have been taken in hand: the same request leads to the same run at the next launcher.
        if self.inner.work.soft().is_cancelled() {
            return Err(ending());
        }
        Ok(Launched { run_id: recorded.run_id, created: recorded.created })
    }

    /// Says what [`App::launch`] would do.
    ///
    /// # Errors
    /// When it would be refused.
    pub fn validate(&self, wish: Wish) -> Result<Validated, RpcError> {
        Ok(Validated { spec: self.admit_blocking(wish)? })
    }

    /// Documents have megabytes, and adapters are read from disk.
    fn admit_blocking(&self, wish: Wish) -> Result<RunSpec, RpcError> {
        tokio::task::block_in_place(|| self.admit(wish))
    }

    fn admit(&self, wish: Wish) -> Result<RunSpec, RpcError> {
        let Wish { task, mission, overrides, no_wait, projects } = wish;
        let wrong = |error: mosaic_config::IntakeError| RpcError::invalid(error.to_string()).with("key", &error.key);
        let task_file = TaskFile::parse(&task).map_err(wrong)?;
        let mission_file = mission.as_ref().map(MissionFile::parse).transpose().map_err(wrong)?;
        match (&task_file.mission, &mission_file) {
            (Some(path), None) => {
                let problem = format!("names `{}`, but no mission was sent with the task", path.as_str());
                return Err(RpcError::invalid(format!("{}: mission: {problem}", task.name)).with("key", "mission"));
            }
            (None, Some(_)) => {
                let problem = "a mission was sent, but the task names none";
                return Err(RpcError::invalid(format!("{}: mission: {problem}", task.name)).with("key", "mission"));
            }
            _ => {}
        }
        let name = overrides.adapter.clone().unwrap_or_else(|| self.inner.config.execution.adapter.clone());
        let adapter = mosaic_adapters::find(&name, &self.adapter_directories())
            .map_err(|error| RpcError::refused(error.refusal(), error.to_string()).with("adapter", &name))?;
        let projects = match projects {
            Some(recorded) => recorded,
            None => self.projects(&task_file, &task.name)?,
        };
        let traceparent = mosaic_telemetry::current_traceparent().map(|parent| parent.to_string());
        let application =
            Application { task, mission, task_file, mission_file, adapter, overrides, no_wait, traceparent, projects };
        admit(application, &self.inner.config)
            .map_err(|Refused { refusal, message }| RpcError::refused(refusal, message))
    }

    /// The projects that a task names, as the business file has them now.
    fn projects(&self, task: &TaskFile, document: &str) -> Result<Vec<Project>, RpcError> {
        if task.projects.is_none() {
            return Ok(Vec::new());
        }
        let business = self.inner.config.business.as_deref().map(read_business).transpose()?;
        let found = admission::projects(task, document, business.as_ref());
        found.map_err(|Refused { refusal, message }| RpcError::refused(refusal, message))
    }
}

/// Reads the business file.
pub(super) fn read_business(path: &Path) -> Result<Business, RpcError> {
    let invalid = |problem: String| RpcError::refused(Refusal::InvalidConfig, problem).with("path", path.display());
    let document = path.display().to_string();
    let mut text = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(BUSINESS_BYTES + 1).read_to_string(&mut text));
    read.map_err(|error| invalid(format!("can't read the business file `{document}`: {error}")))?;
    if text.len() as u64 > BUSINESS_BYTES {
        return Err(invalid(format!("the business file `{document}` has more than {BUSINESS_BYTES} bytes")));
    }
    Business::parse(&document, &text).map_err(|error| invalid(error.to_string()))
}
