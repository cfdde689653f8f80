use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mosaic_config::Config;
use mosaic_data_root::DataRoot;
use mosaic_lifecycle::{Clock, SystemClock};
use mosaic_record::Environment;

/// What a runner is started with.
#[derive(Debug)]
pub struct Options {
    /// Where everything is; this process owns it.
    pub root: DataRoot,
    /// How careful the installation is.
    pub environment: Environment,
    /// Uid (and gid) that sandboxes run under; this process's own unless it is root.
    pub sandbox_uid: u32,
    /// The executable that acts as the shim: this process's own, which calls `mosaic_shim::dispatch` first.
    pub shim_executable: PathBuf,
    /// Path of the program bubblewrap; anything that is not absolute is a missing one.
    pub bubblewrap: PathBuf,
    /// Where times come from.
    pub clock: Arc<dyn Clock>,
}

impl Options {
    /// The options that follow from a configuration.
    ///
    /// # Errors
    /// When this process's own executable can't be found.
    pub fn new(root: DataRoot, config: &Config) -> std::io::Result<Self> {
        Ok(Self {
            root,
            environment: config.environment,
            sandbox_uid: config.sandbox_uid(),
            shim_executable: std::env::current_exe()?,
            bubblewrap: crate::probe::locate(std::env::var_os("PATH").as_deref()),
            clock: Arc::new(SystemClock::new()),
        })
    }
}

/// Command line and environment of the process `mosaic-runner`; a flag wins.
#[derive(Debug, clap::Parser)]
#[command(name = "mosaic-runner", version, about = "Runs sealed bundles in sandboxes and reports what happened")]
pub struct Args {
    /// Configuration file
    #[arg(long, env = "MOSAIC_CONFIG", value_name = "FILE")]
    pub config: PathBuf,
    /// How long executions may go on after the process was asked to end, for example 10s
    #[arg(long, env = "MOSAIC_DRAIN", value_name = "DURATION", value_parser = mosaic_lifecycle::parse_duration,
          default_value = "10s")]
    pub drain: Duration,
    /// OTLP/gRPC endpoint for spans; the configuration's when absent
    #[arg(long, env = "MOSAIC_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
    /// Which log lines are written
    #[arg(long, env = "MOSAIC_LOG", value_name = "FILTER", default_value = "info")]
    pub log: String,
}

impl Args {
    /// How the process is seen from outside.
    #[must_use]
    pub fn telemetry(&self, config: &Config) -> mosaic_telemetry::Options {
        mosaic_telemetry::Options {
            service_name: "mosaic-runner".to_owned(),
            otlp_endpoint: self.otlp_endpoint.clone().or_else(|| config.otlp_endpoint.clone()),
            log_format: mosaic_telemetry::LogFormat::Json,
            log_filter: self.log.clone(),
        }
    }
}
