//! Tracing, log output and trace context of every Mosaic process.
//!
//! Every span has ids, also when nothing is exported: the trace id of a run is part of its record. Spans leave the process
//! by OTLP/gRPC when an endpoint is set; the exporter works on threads of its own and never blocks a run.

mod context;
mod rotation;

use std::path::PathBuf;
use std::time::Duration;

pub use context::{Traceparent, current_trace_id, current_traceparent, extract, follow, inject};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry};

/// How long the last spans may take to leave the process.
const FLUSH_LIMIT: Duration = Duration::from_secs(3);

/// What a log line looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogFormat {
    /// No log at all.
    Off,
    /// For people, on standard error.
    Text,
    /// One JSON object a line, on standard error.
    Json,
    /// One JSON object a line, in a file that standard output and standard error lead to already; at 8 MiB it is replaced,
    /// and the three before it are kept.
    Rotating(PathBuf),
}

/// How a process is seen from outside.
#[derive(Debug, Clone)]
pub struct Options {
    /// `service.name` of its spans.
    pub service_name: String,
    /// OTLP/gRPC endpoint, for example `http://127.0.0.1:4317`; none switches the export off.
    pub otlp_endpoint: Option<String>,
    /// What its log lines look like.
    pub log_format: LogFormat,
    /// Which lines are written, in the syntax of `tracing_subscriber::EnvFilter`.
    pub log_filter: String,
}

/// Why telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is not in the syntax of `EnvFilter`.
    #[error("`{filter}` is not a log filter; one looks like `info` or `mosaic_runner=debug,info`")]
    Filter {
        /// The filter.
        filter: String,
        /// Why not.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// The exporter could not be made.
    #[error("can't export spans to `{endpoint}`")]
    Exporter {
        /// The endpoint.
        endpoint: String,
        /// Why not.
        #[source]
        source: opentelemetry_otlp::ExporterBuildError,
    },
    /// Something else in this process has set up tracing already.
    #[error("tracing was set up twice in one process")]
    Twice(#[source] tracing::subscriber::SetGlobalDefaultError),
}

/// Keeps the exporter alive; the last spans leave when it is shut down.
#[must_use]
#[derive(Debug)]
pub struct Telemetry {
    provider: SdkTracerProvider,
}

impl Telemetry {
    /// Sets up spans and logs for the whole process. Call once, inside a multi-thread runtime when an endpoint is set.
    ///
    /// # Errors
    /// When the filter or the endpoint is malformed, or it was called before.
    pub fn init(options: &Options) -> Result<Self, TelemetryError> {
        opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
        let provider = provider(options)?;
        let spans = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("mosaic"))
            .with_filter(tracing_subscriber::filter::filter_fn(|metadata| metadata.target().starts_with("mosaic")));
        let lines = match &options.log_format {
            LogFormat::Off => None,
            LogFormat::Text => Some(lines(options)?.boxed()),
            LogFormat::Json => {
                let json = tracing_subscriber::fmt::layer().json().with_writer(std::io::stderr);
                Some(json.with_filter(filter(options)?).boxed())
            }
            LogFormat::Rotating(path) => {
                let json = tracing_subscriber::fmt::layer().json().with_writer(rotation::Rotating::at(path));
                Some(json.with_filter(filter(options)?).boxed())
            }
        };
        let subscriber = Registry::default().with(spans).with(lines);
        tracing::subscriber::set_global_default(subscriber).map_err(TelemetryError::Twice)?;
        Ok(Self { provider })
    }

    /// [`shut_down`](Self::shut_down) from async code: the exporter blocks, and the runtime must go on meanwhile.
    pub async fn flush(self) {
        let flushed = tokio::task::spawn_blocking(|| self.shut_down()).await;
        debug_assert!(flushed.is_ok(), "the flush panicked");
    }

    /// Sends the last spans, for at most a few seconds. Blocks: call it off the async workers.
    pub fn shut_down(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(FLUSH_LIMIT) {
            tracing::warn!(%error, "Could not export the last spans");
        }
    }
}

fn lines<S>(options: &Options) -> Result<impl tracing_subscriber::Layer<S> + use<S>, TelemetryError>
where
    S: tracing::Subscriber + for<'span> tracing_subscriber::registry::LookupSpan<'span>,
{
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    Ok(layer.with_filter(filter(options)?))
}

fn filter(options: &Options) -> Result<EnvFilter, TelemetryError> {
    let filter = options.log_filter.clone();
    EnvFilter::try_new(&filter).map_err(|source| TelemetryError::Filter { filter, source })
}

fn provider(options: &Options) -> Result<SdkTracerProvider, TelemetryError> {
    let resource = Resource::builder_empty()
        .with_attribute(opentelemetry::KeyValue::new("service.name", options.service_name.clone()))
        .with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build();
    let builder = SdkTracerProvider::builder().with_resource(resource);
    let Some(endpoint) = &options.otlp_endpoint else { return Ok(builder.build()) };
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .with_timeout(FLUSH_LIMIT)
        .build()
        .map_err(|source| TelemetryError::Exporter { endpoint: endpoint.clone(), source })?;
    Ok(builder.with_batch_exporter(exporter).build())
}
