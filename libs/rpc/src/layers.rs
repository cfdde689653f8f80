//! The tower layers that every call goes through, outermost first: span, gate.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use mosaic_data_root::Service as MosaicService;
use tonic::body::Body;
use tonic::{Code, Status};
use tracing::Instrument as _;

use crate::Principal;
use crate::auth::Gate;
use crate::server::Attached;

type Response = http::Response<Body>;
type Pinned<E> = Pin<Box<dyn Future<Output = Result<Response, E>> + Send>>;

/// Opens the span of a call and puts it into the caller's trace. Outermost, so that refusals are seen too.
#[derive(Debug, Clone)]
pub(crate) struct SpanLayer {
    pub(crate) service: MosaicService,
}

impl<S> tower::Layer<S> for SpanLayer {
    type Service = Spanned<S>;

    fn layer(&self, inner: S) -> Spanned<S> {
        Spanned { service: self.service, inner }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Spanned<S> {
    service: MosaicService,
    inner: S,
}

impl<S> tower::Service<http::Request<Body>> for Spanned<S>
where
    S: tower::Service<http::Request<Body>, Response = Response>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Pinned<S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let path = request.uri().path();
        if !path.starts_with("/mosaic.") {
            return Box::pin(self.inner.call(request));
        }
        let name = span_name(self.service, path);
        let span = tracing::info_span!(
            "rpc",
            otel.name = name,
            otel.kind = "server",
            otel.status_code = tracing::field::Empty,
            rpc.method = path,
            rpc.grpc.status_code = tracing::field::Empty
        );
        mosaic_telemetry::extract(request.headers(), &span);
        let answer = span.in_scope(|| self.inner.call(request));
        let outcome = span.clone();
        Box::pin(
            async move {
                let response = answer.await?;
                let code = Status::from_header_map(response.headers()).map_or(Code::Ok, |status| status.code());
                outcome.record("rpc.grpc.status_code", i32::from(code));
                if matches!(code, Code::Internal | Code::Unknown | Code::DataLoss) {
                    outcome.record("otel.status_code", "ERROR");
                }
                Ok(response)
            }
            .instrument(span),
        )
    }
}

/// `mosaic.<service>.<verb>` of a method: `/mosaic.runner.v1.RunnerService/StartRun` is `mosaic.runner.start_run`.
fn span_name(service: MosaicService, path: &str) -> String {
    let method = path.rsplit('/').next().unwrap_or_default();
    let mut name = format!("mosaic.{service}.");
    for (at, letter) in method.chars().take(64).enumerate() {
        if letter.is_ascii_uppercase() && at > 0 {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// Finds out who calls and whether they may. Inside the span, outside of everything that does something. Health is open.
#[derive(Debug, Clone)]
pub(crate) struct GateLayer {
    pub(crate) gate: Arc<Gate>,
    pub(crate) attached: Attached,
}

impl<S> tower::Layer<S> for GateLayer {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated { gate: Arc::clone(&self.gate), attached: self.attached.clone(), inner }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Gated<S> {
    gate: Arc<Gate>,
    attached: Attached,
    inner: S,
}

impl<S> tower::Service<http::Request<Body>> for Gated<S>
where
    S: tower::Service<http::Request<Body>, Response = Response>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Pinned<S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let path = request.uri().path();
        if path.starts_with("/grpc.health.v1.Health/") {
            return Box::pin(self.inner.call(request));
        }
        match self.gate.admit(path, request.headers()) {
            Err(refused) => {
                tracing::debug!(rpc.method = path, reason = %refused.reason, "Refused a call");
                let response = Status::from(refused).into_http();
                Box::pin(std::future::ready(Ok(response)))
            }
            Ok(caller) => {
                // The guard goes into the response's extensions: a stream counts as attached until its body is dropped.
                let guard = (caller.principal == Principal::Operator).then(|| self.attached.enter());
                request.extensions_mut().insert(caller);
                let answer = self.inner.call(request);
                Box::pin(async move {
                    let response = answer.await?;
                    Ok(match guard {
                        Some(guard) => response.map(|body| Body::new(crate::server::GuardedBody::new(body, guard))),
                        None => response,
                    })
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_names_follow_the_method() {
        let name = span_name(MosaicService::Runner, "/mosaic.runner.v1.RunnerService/StartRun");
        assert_eq!(name, "mosaic.runner.start_run");
    }
}
