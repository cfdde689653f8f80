//! What every gRPC server and client of Mosaic does in the same way.
//!
//! A server ([`Server`]) listens on a Unix socket, knows its callers by bearer token, lets each call only whom its table
//! of rules names, opens one span a call, and speaks health (open to all) and reflection v1 and v1alpha. A client
//! ([`Dial`]) sends its token only to a socket whose peer owns the data root. Errors cross the wire in one form
//! ([`RpcError`]).

mod auth;
mod client;
mod error;
mod layers;
mod page;
mod server;

pub use auth::{Allow, Caller, Principal, Rule, rules_without_rpc_and_rpcs_without_rule};
pub use client::{AuthedChannel, Dial, acting_for};
pub use error::{Reason, RpcError};
pub use page::{InvalidPageToken, PageToken, page_size};
pub use server::{Attached, ServeError, Server};

/// Largest message that is sent or taken, in bytes: a run's spec, which has a prompt of 32 MiB twice, beside its record,
/// which has it once more.
pub const MAX_MESSAGE_BYTES: usize = 128 * 1024 * 1024;

/// Domain of every `google.rpc.ErrorInfo`.
pub const ERROR_DOMAIN: &str = "mosaic";

/// Metadata key by which a service names whom it acts for.
pub const ACTOR_METADATA: &str = "mosaic-actor";
