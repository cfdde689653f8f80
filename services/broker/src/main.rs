//! The process `mosaic-broker`: reads its settings, starts the broker, waits for a signal.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use mosaic_broker::{Args, Options};
use mosaic_data_root::{Credentials, DataRoot};
use mosaic_lifecycle::{Lifecycle, shut_down_on_signals};
use mosaic_telemetry::Telemetry;

/// How long open calls may take to end.
const DRAIN: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let telemetry = match Telemetry::init(&args.telemetry()) {
        Ok(telemetry) => telemetry,
        Err(error) => return failed(&error),
    };
    let status = match run(&args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error.as_ref()),
    };
    // The exporter blocks; the runtime must go on meanwhile.
    let _flushed = tokio::task::spawn_blocking(move || telemetry.shut_down()).await;
    status
}

async fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let root = DataRoot::create_or_open(&args.data_root)?;
    Credentials::of(&root).ensure()?;
    let broker = mosaic_broker::start(Options::new(root)).await?;
    tracing::info!("The broker serves");
    shut_down_on_signals(&Lifecycle::new()).await?;
    broker.drain(DRAIN).await;
    Ok(())
}

#[expect(clippy::print_stderr, reason = "the process ends and tells the person who started it why")]
fn failed(error: &dyn Error) -> ExitCode {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    eprintln!("mosaic-broker: {message}");
    ExitCode::FAILURE
}
