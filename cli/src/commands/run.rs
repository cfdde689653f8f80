use mosaic_ids::RunId;
use mosaic_proto::broker::v1 as broker;
use mosaic_proto::launcher::v1 as launcher;
use mosaic_record::RunRecord;
use mosaic_rpc::{Reason, RpcError};
use tracing::Instrument as _;

use super::print_line;
use crate::args::{Overrides, Retry, Run};
use crate::client::Client;
use crate::exit::{Exit, Failure, Outcome};
use crate::host::attach::attach;
use crate::settings::Settings;
use crate::task_file::Documents;
use crate::view::follow::{Item, Stream, follow};
use crate::view::progress::Progress;
use crate::view::record::summary;

/// How often a launch is tried again when its host is just ending.
const LAUNCH_ATTEMPTS: usize = 5;

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
        anstream::eprint!("{}", summary(record));
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
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut client = attach(settings).await?;
            match self.send(&mut client, &request_id, settings).await.map_err(|status| RpcError::from_status(&status)) {
                Ok(run) => {
                    let run = run.parse();
                    let run = run.map_err(|_not_ours| Failure::unreachable("the launcher sent a malformed run id"))?;
                    return Ok((client, run));
                }
                Err(error) if error.reason == Reason::Unavailable && attempts < LAUNCH_ATTEMPTS => {}
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
    let mut items = follow(settings, client.clone(), run, 0);
    let mut interrupts = Interrupts::default();
    loop {
        tokio::select! {
            item = items.recv() => match item {
                None => break,
                Some(Ok(Item::Event(event))) => progress.event(&event.payload),
                Some(Ok(Item::Output { stream: Stream::Stdout, data, dropped, .. })) => progress.response(&data, dropped),
                Some(Ok(Item::Output { .. })) => {}
                Some(Err(failure)) => {
                    progress.finish();
                    return Err(failure);
                }
            },
            interrupt = interrupts.next() => match interrupt {
                Interrupt::Stop => {
                    progress.say(&format!("stopping {run}; Ctrl-C again leaves it"));
                    let request = launcher::StopRequest { run_id: run.to_string() };
                    client.launches.clone().stop(request).await?;
                }
                Interrupt::Leave => {
                    progress.finish();
                    anstream::eprintln!("left {run}; it goes on, see `mosaic watch {run}`");
                    return Ok(None);
                }
            },
        }
    }
    let record = final_record(settings, run).await?;
    progress.finish();
    Ok(Some(record))
}

/// The record of a run that is over, once its files are written and what it had for itself is free.
///
/// # Errors
/// When its host is lost for good.
pub(crate) async fn final_record(settings: &Settings, run: &RunId) -> Result<RunRecord, Failure> {
    let mut client = attach(settings).await?;
    let request = launcher::AwaitRunRequest { run_id: run.to_string(), timeout: None };
    while !client.launches.await_run(request.clone()).await?.into_inner().finished {}
    record(&mut client, run).await
}

/// The record of a run as it is now.
///
/// # Errors
/// When there is no such run, or the broker can't be reached.
pub(crate) async fn record(client: &mut Client, run: &RunId) -> Result<RunRecord, Failure> {
    let request = broker::GetRunRequest { run_id: run.to_string() };
    let run = client.runs.get_run(request).await?.into_inner().run.unwrap_or_default();
    serde_json::from_str(&run.record).map_err(|error| Failure::unreachable(format!("a record that is none: {error}")))
}

/// What a Ctrl-C means.
enum Interrupt {
    Stop,
    Leave,
}

/// Counts Ctrl-C.
#[derive(Default)]
struct Interrupts {
    seen: usize,
}

impl Interrupts {
    async fn next(&mut self) -> Interrupt {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        self.seen += 1;
        if self.seen == 1 { Interrupt::Stop } else { Interrupt::Leave }
    }
}
