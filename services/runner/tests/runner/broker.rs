//! A broker that takes reports, and can be told not to.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use mosaic_data_root::{Credentials, DataRoot, Service};
use mosaic_lifecycle::Lifecycle;
use mosaic_proto::broker::v1::{ReportRunRequest, ReportRunResponse};
use mosaic_record::{Refusal, RunEvent};
use mosaic_rpc::{Allow, RpcError, Rule, Server};
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

const RULES: &[Rule] =
    &[Rule { method: "/mosaic.broker.v1.RunService/ReportRun", allow: &[Allow::Service(Service::Runner)] }];

/// What the broker does with reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Takes them under every epoch from `0` on.
    #[default]
    Takes,
    /// Can't take them now.
    IsAway,
    /// Takes them under this epoch and higher ones only.
    Wants(i64),
}

/// A report that was taken.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    pub(crate) number: i64,
    pub(crate) epoch: i64,
    pub(crate) event: RunEvent,
}

#[derive(Debug, Default)]
struct Inner {
    mood: Mood,
    runs: HashMap<String, Vec<Taken>>,
    /// Runs whose reports came under an epoch that is over.
    stale: HashSet<String>,
}

/// The broker.
#[derive(Debug, Clone, Default)]
pub(crate) struct FakeBroker {
    inner: Arc<Mutex<Inner>>,
    serving: Lifecycle,
}

impl FakeBroker {
    pub(crate) async fn start(root: &DataRoot) -> Self {
        let broker = Self::default();
        let hashes = Credentials::of(root).hashes(Service::Broker).expect("hashes");
        let descriptors = mosaic_proto::broker::DESCRIPTORS;
        let socket = root.socket(Service::Broker);
        let server = Server::bind(Service::Broker, &socket, &hashes, RULES, descriptors).expect("bound");
        server.serve(Routes::new(broker.clone()), &broker.serving).await.expect("served");
        broker
    }

    pub(crate) fn be(&self, mood: Mood) {
        self.inner.lock().expect("not poisoned").mood = mood;
    }

    /// The reports on a run so far.
    pub(crate) fn taken(&self, run: &str) -> Vec<Taken> {
        self.inner.lock().expect("not poisoned").runs.get(run).cloned().unwrap_or_default()
    }

    /// True when a report on the run was refused for its epoch.
    pub(crate) fn found_stale(&self, run: &str) -> bool {
        self.inner.lock().expect("not poisoned").stale.contains(run)
    }

    fn report(&self, request: ReportRunRequest) -> Result<ReportRunResponse, RpcError> {
        let mut inner = self.inner.lock().expect("not poisoned");
        match inner.mood {
            Mood::IsAway => return Err(RpcError::unavailable("away")),
            Mood::Wants(epoch) if request.epoch < epoch => {
                inner.stale.insert(request.run_id);
                return Err(RpcError::refused(Refusal::StaleLease, "stale"));
            }
            Mood::Takes | Mood::Wants(_) => {}
        }
        let taken = inner.runs.entry(request.run_id).or_default();
        for report in request.reports {
            let expected = taken.last().map_or(0, |last| last.number) + 1;
            assert!(report.number <= expected, "report {} came before {expected}", report.number);
            if report.number == expected {
                assert!(
                    !taken.iter().any(|t| matches!(t.event, RunEvent::Ended(_))),
                    "a report after the terminal one"
                );
                let event: RunEvent = serde_json::from_str(&report.payload).expect("an event");
                assert!(event.is_report(), "{event:?}");
                taken.push(Taken { number: report.number, epoch: request.epoch, event });
            }
        }
        Ok(ReportRunResponse { accepted: taken.last().map_or(0, |last| last.number), run: None })
    }
}

/// One method by hand: the others may change without these tests.
impl tower::Service<http::Request<Body>> for FakeBroker {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Boxed<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let broker = self.clone();
        Box::pin(async move {
            let codec = tonic_prost::ProstCodec::<ReportRunResponse, ReportRunRequest>::default();
            Ok(tonic::server::Grpc::new(codec).unary(ReportRun(broker), request).await)
        })
    }
}

impl tonic::server::NamedService for FakeBroker {
    const NAME: &'static str = "mosaic.broker.v1.RunService";
}

struct ReportRun(FakeBroker);

impl tonic::server::UnaryService<ReportRunRequest> for ReportRun {
    type Response = ReportRunResponse;
    type Future = Boxed<Result<Response<ReportRunResponse>, Status>>;

    fn call(&mut self, request: Request<ReportRunRequest>) -> Self::Future {
        let answer = self.0.report(request.into_inner()).map(Response::new).map_err(Status::from);
        Box::pin(std::future::ready(answer))
    }
}
