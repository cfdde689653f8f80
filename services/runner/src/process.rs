//! The runner as a process of its own.

use std::error::Error;
use std::process::ExitCode;

use mosaic_config::Config;
use mosaic_data_root::{Credentials, DataRoot};
use mosaic_lifecycle::{Lifecycle, error_chain, shut_down_on_signals};
use mosaic_telemetry::Telemetry;

use crate::{Args, Options};

/// Serves until the process is asked to end: then what runs may finish within `--drain`, unless it is asked again.
///
/// The process must have given way to the shim before, see `mosaic_shim::dispatch`.
#[tokio::main]
#[expect(clippy::print_stderr, reason = "the process ends and tells the person who started it why")]
pub async fn run(args: &Args) -> ExitCode {
    match serve(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mosaic-runner: {}", error_chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn serve(args: &Args) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(&args.config)?;
    let config = Config::parse(&args.config.display().to_string(), &text)?;
    let telemetry = Telemetry::init(&args.telemetry(&config))?;
    let served = async {
        let root = DataRoot::create_or_open(&config.data_root)?;
        Credentials::of(&root).ensure()?;
        let runner = crate::start(Options::new(root, &config)?).await?;
        tracing::info!("The runner serves");
        let shutdown = Lifecycle::new();
        shut_down_on_signals(&shutdown).await?;
        runner.drain_unless(args.drain, shutdown.hard()).await;
        Ok(())
    }
    .await;
    telemetry.flush().await;
    served
}
