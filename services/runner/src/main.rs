//! The process `mosaic-runner`: acts as the shim when it was started as one, else reads its settings, starts the runner
//! and waits for a signal.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use mosaic_config::Config;
use mosaic_data_root::{Credentials, DataRoot};
use mosaic_lifecycle::{Lifecycle, shut_down_on_signals};
use mosaic_runner::{Args, Options};
use mosaic_telemetry::Telemetry;

/// How long executions may take to end by themselves.
const DRAIN: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    // Before any thread is started.
    if let Some(status) = mosaic_shim::dispatch() {
        return status;
    }
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error.as_ref()),
    }
}

#[tokio::main]
async fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(&args.config)?;
    let config = Config::parse(&args.config.display().to_string(), &text)?;
    let telemetry = Telemetry::init(&args.telemetry(&config))?;
    let root = DataRoot::create_or_open(&config.data_root)?;
    Credentials::of(&root).ensure()?;
    let runner = mosaic_runner::start(Options::new(root, &config)?).await?;
    tracing::info!("The runner serves");
    shut_down_on_signals(&Lifecycle::new()).await?;
    runner.drain(DRAIN).await;
    // The exporter blocks; the runtime must go on meanwhile.
    let _flushed = tokio::task::spawn_blocking(move || telemetry.shut_down()).await;
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
    eprintln!("mosaic-runner: {message}");
    ExitCode::FAILURE
}
