//! One trace a run, from the command into the adapter, as a collector receives it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mosaic_integration_tests::{Installation, wait_for};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::trace::v1::Span;
use tonic::{Request, Response, Status};

use crate::harvest::Business;
use crate::installation_with;

/// Receives what is exported, as a collector does.
#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let resources = request.into_inner().resource_spans;
        let spans = resources.into_iter().flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans);
        self.spans.lock().expect("never poisoned").extend(spans);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// Spans by their name.
type Spans = HashMap<String, Vec<Span>>;

impl Collector {
    fn start(&self) -> (tokio::runtime::Runtime, SocketAddr) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        let service = TraceServiceServer::new(self.clone());
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        runtime.spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        (runtime, address)
    }

    fn of_trace(&self, trace: &str) -> Spans {
        let mut by_name = Spans::new();
        for span in self.spans.lock().expect("never poisoned").iter() {
            if hex(&span.trace_id) == trace {
                by_name.entry(span.name.clone()).or_default().push(span.clone());
            }
        }
        by_name
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn exporting(address: SocketAddr) -> Installation {
    installation_with(|config| {
        config["telemetry"] = serde_json::json!({ "otlpEndpoint": format!("http://{address}") });
    })
}

/// True when `child` is below `parent`, at any depth.
fn is_below(spans: &Spans, child: &Span, parent: &Span) -> bool {
    let mut at = child.parent_span_id.clone();
    for _depth in 0..32 {
        if at == parent.span_id {
            return true;
        }
        let Some(next) = spans.values().flatten().find(|span| span.span_id == at) else { return false };
        at = next.parent_span_id.clone();
    }
    false
}

/// What must be exported of a run, each below the one before it.
const LINE: [&str; 5] = [
    "mosaic.cli.run",
    "mosaic.launcher.launch",
    "mosaic.launcher.supervise",
    "mosaic.runner.start_run",
    "mosaic.runner.execute",
];

fn complete(collector: &Collector, trace: &str) -> Option<Spans> {
    let spans = collector.of_trace(trace);
    LINE.iter().all(|name| spans.contains_key(*name)).then_some(spans)
}

#[test]
fn a_run_is_one_trace_from_the_command_into_the_adapter() {
    let collector = Collector::default();
    let (_runtime, address) = collector.start();
    let mosaic = exporting(address);
    let record = mosaic.record(&mosaic.task("echo $TRACEPARENT", |_| {}), &[]);
    let trace = record["traceId"].as_str().expect("a trace id").to_owned();
    mosaic.end_host();
    let spans = wait_for("the spans", Duration::from_secs(20), || complete(&collector, &trace));

    for pair in LINE.windows(2) {
        let (parent, child) = (&spans[pair[0]][0], &spans[pair[1]][0]);
        assert!(is_below(&spans, child, parent), "{} is not below {}", pair[1], pair[0]);
    }
    assert!(spans["mosaic.cli.run"][0].parent_span_id.is_empty(), "the command is the root");
    for written in ["mosaic.broker.create_run", "mosaic.broker.report_run"] {
        assert!(spans.contains_key(written), "{written} is missing in {:?}", spans.keys());
    }
    let execute = &spans["mosaic.runner.execute"][0];
    let told = format!("00-{trace}-{}-01", hex(&execute.span_id));
    assert_eq!(record["response"], told, "the adapter's parent is the execution");
    for span in spans.values().flatten() {
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano && span.end_time_unix_nano > 0, "{}", span.name);
    }

    let log = std::fs::read_to_string(mosaic.data().join("run/host.log")).expect("a log");
    assert!(log.contains(record["runId"].as_str().expect("an id")), "the log names the run");
    assert!(log.contains(&trace), "the log names the trace");
    let events = std::fs::read_to_string(
        mosaic.data().join("runs").join(record["runId"].as_str().expect("an id")).join("events.jsonl"),
    );
    assert!(events.expect("events").lines().all(|line| line.contains(&trace)), "every event names the trace");
}

#[test]
fn a_harvest_is_a_part_of_the_trace_of_its_run() {
    let collector = Collector::default();
    let (_runtime, address) = collector.start();
    let endpoint = format!("http://{address}");
    let business = Business::with(|config| config["telemetry"] = serde_json::json!({ "otlpEndpoint": endpoint }));
    let record = business.run("echo mine > site/mine");
    business.mosaic.end_host();
    let trace = record["traceId"].as_str().expect("a trace id");
    let spans = wait_for("the spans", Duration::from_secs(20), || {
        complete(&collector, trace).filter(|spans| spans.contains_key("mosaic.launcher.harvest"))
    });
    let (harvest, supervise) = (&spans["mosaic.launcher.harvest"][0], &spans["mosaic.launcher.supervise"][0]);
    assert!(is_below(&spans, harvest, supervise), "{harvest:?}");
    assert!(is_below(&spans, &spans["mosaic.broker.record_harvest"][0], harvest), "{:?}", spans.keys());
    assert!(
        harvest.start_time_unix_nano >= spans["mosaic.runner.execute"][0].end_time_unix_nano,
        "after the execution"
    );
}

#[test]
fn the_spans_of_a_killed_run_end_too() {
    let collector = Collector::default();
    let (_runtime, address) = collector.start();
    let mosaic = exporting(address);
    let task = mosaic.task("trap '' TERM; while :; do sleep 1; done", |task| {
        task["timeoutSeconds"] = serde_json::json!(1);
        task["limits"] = serde_json::json!({ "stopGraceSeconds": 1 });
    });
    let record = mosaic.record(&task, &[]);
    assert_eq!(record["reason"], "timed-out");
    mosaic.end_host();
    let trace = record["traceId"].as_str().expect("a trace id");
    let spans = wait_for("the spans", Duration::from_secs(20), || complete(&collector, trace));
    let execute = &spans["mosaic.runner.execute"][0];
    assert!(execute.end_time_unix_nano - execute.start_time_unix_nano >= 1_000_000_000, "it lasted as long as the run");
}

#[test]
fn a_collector_that_is_not_there_slows_nothing_down() {
    // A port that was free a moment ago, where nobody listens.
    let address =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let mosaic = exporting(address);
    let record = mosaic.record(&mosaic.task("echo hi", |_| {}), &[]);
    assert_eq!(record["response"], "hi");
    assert!(record["traceId"].is_string());
}
