//! Integration: work that was taken out of a clone, on a branch of its root, checked, and handed to a person.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::Duration;

use mosaic_checkout::{About, IntegrateError, Integrated, MirrorError, Onto, Recorded, integrate};
use mosaic_config::Check;
use mosaic_data_root::DataRoot;
use mosaic_ids::{Digest, Name, RequestId, RunId};
use mosaic_lifecycle::error_chain;
use mosaic_record::{
    Actor, CheckResult, CheckSpec, Integration, Project, Refusal, RunRecord, RunSpec, RunStatus, Work,
};
use mosaic_rpc::RpcError;
use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc::Sender;
use tracing::Instrument as _;

use super::App;
use super::launch::read_business;
use super::see_through::blocking;
use crate::domain::check;
use crate::peers::persist;

/// Most checks of one integration.
const CHECKS: usize = 32;
/// Age from which on the result of an integration is nobody's: longer than all of its checks may take.
const LEFT: Duration = Duration::from_secs(48 * 3600);
/// Bytes of a bundle in one message.
const CHUNK_BYTES: usize = 256 * 1024;

/// What is to be put where.
#[derive(Debug, Clone)]
pub struct IntegrateOrder {
    /// The run.
    pub run: RunId,
    /// The project; absent when the run had one.
    pub project: Option<Name>,
    /// What the work is put onto.
    pub onto: Onto,
    /// Names of checks, in the order in which they run.
    pub checks: Vec<Name>,
    /// Who asked for it.
    pub actor: Actor,
}

/// What there is to tell of an integration.
#[derive(Debug, Clone)]
pub enum Told {
    /// The work is on the branch.
    Work {
        /// The project, with its root.
        project: Project,
        /// The work, as the harvest recorded it.
        commit: String,
        /// What came of it.
        integrated: Box<Integrated>,
    },
    /// A check was started.
    Started(Name, RunId),
    /// A check ended.
    Ended(CheckResult, Option<String>),
    /// The next bytes of the bundle.
    Chunk(Vec<u8>),
    /// Both sides changed these paths; the last thing that is told.
    Conflicts(Vec<String>),
    /// A check failed; the last thing that is told.
    ChecksFailed,
    /// The branch has all of it; the last thing that is told.
    Nothing,
    /// All of the bundle was told; the last thing that is told.
    HandedOut,
}

/// Where progress goes; closed when the caller has gone away.
type Progress = Sender<Result<Told, RpcError>>;

/// Why an integration did not go on.
enum Stopped {
    /// With an answer that has been told.
    Told,
    /// With an error.
    Failed(RpcError),
}

impl From<RpcError> for Stopped {
    fn from(error: RpcError) -> Self {
        Self::Failed(error)
    }
}

impl App {
    /// Integrates, and tells how it goes.
    pub fn spawn_integrate(&self, order: IntegrateOrder, progress: Progress) {
        let app = self.clone();
        let span = tracing::info_span!("integrate", otel.name = "mosaic.launcher.integrate", run.id = %order.run);
        self.inner.work.spawn(
            "integrate",
            async move {
                if let Err(Stopped::Failed(error)) = app.integrate(order, &progress).await {
                    let _gone_away = progress.send(Err(error)).await;
                }
            }
            .instrument(span),
        );
    }

    async fn integrate(&self, order: IntegrateOrder, progress: &Progress) -> Result<(), Stopped> {
        let (_, record, spec) = self.inner.broker.get(&order.run).await?;
        let (project, work) = chosen(&record, &spec, order.project.as_ref())?;
        let checks = self.checks(&order.checks)?;
        let bundle = self.inner.root.integrations().join(format!("{}.bundle", uuid::Uuid::now_v7()));
        let result = self.put_and_check(&order, (&project, &work, &record), checks, &bundle, progress).await;
        let removed = std::fs::remove_file(&bundle);
        if let Err(error) = removed.or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        }) {
            tracing::warn!(%error, "Could not remove a bundle");
        }
        result
    }

    async fn put_and_check(
        &self,
        order: &IntegrateOrder,
        (project, work, record): (&Project, &Work, &RunRecord),
        checks: Vec<(Name, Check)>,
        bundle: &Path,
        progress: &Progress,
    ) -> Result<(), Stopped> {
        let integrated = self.put(order, (project, work, record), bundle, progress).await?;
        let told = Told::Work {
            project: project.clone(),
            commit: work.commit.clone(),
            integrated: Box::new(integrated.clone()),
        };
        tell(progress, told).await?;
        let mut results = Vec::new();
        for (name, check) in checks {
            results.push(self.check(order, (project, &integrated, bundle), (name, check), progress).await?);
        }
        let passed = results.iter().all(|check| check.passed);
        let integration = Integration {
            project: project.id.clone(),
            branch: integrated.branch.clone(),
            onto: integrated.onto.clone(),
            tip: integrated.tip.clone(),
            tree: integrated.tree.clone(),
            checks: results,
        };
        persist(|| self.inner.broker.integrated(&order.run, &integration, &order.actor)).await?;
        self.record(&order.run).await.map_err(|error| RpcError::internal(&error))?;
        if !passed {
            return tell(progress, Told::ChecksFailed).await;
        }
        send(bundle, progress).await?;
        tell(progress, Told::HandedOut).await
    }

    /// Puts the work onto the branch; the bundle is at `bundle` then.
    async fn put(
        &self,
        order: &IntegrateOrder,
        (project, work, record): (&Project, &Work, &RunRecord),
        bundle: &Path,
        progress: &Progress,
    ) -> Result<Integrated, Stopped> {
        let place = self.inner.checkouts.place(&self.inner.root, project)?;
        let recorded = Recorded {
            bundle: self.inner.root.run(&order.run).join(&work.bundle.name),
            base: work.base.clone(),
            commit: work.commit.clone(),
            tree: work.tree.clone(),
            about: about(record, &project.id),
        };
        let (digest, onto, out) = (work.bundle.digest.clone(), order.onto.clone(), bundle.to_owned());
        let done = blocking(move || {
            check_digest(&recorded.bundle, &digest)?;
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(out.parent().unwrap_or(&out))?;
            integrate(&place, &recorded, &onto, &out)
        });
        match done.await? {
            Ok(integrated) => Ok(integrated),
            Err(IntegrateError::Conflicts { paths }) => {
                tell(progress, Told::Conflicts(paths)).await?;
                Err(Stopped::Told)
            }
            Err(IntegrateError::Nothing) => {
                tell(progress, Told::Nothing).await?;
                Err(Stopped::Told)
            }
            Err(error) => Err(failed(&error).into()),
        }
    }

    /// Runs one check, and waits for its end.
    async fn check(
        &self,
        order: &IntegrateOrder,
        (project, integrated, bundle): (&Project, &Integrated, &Path),
        (name, check): (Name, Check),
        progress: &Progress,
    ) -> Result<CheckResult, Stopped> {
        let wanted = CheckSpec {
            name: name.clone(),
            executable: check.executable.clone(),
            arguments: check.arguments.clone(),
            of: order.run.clone(),
            project: project.clone(),
            branch: integrated.branch.clone().unwrap_or_else(|| "work".to_owned()),
            commit: integrated.tip.clone(),
            bundle: bundle.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            bundle_digest: integrated.bundle_digest.clone(),
        };
        let traceparent = mosaic_telemetry::current_traceparent().map(|parent| parent.to_string());
        let spec = check::spec(wanted, &check, &self.inner.config, traceparent)
            .map_err(|over| RpcError::refused(Refusal::LimitOverCap, over.to_string()))?;
        let launched = self.record_spec(&fresh_id()?, spec, &order.actor).await?;
        tell(progress, Told::Started(name.clone(), launched.run_id.clone())).await?;
        tokio::select! {
            over = self.wait(&launched.run_id) => over?,
            () = progress.closed() => {
                self.stop(&launched.run_id, &order.actor).await?;
                return Err(Stopped::Told);
            }
        }
        let (view, record, _) = persist(|| self.inner.broker.get(&launched.run_id)).await?;
        let passed = view.status == RunStatus::Succeeded;
        let result = CheckResult { name, run_id: launched.run_id, passed };
        let reason = record.reason.or_else(|| (!passed).then(|| view.status.to_string()));
        tell(progress, Told::Ended(result.clone(), reason)).await?;
        Ok(result)
    }

    /// The checks of these names, as the business file has them now.
    fn checks(&self, names: &[Name]) -> Result<Vec<(Name, Check)>, RpcError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        if names.len() > CHECKS {
            return Err(RpcError::invalid(format!("more than {CHECKS} checks are named")));
        }
        let Some(path) = &self.inner.config.business else {
            let hint = "hint: write one with `checks`, and its path as `business` into the configuration";
            return Err(RpcError::invalid(format!("the configuration names no business file\n{hint}")));
        };
        let mut business = read_business(path)?;
        let known = business.checks.keys().map(Name::as_str).collect::<Vec<_>>().join(" ");
        let find = |name: &Name| match business.checks.remove(name) {
            Some(check) => Ok((name.clone(), check)),
            None => Err(RpcError::invalid(format!("no check `{name}`, or it is named twice; known: {known}"))),
        };
        names.iter().map(find).collect()
    }
}

/// Removes results of integrations that a launcher was killed over. One that is younger may be another launcher's, which ends
/// while this one begins.
pub(super) fn remove_left(root: &DataRoot) {
    for entry in std::fs::read_dir(root.integrations()).into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|metadata| metadata.modified()).map(|time| time.elapsed());
        if age.is_ok_and(|age| age.is_ok_and(|age| age > LEFT)) {
            let _gone = std::fs::remove_file(entry.path());
        }
    }
}

/// The project that is meant, and its work.
fn chosen(record: &RunRecord, spec: &RunSpec, project: Option<&Name>) -> Result<(Project, Work), RpcError> {
    let run = &record.run_id;
    if !record.status.is_terminal() || record.awaits_harvest() {
        return Err(RpcError::invalid(format!("the work of `{run}` is not taken out yet; wait for its end")));
    }
    let names = || spec.projects.iter().map(|project| project.id.as_str()).collect::<Vec<_>>().join(" ");
    let chosen = match (project, spec.projects.as_slice()) {
        (_, []) => return Err(RpcError::invalid(format!("`{run}` had no project"))),
        (Some(id), projects) => projects.iter().find(|project| project.id == *id),
        (None, [only]) => Some(only),
        (None, _) => return Err(RpcError::invalid(format!("`{run}` had several projects; name one of: {}", names()))),
    };
    let Some(project) = chosen else {
        return Err(RpcError::invalid(format!("`{run}` had no such project; it had: {}", names())));
    };
    match record.work(&project.id) {
        Some(work) if !record.is_pruned(mosaic_record::RunPart::Record) => Ok((project.clone(), work.clone())),
        _ => Err(RpcError::invalid(format!(
            "the work of `{run}` in `{}` could not be taken out, or is gone",
            project.id
        ))),
    }
}

/// What a run was, for those who read its work.
pub(super) fn about(record: &RunRecord, project: &Name) -> About {
    About {
        run_id: record.run_id.clone(),
        project: project.clone(),
        task_id: record.task_id.clone(),
        requirement: None,
        adapter: record.adapter.clone(),
        model: record.model.clone(),
        finished_at: record.finished_at.unwrap_or(record.created_at),
    }
}

fn check_digest(bundle: &Path, expected: &Digest) -> Result<(), IntegrateError> {
    let mut file = std::fs::File::open(bundle)?;
    let found = Digest::of_reader(&mut file)?;
    if found == *expected {
        return Ok(());
    }
    Err(IntegrateError::Damaged(format!("its digest is {found}, and {expected} was recorded")))
}

fn failed(error: &IntegrateError) -> RpcError {
    let refusal = match error {
        IntegrateError::Damaged(_) => Refusal::BundleChanged,
        IntegrateError::Mirror(MirrorError::Io { .. }) | IntegrateError::Io(_) => return RpcError::internal(error),
        // The root has no such branch, can't be read, or git fails; conflicts and the like are told, not failed with.
        IntegrateError::Mirror(_) | IntegrateError::Conflicts { .. } | IntegrateError::Nothing => {
            Refusal::CheckoutFailed
        }
    };
    RpcError::refused(refusal, error_chain(error))
}

async fn tell(progress: &Progress, told: Told) -> Result<(), Stopped> {
    // Whoever has gone away wants nothing more.
    progress.send(Ok(told)).await.map_err(|_gone_away| Stopped::Told)
}

/// Tells all of the bundle.
async fn send(bundle: &Path, progress: &Progress) -> Result<(), Stopped> {
    let io = |error: std::io::Error| RpcError::internal(&error);
    let mut file = tokio::fs::File::open(bundle).await.map_err(io)?;
    loop {
        let mut chunk = vec![0; CHUNK_BYTES];
        let read = file.read(&mut chunk).await.map_err(io)?;
        if read == 0 {
            return Ok(());
        }
        chunk.truncate(read);
        tell(progress, Told::Chunk(chunk)).await?;
    }
}

/// An id of a request that nobody sends again.
fn fresh_id() -> Result<RequestId, RpcError> {
    uuid::Uuid::now_v7().to_string().parse().map_err(|error| RpcError::internal(&error))
}
