//! The broker as a process of its own.

use std::error::Error;
use std::process::ExitCode;

use mosaic_data_root::{Credentials, DataRoot};
use mosaic_lifecycle::{Lifecycle, error_chain, shut_down_on_signals};
use mosaic_telemetry::Telemetry;

use crate::{Args, Options};

/// Serves until the process is asked to end: then open calls may finish within `--drain`, unless it is asked again.
#[tokio::main]
#[expect(clippy::print_stderr, reason = "the process ends and tells the person who started it why")]
pub async fn run(args: &Args) -> ExitCode {
    match serve(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mosaic-broker: {}", error_chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn serve(args: &Args) -> Result<(), Box<dyn Error>> {
    let telemetry = Telemetry::init(&args.telemetry())?;
    let served = async {
        let root = DataRoot::create_or_open(&args.data_root)?;
        Credentials::of(&root).ensure()?;
        let broker = crate::start(Options::new(root)).await?;
        tracing::info!("The broker serves");
        let shutdown = Lifecycle::new();
        shut_down_on_signals(&shutdown).await?;
        broker.drain_unless(args.drain, shutdown.hard()).await;
        Ok(())
    }
    .await;
    telemetry.flush().await;
    served
}
