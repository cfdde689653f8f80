//! Where the ledger was cut, and what proves it.
//!
//! A cut removes the events of whole runs. What is left of the events up to the cut is digested, the hash of the cut's own
//! event is kept, and both are signed. The signature covers the concatenation of these fields, each preceded by its length
//! as in `chain`:
//!
//! | field           | bytes                                                                                |
//! | ---             | ---                                                                                  |
//! | format          | `mosaic.checkpoint.1`                                                                |
//! | sequence        | signed 64-bit big-endian, of the last event that was removed                         |
//! | hash            | 32 raw bytes, of that event                                                          |
//! | retained events | how many are left up to there, signed 64-bit big-endian                              |
//! | retained digest | SHA-256 over sequence (signed 64-bit big-endian) and hash (32 raw bytes) of each     |
//! | removed events  | since the ledger began, signed 64-bit big-endian                                     |
//! | removed runs    | since the ledger began, signed 64-bit big-endian                                     |
//! | previous        | hash of the event of the checkpoint before, 32 raw bytes; nothing for the first      |
//! | time            | of the checkpoint's event, nanoseconds since 1970, signed 64-bit big-endian          |
//! | public key      | 32 raw bytes                                                                         |

use ed25519_dalek::{Signature, Signer as _, SigningKey};
use jiff::Timestamp;
use mosaic_ids::{Digest, RunId};
use mosaic_record::{Checkpoint, LedgerEvent};
use sha2::Digest as _;

use super::chain::encode_field;
use super::{Event, raw_hash, to_nanos};

const FORMAT: &[u8] = b"mosaic.checkpoint.1";

/// What signs where the ledger was cut. `Debug` shows the public half.
#[derive(Clone)]
pub(crate) struct CutKey(SigningKey);

/// A checkpoint in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// What it says.
    pub(crate) checkpoint: Checkpoint,
    /// When it was recorded.
    pub(crate) time: Timestamp,
    /// Sequence of the event that recorded it.
    pub(crate) sequence: i64,
    /// Hash of that event.
    pub(crate) hash: Digest,
}

/// Why a checkpoint proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Forged {
    #[error("is not what is called a checkpoint")]
    NotOne,
    #[error("was signed by another key than `credentials/ledger.key`")]
    OtherKey,
    #[error("is not what was signed")]
    Changed,
    #[error("does not add up: {retained} events left and {removed} removed are not {sequence}")]
    Miscounted { retained: i64, removed: i64, sequence: i64 },
}

/// A cut that is planned: everything about it but its time and signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CutPlan {
    /// Hash of the event of the checkpoint before it.
    pub(crate) previous: Option<Digest>,
    /// The runs that go.
    pub(crate) runs: Vec<RunId>,
    /// Sequence of the last event that goes.
    pub(crate) sequence: i64,
    /// Its hash.
    pub(crate) hash: Digest,
    /// What is left up to there.
    pub(crate) retained: Retained,
    /// Events that go.
    pub(crate) events: i64,
    /// Events that went before.
    pub(crate) events_before: i64,
    /// Runs that went before.
    pub(crate) runs_before: i64,
}

/// The events that are left up to a cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Retained {
    /// How many.
    pub(crate) events: i64,
    /// Digest over their sequences and hashes.
    pub(crate) digest: Digest,
}

/// Takes events that are left, in order, and digests them.
#[derive(Debug, Clone, Default)]
pub(crate) struct RetainedWalk {
    sha: sha2::Sha256,
    events: i64,
}

impl RetainedWalk {
    /// Takes the next one.
    pub(crate) fn event(&mut self, sequence: i64, hash: &Digest) {
        self.sha.update(sequence.to_be_bytes());
        self.sha.update(raw_hash(hash));
        self.events += 1;
    }

    /// All that was taken.
    pub(crate) fn finish(self) -> Retained {
        Retained { events: self.events, digest: Digest::from_hash(&self.sha.finalize()) }
    }
}

impl CutKey {
    /// The key with this secret.
    pub(crate) fn new(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// The checkpoint of `plan`, recorded at `time`.
    pub(crate) fn sign(&self, plan: &CutPlan, time: Timestamp) -> Checkpoint {
        let mut checkpoint = Checkpoint {
            sequence: plan.sequence,
            hash: plan.hash.clone(),
            retained_events: plan.retained.events,
            retained_digest: plan.retained.digest.clone(),
            removed_events: plan.events_before + plan.events,
            removed_runs: plan.runs_before + i64::try_from(plan.runs.len()).unwrap_or(i64::MAX),
            previous: plan.previous.clone(),
            public_key: hex(self.public()),
            signature: String::new(),
        };
        checkpoint.signature = hex(&self.0.sign(&signed_bytes(&checkpoint, time, self.public())).to_bytes());
        checkpoint
    }

    /// Proves that this key signed `recorded` as it is.
    pub(crate) fn prove(&self, recorded: &Recorded) -> Result<(), Forged> {
        let checkpoint = &recorded.checkpoint;
        if checkpoint.public_key != hex(self.public()) {
            return Err(Forged::OtherKey);
        }
        let signature = from_hex::<64>(&checkpoint.signature).ok_or(Forged::Changed)?;
        let signed = signed_bytes(checkpoint, recorded.time, self.public());
        let signature = Signature::from_bytes(&signature);
        self.0.verify_strict(&signed, &signature).map_err(|_invalid| Forged::Changed)?;
        let (retained, removed) = (checkpoint.retained_events, checkpoint.removed_events);
        if retained.checked_add(removed) != Some(checkpoint.sequence) {
            return Err(Forged::Miscounted { retained, removed, sequence: checkpoint.sequence });
        }
        Ok(())
    }

    fn public(&self) -> &[u8; 32] {
        self.0.as_ref().as_bytes()
    }
}

impl std::fmt::Debug for CutKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CutKey({})", hex(self.public()))
    }
}

impl Recorded {
    /// The checkpoint that `event` recorded.
    pub(crate) fn of(event: &Event) -> Result<Self, Forged> {
        match event.ledger_event() {
            Ok(LedgerEvent::Checkpoint(checkpoint)) if event.kind == "ledger.checkpoint" => {
                Ok(Self { checkpoint, time: event.time, sequence: event.sequence, hash: event.hash.clone() })
            }
            _ => Err(Forged::NotOne),
        }
    }

    /// First sequence from which on no event was removed.
    pub(crate) fn first_whole(&self) -> i64 {
        self.checkpoint.sequence.saturating_add(1)
    }

    /// The key that it says signed it, 32 bytes; none when it says no key.
    pub(crate) fn public_key(&self) -> Option<[u8; 32]> {
        from_hex(&self.checkpoint.public_key)
    }
}

fn signed_bytes(checkpoint: &Checkpoint, time: Timestamp, public_key: &[u8; 32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut field = |value: &[u8]| encode_field(value, |part| bytes.extend_from_slice(part));
    field(FORMAT);
    field(&checkpoint.sequence.to_be_bytes());
    field(&raw_hash(&checkpoint.hash));
    field(&checkpoint.retained_events.to_be_bytes());
    field(&raw_hash(&checkpoint.retained_digest));
    field(&checkpoint.removed_events.to_be_bytes());
    field(&checkpoint.removed_runs.to_be_bytes());
    field(&checkpoint.previous.as_ref().map(raw_hash).unwrap_or_default());
    field(&to_nanos(time).to_be_bytes());
    field(public_key);
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that `text` spells in lower-case hex.
fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = value(*high)? << 4 | value(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> CutKey {
        CutKey::new(&[7; 32])
    }

    fn plan() -> CutPlan {
        CutPlan {
            previous: None,
            runs: vec!["r-1".parse().expect("run id")],
            sequence: 9,
            hash: Digest::of(b"9"),
            retained: Retained { events: 4, digest: Digest::of(b"left") },
            events: 3,
            events_before: 2,
            runs_before: 1,
        }
    }

    fn recorded() -> Recorded {
        let time = "2026-01-02T03:04:05.678901234Z".parse().expect("timestamp");
        Recorded { checkpoint: key().sign(&plan(), time), time, sequence: 20, hash: Digest::of(b"20") }
    }

    #[test]
    fn what_was_signed_is_proven_by_the_key_that_signed_it_and_no_other() {
        assert_eq!(key().prove(&recorded()), Ok(()));
        assert_eq!(CutKey::new(&[8; 32]).prove(&recorded()), Err(Forged::OtherKey));
        let mut claimed = recorded();
        claimed.checkpoint.public_key = hex(CutKey::new(&[8; 32]).public());
        assert_eq!(CutKey::new(&[8; 32]).prove(&claimed), Err(Forged::Changed));
    }

    #[test]
    fn a_change_of_anything_that_was_signed_is_seen() {
        let changes: [fn(&mut Recorded); 9] = [
            |recorded| recorded.checkpoint.sequence += 1,
            |recorded| recorded.checkpoint.hash = Digest::of(b"other"),
            |recorded| recorded.checkpoint.retained_events += 1,
            |recorded| recorded.checkpoint.retained_digest = Digest::of(b"other"),
            |recorded| recorded.checkpoint.removed_events += 1,
            |recorded| recorded.checkpoint.removed_runs += 1,
            |recorded| recorded.checkpoint.previous = Some(Digest::of(b"other")),
            |recorded| recorded.checkpoint.signature = "0".repeat(128),
            |recorded| recorded.time = Timestamp::UNIX_EPOCH,
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut changed = recorded();
            change(&mut changed);
            assert_eq!(key().prove(&changed), Err(Forged::Changed), "change {number}");
        }
    }

    #[test]
    fn what_does_not_add_up_proves_nothing_whoever_signed_it() {
        let time = recorded().time;
        let checkpoint = key().sign(&CutPlan { events: 4, ..plan() }, time);
        let miscounted = Recorded { checkpoint, ..recorded() };
        assert_eq!(key().prove(&miscounted), Err(Forged::Miscounted { retained: 4, removed: 6, sequence: 9 }));
    }

    #[test]
    fn the_digest_of_what_is_left_depends_on_every_sequence_and_hash() {
        let digest = |events: &[(i64, &[u8])]| {
            let mut walk = RetainedWalk::default();
            events.iter().for_each(|(sequence, hash)| walk.event(*sequence, &Digest::of(hash)));
            walk.finish()
        };
        let both = digest(&[(1, b"a"), (4, b"b")]);
        assert_eq!(both.events, 2);
        for other in [digest(&[(1, b"a")]), digest(&[(1, b"a"), (5, b"b")]), digest(&[(1, b"a"), (4, b"c")])] {
            assert_ne!(both.digest, other.digest);
        }
    }

    #[test]
    fn hex_is_lower_case_and_of_the_right_length() {
        assert_eq!(from_hex::<2>("0aff"), Some([10, 255]));
        for bad in ["", "0a", "0aff0", "0aff00", "0AFF", "0axx"] {
            assert_eq!(from_hex::<2>(bad), None, "{bad}");
        }
    }
}
