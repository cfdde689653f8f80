//! The chain of hashes.
//!
//! `hash = SHA-256(encoding)`. The encoding is the concatenation of these fields, each preceded by its length in bytes as
//! a big-endian 64-bit number, so that no two events share one:
//!
//! | field         | bytes                                                        |
//! | ---           | ---                                                          |
//! | format        | `mosaic.event.1`                                             |
//! | previous hash | 32 raw bytes; zeros before the first event                   |
//! | sequence      | signed 64-bit big-endian                                     |
//! | event id      | 16 raw bytes of the UUID                                     |
//! | time          | nanoseconds since 1970, signed 64-bit big-endian             |
//! | kind          | UTF-8                                                        |
//! | actor         | UTF-8, `operator`, `service:<name>` or `session:<name>`      |
//! | subject       | UTF-8                                                        |
//! | payload       | UTF-8, byte for byte as stored                               |
//! | trace id      | 32 hex digits, or nothing                                    |

use mosaic_ids::Digest;
use sha2::Digest as _;
use uuid::Uuid;

use super::event::{Draft, Event, to_nanos};

const FORMAT: &[u8] = b"mosaic.event.1";

/// The end of the chain: where the next event goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// Sequence of the last event; 0 for an empty ledger.
    pub(crate) sequence: i64,
    /// Its hash.
    pub(crate) hash: Digest,
}

/// Why an event is not the next of a chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    #[error("events {from} to {to} are missing")]
    Gap { from: i64, to: i64 },
    #[error("does not follow the event before it")]
    NotNext,
    #[error("is not what was hashed")]
    Changed,
}

impl Head {
    /// The head of a ledger without events.
    pub(crate) fn empty() -> Self {
        Self { sequence: 0, hash: Digest::from_hash(&[0; 32]) }
    }

    /// Puts `draft` at the end of the chain.
    pub(crate) fn seal(&mut self, id: Uuid, draft: Draft) -> Event {
        let mut event = Event {
            sequence: self.sequence + 1,
            id,
            time: super::from_nanos(to_nanos(draft.time)),
            kind: draft.kind.to_owned(),
            actor: draft.actor,
            subject: draft.subject,
            payload: draft.payload,
            trace_id: draft.trace_id,
            previous_hash: self.hash.clone(),
            hash: self.hash.clone(),
        };
        event.hash = hash_of(&event);
        *self = Self { sequence: event.sequence, hash: event.hash.clone() };
        event
    }

    /// Moves past `event` and says everything that is wrong with it; what follows is judged from it on, so that one fault
    /// is told once.
    pub(crate) fn check(&mut self, event: &Event) -> Vec<Broken> {
        let mut broken = Vec::new();
        let expected = self.sequence + 1;
        if event.sequence != expected {
            broken.push(Broken::Gap { from: expected, to: event.sequence - 1 });
        } else if event.previous_hash != self.hash {
            broken.push(Broken::NotNext);
        }
        if hash_of(event) != event.hash {
            broken.push(Broken::Changed);
        }
        *self = Self { sequence: event.sequence, hash: event.hash.clone() };
        broken
    }
}

/// The 32 bytes of a hash.
pub(crate) fn raw_hash(digest: &Digest) -> Vec<u8> {
    // A digest has 64 lower-case hex digits and nothing else.
    let value = |digit: u8| if digit.is_ascii_digit() { digit - b'0' } else { digit - b'a' + 10 };
    digest.as_str().as_bytes().chunks_exact(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect()
}

/// Gives `write` the encoding of one field of the table above.
pub(super) fn encode_field(bytes: &[u8], mut write: impl FnMut(&[u8])) {
    write(&(bytes.len() as u64).to_be_bytes());
    write(bytes);
}

fn hash_of(event: &Event) -> Digest {
    let mut sha = sha2::Sha256::new();
    let mut field = |bytes: &[u8]| encode_field(bytes, |part| sha.update(part));
    field(FORMAT);
    field(&raw_hash(&event.previous_hash));
    field(&event.sequence.to_be_bytes());
    field(event.id.as_bytes());
    field(&to_nanos(event.time).to_be_bytes());
    field(event.kind.as_bytes());
    field(event.actor.to_string().as_bytes());
    field(event.subject.as_bytes());
    field(event.payload.as_bytes());
    field(event.trace_id.as_deref().unwrap_or_default().as_bytes());
    Digest::from_hash(&sha.finalize())
}

#[cfg(test)]
mod tests {
    use mosaic_record::Actor;

    use super::*;

    fn draft(payload: &str) -> Draft {
        Draft {
            time: "2026-01-02T03:04:05.678901234Z".parse().expect("timestamp"),
            kind: "run.cancel-requested",
            actor: Actor::Operator,
            subject: "r-test".to_owned(),
            payload: payload.to_owned(),
            trace_id: Some("0af7651916cd43dd8448eb211c80319c".to_owned()),
        }
    }

    fn three() -> [Event; 3] {
        let mut head = Head::empty();
        ["{}", r#"{"kind":"run.cancel-requested"}"#, "ünï"].map(|payload| head.seal(Uuid::from_u128(7), draft(payload)))
    }

    #[test]
    fn the_encoding_of_an_event_never_changes() {
        // Computed independently from the table in the module's documentation.
        let [first, ..] = three();
        assert_eq!(first.hash.as_str(), "e7f630a22674e8388bc51a98e6e995344a1389e399affd287190c01ea0f1080e");
    }

    #[test]
    fn an_untouched_chain_is_whole() {
        let mut head = Head::empty();
        for event in three() {
            assert_eq!(head.check(&event), []);
        }
        assert_eq!(head.sequence, 3);
    }

    #[test]
    fn a_change_of_any_field_is_seen() {
        let [_, second, _] = three();
        let changes: [fn(&mut Event); 9] = [
            |event| event.id = Uuid::from_u128(8),
            |event| event.time = super::super::from_nanos(0),
            |event| event.kind.push('x'),
            |event| event.actor = "service:runner".parse().expect("actor"),
            |event| event.subject.push('x'),
            |event| event.payload.push(' '),
            |event| event.trace_id = None,
            |event| event.previous_hash = Digest::of(b"other"),
            |event| event.hash = Digest::of(b"other"),
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut changed = second.clone();
            change(&mut changed);
            let mut head = Head { sequence: 1, hash: second.previous_hash.clone() };
            assert!(head.check(&changed).contains(&Broken::Changed), "change {number}");
        }
    }

    #[test]
    fn a_missing_event_is_named_once_and_the_rest_is_still_proven() {
        let [first, _, third] = three();
        let mut head = Head::empty();
        assert_eq!(head.check(&first), []);
        assert_eq!(head.check(&third), [Broken::Gap { from: 2, to: 2 }]);
    }

    #[test]
    fn exchanged_events_are_seen() {
        let [first, mut second, mut third] = three();
        (second.sequence, third.sequence) = (3, 2);
        let mut head = Head::empty();
        assert_eq!(head.check(&first), []);
        assert_eq!(head.check(&third), [Broken::NotNext, Broken::Changed]);
        assert_eq!(head.check(&second), [Broken::NotNext, Broken::Changed]);
    }

    #[test]
    fn a_hash_is_thirty_two_bytes() {
        assert_eq!(raw_hash(&Digest::from_hash(&[0xab; 32])), [0xab; 32]);
    }
}
