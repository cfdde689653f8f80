use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use mosaic_data_root::{Service, TokenHashes};
use mosaic_lifecycle::Lifecycle;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::service::Routes;

use crate::Rule;
use crate::auth::Gate;
use crate::layers::{GateLayer, SpanLayer};

/// Calls that one connection may have open at once.
const STREAMS_PER_CONNECTION: u32 = 1024;
/// How often an idle peer is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A gRPC server of Mosaic, bound and ready to serve.
#[derive(Debug)]
pub struct Server {
    service: Service,
    listener: UnixListener,
    gate: Gate,
    descriptors: &'static [u8],
    attached: Attached,
}

/// Why a server can't serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket can't be bound.
    #[error("can't listen on `{}`", path.display())]
    Bind {
        /// The socket's path.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The descriptors can't be served.
    #[error("the descriptors of {service} are malformed")]
    Reflection {
        /// The service.
        service: Service,
        /// Why not.
        #[source]
        source: tonic_reflection::server::Error,
    },
}

impl Server {
    /// Binds the socket of a service. Only the holder of the service's lock may do so: what lies at the path is a leftover.
    ///
    /// # Errors
    /// When the path can't be bound.
    pub fn bind(
        service: Service,
        path: &Path,
        hashes: &TokenHashes,
        rules: &'static [Rule],
        descriptors: &'static [u8],
    ) -> Result<Self, ServeError> {
        let bind = || -> std::io::Result<UnixListener> {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let listener = UnixListener::bind(path)?;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
            Ok(listener)
        };
        let listener = bind().map_err(|source| ServeError::Bind { path: path.into(), source })?;
        Ok(Self { service, listener, gate: Gate::new(hashes, rules), descriptors, attached: Attached::default() })
    }

    /// Who of the operators is attached now.
    #[must_use]
    pub fn attached(&self) -> Attached {
        self.attached.clone()
    }

    /// Serves `routes` until the soft stage of `serving`, and then lets open calls end. Streams that never end by
    /// themselves must end at that stage too.
    ///
    /// # Errors
    /// When the descriptors are malformed.
    pub async fn serve(self, mut routes: Routes, serving: &Lifecycle) -> Result<(), ServeError> {
        let service = self.service;
        let malformed = |source| ServeError::Reflection { service, source };
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(self.descriptors)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
                // Callers read the details of errors by reflection too.
                .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
        };
        routes = routes.add_service(reflection().build_v1().map_err(malformed)?);
        routes = routes.add_service(reflection().build_v1alpha().map_err(malformed)?);
        // The empty name, which stands for the whole server, is SERVING from the start.
        let (reporter, health) = tonic_health::server::health_reporter();
        for name in crate::auth::service_names(self.descriptors) {
            reporter.set_service_status(name, tonic_health::ServingStatus::Serving).await;
        }
        routes = routes.add_service(health);

        let router = tonic::transport::Server::builder()
            .max_concurrent_streams(STREAMS_PER_CONNECTION)
            .http2_keepalive_interval(Some(KEEPALIVE))
            .layer(SpanLayer { service })
            .layer(GateLayer { gate: Arc::new(self.gate), attached: self.attached })
            .layer(tower_http::map_response_body::MapResponseBodyLayer::new(Body::new))
            // A panic in a handler fails its call, not its neighbours on the connection.
            .layer(tower_http::catch_panic::CatchPanicLayer::custom(|_| {
                tonic::Status::from(crate::RpcError::internal(&HandlerPanicked)).into_http::<Body>()
            }))
            .add_routes(routes);
        let stop = serving.soft().clone();
        let listener = UnixListenerStream::new(self.listener);
        serving.spawn("serve", async move {
            let ended = router.serve_with_incoming_shutdown(listener, stop.cancelled_owned()).await;
            if let Err(error) = ended {
                tracing::error!(%service, %error, "The server ended");
            }
        });
        tracing::debug!(%service, "Serving");
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a handler panicked")]
struct HandlerPanicked;

/// Counts the operator's open calls, so that a background host knows when nobody needs it.
#[derive(Debug, Clone, Default)]
pub struct Attached {
    state: Arc<AttachedState>,
}

#[derive(Debug)]
struct AttachedState {
    open: AtomicUsize,
    last: Mutex<Instant>,
}

impl Default for AttachedState {
    fn default() -> Self {
        Self { open: AtomicUsize::new(0), last: Mutex::new(Instant::now()) }
    }
}

impl Attached {
    /// How long nobody has been attached; `None` while somebody is.
    ///
    /// # Panics
    /// Never: no code panics while it holds the lock.
    #[must_use]
    pub fn idle_for(&self) -> Option<Duration> {
        if self.state.open.load(Ordering::SeqCst) > 0 {
            return None;
        }
        Some(self.state.last.lock().expect("never poisoned").elapsed())
    }

    pub(crate) fn enter(&self) -> AttachedGuard {
        self.state.open.fetch_add(1, Ordering::SeqCst);
        AttachedGuard { state: Arc::clone(&self.state) }
    }
}

/// One open call of the operator's.
#[derive(Debug)]
pub(crate) struct AttachedGuard {
    state: Arc<AttachedState>,
}

impl Drop for AttachedGuard {
    fn drop(&mut self) {
        *self.state.last.lock().expect("never poisoned") = Instant::now();
        self.state.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A response's body that keeps its call counted until it was sent or dropped.
pub(crate) struct GuardedBody {
    body: Body,
    _guard: AttachedGuard,
}

impl GuardedBody {
    pub(crate) const fn new(body: Body, guard: AttachedGuard) -> Self {
        Self { body, _guard: guard }
    }
}

impl http_body::Body for GuardedBody {
    type Data = bytes::Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
