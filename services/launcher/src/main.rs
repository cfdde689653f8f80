//! The launcher as a process of its own.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use mosaic_config::Config;
use mosaic_data_root::DataRoot;
use mosaic_launcher::app::Accept;
use mosaic_launcher::{Options, start};
use mosaic_lifecycle::{Lifecycle, shut_down_on_signals};
use mosaic_telemetry::{LogFormat, Telemetry};

/// How long runs may go on once the process was asked to end.
const DRAIN: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error, "The launcher can't go on");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let path =
        std::env::var_os("MOSAIC_CONFIG").map(PathBuf::from).ok_or("set MOSAIC_CONFIG to a configuration file")?;
    let config = Config::parse(&path.display().to_string(), &std::fs::read_to_string(&path)?)?;
    let telemetry = Telemetry::init(&mosaic_telemetry::Options {
        service_name: "mosaic-launcher".to_owned(),
        otlp_endpoint: config.otlp_endpoint.clone(),
        log_format: LogFormat::Json,
        log_filter: std::env::var("MOSAIC_LOG").unwrap_or_else(|_unset| "info".to_owned()),
    })?;
    let root = DataRoot::create_or_open(&config.data_root)?;
    let handle = start(Options { root, config, accept: Accept::Everything }).await?;
    shut_down_on_signals(&Lifecycle::new()).await?;
    handle.drain(DRAIN).await;
    tokio::task::spawn_blocking(|| telemetry.shut_down()).await?;
    Ok(())
}
