use jiff::Timestamp;
use mosaic_ids::Digest;
use mosaic_record::{Actor, EventMeta, LedgerEvent, RunEvent};
use uuid::Uuid;

/// One entry of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// Position in the ledger, from 1, without a gap.
    pub(crate) sequence: i64,
    /// UUID version 7.
    pub(crate) id: Uuid,
    /// By the clock of whoever saw it; whole nanoseconds that fit 64 bits.
    pub(crate) time: Timestamp,
    /// What happened.
    pub(crate) kind: String,
    /// Who caused it.
    pub(crate) actor: Actor,
    /// What it happened to: a run's id, or what [`LedgerEvent::subject`] says.
    pub(crate) subject: String,
    /// JSON, byte for byte as it is hashed.
    pub(crate) payload: String,
    /// W3C trace id.
    pub(crate) trace_id: Option<String>,
    /// Hash of the event before.
    pub(crate) previous_hash: Digest,
    /// Hash of this one.
    pub(crate) hash: Digest,
}

impl Event {
    /// What a record needs of it beside its payload.
    pub(crate) fn meta(&self) -> EventMeta {
        EventMeta { time: self.time, actor: self.actor.clone(), trace_id: self.trace_id.clone() }
    }

    /// True when it happened to a run.
    pub(crate) fn is_of_run(&self) -> bool {
        is_of_run(&self.subject)
    }

    /// True when it happened to the ledger, and subject and kind are those of its payload.
    pub(crate) fn is_of_ledger(&self) -> bool {
        self.ledger_event().is_ok_and(|event| event.kind() == self.kind && event.subject() == self.subject)
    }

    /// Its payload, for one that happened to a run.
    pub(crate) fn run_event(&self) -> Result<RunEvent, serde_json::Error> {
        serde_json::from_str(&self.payload)
    }

    /// Its payload, for one that happened to the ledger.
    pub(crate) fn ledger_event(&self) -> Result<LedgerEvent, serde_json::Error> {
        serde_json::from_str(&self.payload)
    }
}

/// True for the subject of what happens to a run, whether or not there is such a run.
pub(crate) fn is_of_run(subject: &str) -> bool {
    subject.starts_with("r-")
}

/// An event that has no place in the chain yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Draft {
    /// When it happened.
    pub(crate) time: Timestamp,
    /// What happened.
    pub(crate) kind: &'static str,
    /// Who caused it.
    pub(crate) actor: Actor,
    /// What it happened to.
    pub(crate) subject: String,
    /// JSON.
    pub(crate) payload: String,
    /// W3C trace id.
    pub(crate) trace_id: Option<String>,
}

impl Draft {
    /// Something that happens to the ledger.
    pub(crate) fn of_ledger(time: Timestamp, actor: Actor, event: &LedgerEvent) -> Self {
        Self {
            time,
            kind: event.kind(),
            actor,
            subject: event.subject(),
            payload: serde_json::to_string(event).expect("an event has string keys and no failing type"),
            trace_id: None,
        }
    }
}

/// Nanoseconds since 1970; a time beyond the years 1677 to 2262 becomes the nearest that 64 bits hold.
pub(crate) fn to_nanos(time: Timestamp) -> i64 {
    let nanos = time.as_nanosecond();
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

/// The inverse of [`to_nanos`].
pub(crate) fn from_nanos(nanos: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(nanos))
        .expect("the range of a timestamp is wider than 64 bits of nanoseconds")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_lead_back_to_themselves_and_far_ones_to_the_nearest() {
        let time: Timestamp = "2026-01-02T03:04:05.678901234Z".parse().expect("timestamp");
        assert_eq!(from_nanos(to_nanos(time)), time);
        assert_eq!(to_nanos(Timestamp::MAX), i64::MAX);
        assert_eq!(to_nanos(from_nanos(i64::MIN)), i64::MIN);
    }
}
