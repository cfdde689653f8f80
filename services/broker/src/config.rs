use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mosaic_data_root::DataRoot;
use mosaic_lifecycle::{Clock, SystemClock};

/// Term of a lease when nobody says otherwise.
const LEASE_TERM: Duration = Duration::from_secs(30);

/// What a broker is started with.
pub struct Options {
    /// The data root that it works on.
    pub root: DataRoot,
    /// Where times come from.
    pub clock: Arc<dyn Clock>,
    /// Source of randomness for ids.
    pub random: Box<dyn FnMut() -> u64 + Send>,
    /// Term of a lease: how long its holder may be silent.
    pub lease_term: Duration,
}

impl Options {
    /// The usual options for a data root.
    #[must_use]
    pub fn new(root: DataRoot) -> Self {
        Self { root, clock: Arc::new(SystemClock::new()), random: Box::new(rand::random), lease_term: LEASE_TERM }
    }
}

/// Command line and environment of the process `mosaic-broker`; a flag wins.
#[derive(Debug, clap::Parser)]
#[command(name = "mosaic-broker", version, about = "System of record of Mosaic: the ledger, runs and leases")]
pub struct Args {
    /// Data root, an absolute path
    #[arg(long, env = "MOSAIC_DATA_ROOT", value_name = "DIRECTORY")]
    pub data_root: PathBuf,
    /// How long open calls may take to end after the process was asked to end, for example 10s
    #[arg(long, env = "MOSAIC_DRAIN", value_name = "DURATION", value_parser = mosaic_lifecycle::parse_duration,
          default_value = "10s")]
    pub drain: Duration,
    /// OTLP/gRPC endpoint for spans, for example `http://127.0.0.1:4317`; none switches the export off
    #[arg(long, env = "MOSAIC_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
    /// Which log lines are written
    #[arg(long, env = "MOSAIC_LOG", value_name = "FILTER", default_value = "info")]
    pub log: String,
}

impl Args {
    /// How the process is seen from outside.
    #[must_use]
    pub fn telemetry(&self) -> mosaic_telemetry::Options {
        mosaic_telemetry::Options {
            service_name: "mosaic-broker".to_owned(),
            otlp_endpoint: self.otlp_endpoint.clone(),
            log_format: mosaic_telemetry::LogFormat::Json,
            log_filter: self.log.clone(),
        }
    }
}
