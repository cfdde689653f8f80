use mosaic_data_root::{Service, TokenHashes};
use mosaic_ids::Digest;
use mosaic_record::{Actor, Refusal};
use subtle::ConstantTimeEq as _;

use crate::{ACTOR_METADATA, RpcError};

/// Whose token a call carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// The human.
    Operator,
    /// One of the services.
    Service(Service),
}

impl Principal {
    fn parse(text: &str) -> Option<Self> {
        if text == "operator" {
            return Some(Self::Operator);
        }
        let name = text.strip_prefix("service:")?;
        Service::ALL.into_iter().find(|service| service.name() == name).map(Self::Service)
    }

    fn actor(&self) -> Actor {
        match self {
            Self::Operator => Actor::Operator,
            Self::Service(service) => Actor::Service(service.name().parse().expect("service names are names")),
        }
    }
}

impl std::fmt::Display for Principal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.actor().fmt(f)
    }
}

/// Who calls, found out once for every call and put into the request's extensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Whose token it is.
    pub principal: Principal,
    /// Whom the call is for: the principal itself, or whom a service names.
    pub actor: Actor,
}

impl Caller {
    /// The caller of a request that came through [`Server`](crate::Server).
    ///
    /// # Errors
    /// When the request came another way.
    pub fn of<T>(request: &tonic::Request<T>) -> Result<Self, RpcError> {
        request.extensions().get::<Self>().cloned().ok_or_else(|| unauthenticated("this call has no caller"))
    }
}

/// Who may call an rpc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allow {
    /// The human.
    Operator,
    /// One of the services.
    Service(Service),
}

/// One line of a service's table of rules. An rpc without a line is refused to everybody.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Full method name, for example `/mosaic.broker.v1.RunService/GetRun`.
    pub method: &'static str,
    /// Who may call it.
    pub allow: &'static [Allow],
}

/// Knows the callers of one service, and whom its rules let in.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    known: Vec<(Principal, Digest)>,
    rules: &'static [Rule],
}

impl Gate {
    pub(crate) fn new(hashes: &TokenHashes, rules: &'static [Rule]) -> Self {
        let known = hashes.iter().filter_map(|(name, hash)| Some((Principal::parse(name)?, hash.clone()))).collect();
        Self { known, rules }
    }

    /// Says who calls `method` with these headers, or why they may not.
    pub(crate) fn admit(&self, method: &str, headers: &http::HeaderMap) -> Result<Caller, RpcError> {
        let principal = self.authenticate(headers)?;
        if !method.starts_with("/grpc.reflection.") {
            self.authorise(method, &principal)?;
        }
        let actor = match headers.get(ACTOR_METADATA) {
            None => principal.actor(),
            Some(actor) => named_actor(&principal, actor)?,
        };
        Ok(Caller { principal, actor })
    }

    fn authenticate(&self, headers: &http::HeaderMap) -> Result<Principal, RpcError> {
        let header = headers.get(http::header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some(token) = header.and_then(|header| header.strip_prefix("Bearer ")) else {
            return Err(unauthenticated(
                "send `authorization: Bearer <token>`; the operator's token is in the data root, credentials/operator.token",
            ));
        };
        let hash = Digest::of(token.trim().as_bytes());
        // All are compared, each in constant time, so that the answer's time tells nothing.
        let mut found = None;
        for (principal, known) in &self.known {
            if bool::from(known.as_str().as_bytes().ct_eq(hash.as_str().as_bytes())) {
                found = Some(principal.clone());
            }
        }
        found.ok_or_else(|| unauthenticated("the token is not one that this service knows"))
    }

    fn authorise(&self, method: &str, principal: &Principal) -> Result<(), RpcError> {
        let allowed = self.rules.iter().find(|rule| rule.method == method).is_some_and(|rule| {
            rule.allow.iter().any(|allow| match (allow, principal) {
                (Allow::Operator, Principal::Operator) => true,
                (Allow::Service(allowed), Principal::Service(service)) => allowed == service,
                _ => false,
            })
        });
        if allowed {
            return Ok(());
        }
        let message = format!("{principal} may not call {method}");
        Err(RpcError::refused(Refusal::NotPermitted, message).with("principal", principal).with("method", method))
    }
}

fn named_actor(principal: &Principal, actor: &http::HeaderValue) -> Result<Actor, RpcError> {
    let Principal::Service(_) = principal else {
        let message = format!("only a service may act for somebody else; leave out `{ACTOR_METADATA}`");
        return Err(RpcError::refused(Refusal::NotPermitted, message).with("principal", principal));
    };
    let text = actor.to_str().unwrap_or_default();
    text.parse().map_err(|error: mosaic_record::InvalidActor| RpcError::invalid(format!("{ACTOR_METADATA}: {error}")))
}

fn unauthenticated(message: &str) -> RpcError {
    RpcError::refused(Refusal::Unauthenticated, message)
}

/// Compares a service's rules with its descriptors: methods that only one of them has. For the test, which every service
/// has, that no rpc is without a deliberate answer to who may call it.
///
/// # Panics
/// When `descriptors` is no encoded `FileDescriptorSet`.
#[must_use]
pub fn rules_without_rpc_and_rpcs_without_rule(descriptors: &[u8], rules: &[Rule]) -> Vec<String> {
    let methods: Vec<String> = services(descriptors)
        .flat_map(|(name, service)| service.method.into_iter().map(move |method| format!("/{name}/{}", method.name())))
        .collect();
    let without_rule = methods.iter().filter(|method| !rules.iter().any(|rule| rule.method == **method)).cloned();
    let without_rpc = rules.iter().map(|rule| rule.method.to_owned()).filter(|method| !methods.contains(method));
    without_rule.chain(without_rpc).collect()
}

/// Full names of Mosaic's services in an encoded `FileDescriptorSet`.
pub(crate) fn service_names(descriptors: &[u8]) -> impl Iterator<Item = String> {
    services(descriptors).map(|(name, _)| name)
}

fn services(descriptors: &[u8]) -> impl Iterator<Item = (String, prost_types::ServiceDescriptorProto)> {
    use prost::Message as _;
    let files = prost_types::FileDescriptorSet::decode(descriptors).expect("an encoded FileDescriptorSet");
    let ours = files.file.into_iter().filter(|file| file.package().starts_with("mosaic."));
    ours.flat_map(|file| {
        let package = file.package().to_owned();
        file.service.into_iter().map(move |service| (format!("{package}.{}", service.name()), service))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &[Rule] = &[
        Rule { method: "/x.X/Human", allow: &[Allow::Operator] },
        Rule { method: "/x.X/Runner", allow: &[Allow::Service(Service::Runner)] },
    ];

    fn gate() -> Gate {
        let hash = |token: &str| Digest::of(token.as_bytes());
        let hashes = [("operator".to_owned(), hash("o")), ("service:runner".to_owned(), hash("r"))].into();
        Gate::new(&hashes, RULES)
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> http::HeaderMap {
        pairs.iter().map(|(name, value)| ((*name).parse().expect("name"), (*value).parse().expect("value"))).collect()
    }

    fn refusal(method: &str, pairs: &[(&'static str, &'static str)]) -> Option<Refusal> {
        gate().admit(method, &headers(pairs)).err().and_then(|error| error.refusal())
    }

    #[test]
    fn each_caller_gets_what_the_table_says_and_nothing_else() {
        let operator = ("authorization", "Bearer o");
        let runner = ("authorization", "Bearer r");
        assert_eq!(refusal("/x.X/Human", &[operator]), None);
        assert_eq!(refusal("/x.X/Runner", &[runner]), None);
        assert_eq!(refusal("/x.X/Human", &[runner]), Some(Refusal::NotPermitted));
        assert_eq!(refusal("/x.X/Runner", &[operator]), Some(Refusal::NotPermitted));
        assert_eq!(refusal("/x.X/Unlisted", &[operator]), Some(Refusal::NotPermitted));
        assert_eq!(refusal("/grpc.reflection.v1.ServerReflection/Info", &[operator]), None);
    }

    #[test]
    fn a_call_without_a_known_token_is_unauthenticated() {
        for pairs in
            [&[][..], &[("authorization", "Bearer x")], &[("authorization", "o")], &[("authorization", "Bearer ")]]
        {
            assert_eq!(refusal("/x.X/Human", pairs), Some(Refusal::Unauthenticated), "{pairs:?}");
        }
    }

    #[test]
    fn only_a_service_acts_for_somebody_else() {
        let runner =
            gate().admit("/x.X/Runner", &headers(&[("authorization", "Bearer r"), (ACTOR_METADATA, "session:pm")]));
        assert_eq!(runner.expect("admitted").actor.to_string(), "session:pm");
        let operator = [("authorization", "Bearer o"), (ACTOR_METADATA, "service:runner")];
        assert_eq!(refusal("/x.X/Human", &operator), Some(Refusal::NotPermitted));
        let malformed = [("authorization", "Bearer r"), (ACTOR_METADATA, "root")];
        assert_eq!(refusal("/x.X/Runner", &malformed), Some(Refusal::InvalidRequest));
    }
}
