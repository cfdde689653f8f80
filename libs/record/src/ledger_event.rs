use mosaic_ids::{Digest, Name};

use crate::RunEvent;

/// Everything that happens to the ledger outside of runs. `kind` in the payload names it; the same text is the event's kind.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
pub enum LedgerEvent {
    /// A named session is removed.
    #[serde(rename = "session.pruned")]
    SessionPruned {
        /// Which.
        session: Name,
        /// Bytes on disk that it took.
        freed_bytes: u64,
    },
    /// The ledger was cut.
    #[serde(rename = "ledger.checkpoint")]
    Checkpoint(Checkpoint),
}

/// What proves a ledger whose first events were removed. The event before the first one that was never removed has the
/// sequence and the hash that are named here, and what else is still there of those before it is digested.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Checkpoint {
    /// Sequence of the last event that was removed.
    pub sequence: i64,
    /// Hash of that event.
    pub hash: Digest,
    /// Events before it that are still there, because their runs are.
    pub retained_events: i64,
    /// Digest over their sequences and hashes.
    pub retained_digest: Digest,
    /// Events that were removed since the ledger began.
    pub removed_events: i64,
    /// Runs that were removed since the ledger began.
    pub removed_runs: i64,
    /// Hash of the event that recorded the checkpoint before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Digest>,
    /// Ed25519 key that signed it.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub public_key: String,
    /// Ed25519 signature over all of the above and the event's time.
    #[schemars(regex(pattern = r"^[0-9a-f]{128}$"))]
    pub signature: String,
}

/// The payload of any event.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum AnyEvent {
    /// It happened to a run: the event's subject is the run's id.
    Run(RunEvent),
    /// It happened to the ledger.
    Ledger(LedgerEvent),
}

impl LedgerEvent {
    /// Subject of everything that happens to the ledger itself.
    pub const LEDGER: &'static str = "ledger";

    /// The event's kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::SessionPruned { .. } => "session.pruned",
            Self::Checkpoint(_) => "ledger.checkpoint",
        }
    }

    /// The event's subject: `session:<name>` or [`LEDGER`](Self::LEDGER), which no run's id looks like.
    #[must_use]
    pub fn subject(&self) -> String {
        match self {
            Self::SessionPruned { session, .. } => format!("session:{session}"),
            Self::Checkpoint(_) => Self::LEDGER.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use mosaic_ids::RunId;

    use super::*;

    fn one_of_each() -> [LedgerEvent; 2] {
        let checkpoint = Checkpoint {
            sequence: 7,
            hash: Digest::of(b"7"),
            retained_events: 2,
            retained_digest: Digest::of(b"r"),
            removed_events: 5,
            removed_runs: 1,
            previous: None,
            public_key: "a".repeat(64),
            signature: "b".repeat(128),
        };
        let session = LedgerEvent::SessionPruned { session: "talk".parse().expect("name"), freed_bytes: 7 };
        [session, LedgerEvent::Checkpoint(checkpoint)]
    }

    #[test]
    fn every_event_survives_json_names_its_kind_and_is_of_no_run() {
        for event in one_of_each() {
            let json = serde_json::to_value(&event).expect("serializes");
            assert_eq!(json["kind"], event.kind());
            event.subject().parse::<RunId>().expect_err("no run");
            let any: AnyEvent = serde_json::from_value(json.clone()).expect("parses");
            assert_eq!(any, AnyEvent::Ledger(event.clone()));
            assert_eq!(serde_json::from_value::<LedgerEvent>(json).expect("parses"), event);
        }
    }

    #[test]
    fn any_event_may_be_one_of_a_run() {
        let any: AnyEvent = serde_json::from_str(r#"{"kind":"run.turn-done"}"#).expect("parses");
        assert_eq!(any, AnyEvent::Run(RunEvent::TurnDone {}));
    }
}
