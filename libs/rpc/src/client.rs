use std::path::PathBuf;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use mosaic_data_root::{DataRoot, Service, Token};
use mosaic_record::Actor;
use tokio::net::UnixStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Status};

use crate::ACTOR_METADATA;

/// How long a connection to a socket on the same machine may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A connection that sends its token and the current span with every call.
pub type AuthedChannel = InterceptedService<Channel, Outgoing>;

/// How to reach a service of a data root.
#[derive(Debug, Clone)]
pub struct Dial {
    socket: PathBuf,
    owner: u32,
    authorization: MetadataValue<Ascii>,
}

impl Dial {
    /// The way to `service` of `root`, as whom `token` says.
    ///
    /// # Panics
    /// Never: tokens are printable ASCII.
    #[must_use]
    pub fn new(root: &DataRoot, service: Service, token: &Token) -> Self {
        let mut authorization: MetadataValue<Ascii> =
            format!("Bearer {}", token.expose()).parse().expect("tokens are printable ASCII");
        authorization.set_sensitive(true);
        Self { socket: root.socket(service), owner: root.owner(), authorization }
    }

    /// A connection that is made with the first call and made again after it was lost.
    ///
    /// # Panics
    /// Never: the placeholder below is a URI.
    #[must_use]
    pub fn channel(&self) -> AuthedChannel {
        let (socket, owner) = (self.socket.clone(), self.owner);
        // The connector ignores the URI; the kernel's name of the socket is its path.
        let channel = Endpoint::from_static("http://localhost")
            .connect_timeout(CONNECT_LIMIT)
            .connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
                let socket = socket.clone();
                async move { connect(socket, owner).await.map(TokioIo::new) }
            }));
        InterceptedService::new(channel, Outgoing { authorization: self.authorization.clone() })
    }
}

/// Connects, and goes on only when the peer is the data root's owner or root: nobody else is told a token.
async fn connect(socket: PathBuf, owner: u32) -> std::io::Result<UnixStream> {
    let stream = UnixStream::connect(&socket).await?;
    let peer = stream.peer_cred()?.uid();
    if peer == owner || peer == 0 {
        return Ok(stream);
    }
    let message = format!("`{}` is served by uid {peer}, not by the data root's owner {owner}", socket.display());
    Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, message))
}

/// Puts token and trace context into the metadata of every call.
#[derive(Debug, Clone)]
pub struct Outgoing {
    authorization: MetadataValue<Ascii>,
}

impl tonic::service::Interceptor for Outgoing {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.authorization.clone());
        mosaic_telemetry::inject(request.metadata_mut());
        Ok(request)
    }
}

/// A request that a service makes for somebody else.
///
/// # Panics
/// Never: actors are printable ASCII.
pub fn acting_for<T>(message: T, actor: &Actor) -> Request<T> {
    let mut request = Request::new(message);
    let actor = actor.to_string().parse().expect("actors are printable ASCII");
    request.metadata_mut().insert(ACTOR_METADATA, actor);
    request
}
