//! The launcher as a process of its own.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use mosaic_config::Config;
use mosaic_data_root::{Credentials, DataRoot};
use mosaic_lifecycle::{Lifecycle, error_chain, shut_down_on_signals};
use mosaic_telemetry::Telemetry;

use crate::app::Accept;
use crate::{Options, start};

/// Command line and environment of the process `mosaic-launcher`; a flag wins.
#[derive(Debug, clap::Parser)]
#[command(name = "mosaic-launcher", version, about = "Decides what may run, prepares it, and sees it to its record")]
pub struct Args {
    /// Configuration file
    #[arg(long, env = "MOSAIC_CONFIG", value_name = "FILE")]
    pub config: PathBuf,
    /// How long runs may go on after the process was asked to end, for example 30s; the next launcher takes up the rest
    #[arg(long, env = "MOSAIC_DRAIN", value_name = "DURATION", value_parser = mosaic_lifecycle::parse_duration,
          default_value = "30s")]
    pub drain: Duration,
    /// OTLP/gRPC endpoint for spans; the configuration's when absent
    #[arg(long, env = "MOSAIC_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
    /// Which log lines are written
    #[arg(long, env = "MOSAIC_LOG", value_name = "FILTER", default_value = "info")]
    pub log: String,
}

impl Args {
    fn telemetry(&self, config: &Config) -> mosaic_telemetry::Options {
        mosaic_telemetry::Options {
            service_name: "mosaic-launcher".to_owned(),
            otlp_endpoint: self.otlp_endpoint.clone().or_else(|| config.otlp_endpoint.clone()),
            log_format: mosaic_telemetry::LogFormat::Json,
            log_filter: self.log.clone(),
        }
    }
}

/// Serves until the process is asked to end: then runs may finish within `--drain`, unless it is asked again.
#[tokio::main]
#[expect(clippy::print_stderr, reason = "the process ends and tells the person who started it why")]
pub async fn run(args: &Args) -> ExitCode {
    match serve(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mosaic-launcher: {}", error_chain(error.as_ref()));
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
        let launcher = start(Options { root, config, accept: Accept::Everything }).await?;
        tracing::info!("The launcher serves");
        let shutdown = Lifecycle::new();
        shut_down_on_signals(&shutdown).await?;
        launcher.drain_unless(args.drain, shutdown.hard()).await;
        Ok(())
    }
    .await;
    telemetry.flush().await;
    served
}
