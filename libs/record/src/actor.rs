use std::str::FromStr;

use mosaic_ids::Name;

/// Who caused an event: `operator`, `service:<name>` or `session:<name>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Actor {
    /// The human.
    Operator,
    /// One of the services.
    Service(Name),
    /// A role session, through its tool socket.
    Session(Name),
}

/// Why a text is no [`Actor`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an actor is `operator`, `service:<name>` or `session:<name>`")]
pub struct InvalidActor;

impl std::fmt::Display for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Operator => f.write_str("operator"),
            Self::Service(name) => write!(f, "service:{name}"),
            Self::Session(name) => write!(f, "session:{name}"),
        }
    }
}

impl FromStr for Actor {
    type Err = InvalidActor;

    fn from_str(text: &str) -> Result<Self, InvalidActor> {
        let name = |name: &str| name.parse::<Name>().map_err(|_ignored| InvalidActor);
        match text.split_once(':') {
            None if text == "operator" => Ok(Self::Operator),
            Some(("service", rest)) => name(rest).map(Self::Service),
            Some(("session", rest)) => name(rest).map(Self::Session),
            _ => Err(InvalidActor),
        }
    }
}

impl TryFrom<String> for Actor {
    type Error = InvalidActor;
    fn try_from(text: String) -> Result<Self, InvalidActor> {
        text.parse()
    }
}

impl From<Actor> for String {
    fn from(actor: Actor) -> Self {
        actor.to_string()
    }
}

impl schemars::JsonSchema for Actor {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Actor".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "pattern": r"^(operator|(service|session):[a-z0-9][a-z0-9._-]{0,63})$"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actors_lead_back_to_their_text() {
        for text in ["operator", "service:launcher", "session:pm-1"] {
            assert_eq!(text.parse::<Actor>().expect(text).to_string(), text);
        }
        for bad in ["", "root", "operator:x", "service:", "service:A", "session:a:b"] {
            assert!(bad.parse::<Actor>().is_err(), "{bad:?}");
        }
    }
}
