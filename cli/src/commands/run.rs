use std::time::{Duration, Instant};

use mosaic_ids::RunId;
use mosaic_proto::broker::v1 as broker;
use mosaic_proto::launcher::v1 as launcher;
use mosaic_record::RunRecord;
use mosaic_rpc::{Reason, RpcError};
use tokio::signal::unix::{SignalKind, signal};
use tracing::Instrument as _;

use super::print_line;
use crate::args::{Overrides, Retry, Run};
use crate::client::Client;
use crate::exit::{Exit, Failure, Outcome};
use crate::host::attach::{attach, attach_any};
use crate::settings::Settings;
use crate::task_file::Documents;
use crate::view::follow::{Item, Stream, follow};
use crate::view::progress::Progress;
use crate::view::record::{patches, summary};

/// How long a launch is tried again while a host is just ending.
const LAUNCH_LIMIT: Duration = Duration::from_secs(90);
/// How often it is.
const LAUNCH_PAUSE: Duration = Duration::from_millis(200);
/// How often a host that is lost while a run is recorded is looked for again.
const RECORD_ATTEMPTS: usize = 20;
/// The person is told when it takes longer than this.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) async fn run(arguments: Run, settings: &Settings) -> Outcome {
    let what = What::Task(Documents::read(&arguments.file)?);
    let launch = Launch { what, overrides: arguments.overrides, no_wait: arguments.no_wait };
    let span = tracing::info_span!("run", otel.name = "mosaic.cli.run");
    launch.through(settings, arguments.detach, arguments.json).instrument(span).await
}

pub(crate) async fn retry(arguments: Retry, settings: &Settings) -> Outcome {
    let what = What::Again(arguments.run);
    let launch = Launch { what, overrides: arguments.overrides, no_wait: arguments.no_wait };
    let span = tracing::info_span!("retry", otel.name = "mosaic.cli.retry");
    launch.through(settings, arguments.detach, arguments.json).instrument(span).await
}

/// Prints how a run ended, and turns it into an exit status.
pub(crate) fn show_end(record: &RunRecord, json: bool) -> Exit {
    if json {
        print_line(&serde_json::to_string(record).expect("a record serializes"));
    } else {
        crate::say!("{}{}", summary(record), patches(record).trim_end());
    }
    Exit::of_run(record.status)
}

/// What is to be launched.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// A task, or a run again.
    pub what: What,
    /// What the operator sets.
    pub overrides: Overrides,
    /// Refuse instead of waiting.
    pub no_wait: bool,
}

/// A task, or a run again.
#[derive(Debug, Clone)]
pub(crate) enum What {
    /// A task file and its mission.
    Task(Documents),
    /// A run, from the snapshots in its record.
    Again(RunId),
}

impl Launch {
    /// Launches, and follows the run to its record unless it is to be left at once.
    async fn through(self, settings: &Settings, detach: bool, json: bool) -> Outcome {
        let (client, run) = self.begin(settings).await?;
        if detach {
            print_line(&if json { serde_json::json!({ "runId": run }).to_string() } else { run.to_string() });
            return Ok(Exit::Done);
        }
        let progress = if json { Progress::silent() } else { Progress::for_people() };
        match see_through(settings, client, &run, progress).await? {
            Some(record) => Ok(show_end(&record, json)),
            None => Ok(Exit::Left),
        }
    }

    /// Launches, once: a host that ends under the call is replaced, and asked again with the same request id.
    ///
    /// # Errors
    /// When the launch is refused, or no host can be had.
    pub(crate) async fn begin(self, settings: &Settings) -> Result<(Client, RunId), Failure> {
        let request_id = uuid::Uuid::now_v7().to_string();
        let (begun, mut said) = (Instant::now(), false);
        loop {
            let mut client = attach(settings).await?;
            match self.send(&mut client, &request_id, settings).await.map_err(|status| RpcError::from_status(&status)) {
                Ok(run) => {
                    let run = run.parse();
                    let run = run.map_err(|_not_ours| Failure::unreachable("the launcher sent a malformed run id"))?;
                    return Ok((client, run));
                }
                Err(error) if error.reason == Reason::Unavailable && begun.elapsed() < LAUNCH_LIMIT => {
                    if begun.elapsed() > PATIENCE && !said {
                        crate::say!("waiting for the host: {error}");
                        said = true;
                    }
                    tokio::time::sleep(LAUNCH_PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn send(&self, client: &mut Client, request_id: &str, settings: &Settings) -> Result<String, tonic::Status> {
        let (request_id, no_wait) = (request_id.to_owned(), self.no_wait);
        match &self.what {
            What::Task(Documents { task, mission }) => {
                let overrides = Some(settings.with_mock_response(self.overrides.clone()).into());
                let (task, mission) = (Some(task.clone()), mission.clone());
                let request = launcher::LaunchRequest { request_id, task, mission, overrides, no_wait };
                Ok(client.launches.launch(request).await?.into_inner().run_id)
            }
            What::Again(run) => {
                let overrides = Some(self.overrides.clone().into());
                let request = launcher::RetryRequest { request_id, run_id: run.to_string(), overrides, no_wait };
                Ok(client.launches.retry(request).await?.into_inner().run_id)
            }
        }
    }
}

/// Follows a run to its record. Ctrl-C stops the run; a second one leaves it, and then there is no record.
///
/// # Errors
/// When its host is lost for good.
pub(crate) async fn see_through(
    settings: &Settings,
    client: Client,
    run: &RunId,
    mut progress: Progress,
) -> Result<Option<RunRecord>, Failure> {
    let interrupts = signal(SignalKind::interrupt());
    let mut interrupts =
        interrupts.map_err(|error| Failure::unreachable(format!("can't listen to Ctrl-C: {error}")))?;
    let mut stops = tokio::task::JoinSet::new();
    let ended = {
        let over = to_the_end(settings, client.clone(), run, &mut progress);
        tokio::pin!(over);
        let mut seen = 0;
        loop {
            tokio::select! {
                ended = &mut over => break ended.map(Some),
                Some(()) = interrupts.recv() => {
                    seen += 1;
                    if seen > 1 {
                        break Ok(None);
                    }
                    crate::say!("\nstopping {run}; Ctrl-C again leaves it");
                    stops.spawn(stop(client.clone(), run.clone()));
                }
            }
        }
    };
    progress.finish();
    if let Ok(None) = ended {
        crate::say!("left {run}, which ends; see `mosaic watch {run}`");
    }
    ended
}

async fn stop(mut client: Client, run: RunId) {
    let request = launcher::StopRequest { run_id: run.to_string() };
    if let Err(status) = client.launches.stop(request).await {
        crate::say!("could not stop {run}: {}; try `mosaic stop {run}`", status.message());
    }
}

async fn to_the_end(
    settings: &Settings,
    client: Client,
    run: &RunId,
    progress: &mut Progress,
) -> Result<RunRecord, Failure> {
    let mut items = follow(settings, client, run, 0);
    while let Some(item) = items.recv().await {
        match item? {
            Item::Event(event) => progress.event(&event.payload),
            Item::Output { stream: Stream::Stdout, data, dropped, .. } => progress.response(&data, dropped),
            Item::Output { .. } => {}
        }
    }
    final_record(settings, run).await
}

/// The record of a run that is over, once its files are written and what it had for itself is free.
///
/// # Errors
/// When its host is lost for good.
pub(crate) async fn final_record(settings: &Settings, run: &RunId) -> Result<RunRecord, Failure> {
    let mut failures = 0;
    loop {
        let mut client = attach_any(settings).await?;
        match await_record(&mut client, run).await.map_err(|status| RpcError::from_status(&status)) {
            Ok(Some(record)) => return read_record(&record),
            Ok(None) => failures = 0,
            Err(error) if error.reason == Reason::Unavailable && failures < RECORD_ATTEMPTS => {
                failures += 1;
                tokio::time::sleep(LAUNCH_PAUSE).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits a while for a run to be over; then its record, as text.
async fn await_record(client: &mut Client, run: &RunId) -> Result<Option<String>, tonic::Status> {
    let request = launcher::AwaitRunRequest { run_id: run.to_string(), timeout: None };
    if !client.launches.await_run(request).await?.into_inner().finished {
        return Ok(None);
    }
    let request = broker::GetRunRequest { run_id: run.to_string() };
    Ok(Some(client.runs.get_run(request).await?.into_inner().run.unwrap_or_default().record))
}

/// The record of a run as it is now.
///
/// # Errors
/// When there is no such run, or the broker can't be reached.
pub(crate) async fn record(client: &mut Client, run: &RunId) -> Result<RunRecord, Failure> {
    let request = broker::GetRunRequest { run_id: run.to_string() };
    let run = client.runs.get_run(request).await?.into_inner().run.unwrap_or_default();
    read_record(&run.record)
}

fn read_record(text: &str) -> Result<RunRecord, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::unreachable(format!("a record that is none: {error}")))
}
