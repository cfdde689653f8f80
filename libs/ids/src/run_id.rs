use std::str::FromStr;

use crate::string_id;

/// Id of a run: `r-<UTC stamp with milliseconds>-<random>`, which sorts by time of creation.
///
/// Accepted from outside is whatever matches `^r-[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`, a safe single path component.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

/// Why a text is no [`RunId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a run id; one looks like r-20260102T030405678Z-4f9a0c1b2d",
    text.chars().take(80).collect::<String>().escape_debug()
)]
pub struct InvalidRunId {
    text: String,
}

impl RunId {
    /// A new id for a run that is recorded at `now`; `random` makes it unique within the millisecond.
    #[must_use]
    pub fn new(now: jiff::Timestamp, random: u64) -> Self {
        let stamp = now.strftime("%Y%m%dT%H%M%S");
        let millis = now.subsec_millisecond().unsigned_abs();
        Self(format!("r-{stamp}{millis:03}Z-{:010x}", random & 0xff_ffff_ffff))
    }
}

impl FromStr for RunId {
    type Err = InvalidRunId;

    fn from_str(text: &str) -> Result<Self, InvalidRunId> {
        let rest = text.strip_prefix("r-").unwrap_or_default().as_bytes();
        let valid = rest.first().is_some_and(u8::is_ascii_alphanumeric)
            && rest.len() <= 64
            && rest.iter().all(|&b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        if valid { Ok(Self(text.to_owned())) } else { Err(InvalidRunId { text: text.to_owned() }) }
    }
}

string_id!(RunId, InvalidRunId, r"^r-[A-Za-z0-9][A-Za-z0-9._-]{0,63}$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_ids_are_valid_and_sort_by_time() {
        let early = RunId::new("2026-01-02T03:04:05.678Z".parse().expect("timestamp"), u64::MAX);
        let late = RunId::new("2026-01-02T03:04:05.679Z".parse().expect("timestamp"), 0);
        assert_eq!(early.as_str(), "r-20260102T030405678Z-ffffffffff");
        assert!(early < late);
        assert_eq!(early.as_str().parse::<RunId>().as_ref(), Ok(&early));
    }

    #[test]
    fn ids_that_could_leave_a_directory_are_refused() {
        for bad in ["", "r-", "r-/", "r-../x", "../r-a", "r-.a", "R-a", "r-a b", &format!("r-{}", "a".repeat(65))] {
            assert!(bad.parse::<RunId>().is_err(), "{bad:?}");
        }
    }
}
