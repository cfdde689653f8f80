use std::str::FromStr;

use crate::string_id;

/// A name that people give: of a workspace, session, task, mission, adapter, provider.
///
/// Matches `^[a-z0-9][a-z0-9._-]{0,63}$`, so it is a safe single path component.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// Why a text is no [`Name`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a name: 1 to 64 of a-z 0-9 . _ -, beginning with a letter or digit",
    text.chars().take(80).collect::<String>().escape_debug()
)]
pub struct InvalidName {
    text: String,
}

impl FromStr for Name {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let bytes = text.as_bytes();
        let valid = bytes.first().is_some_and(|&b| is_plain(b))
            && bytes.len() <= 64
            && bytes.iter().all(|&b| is_plain(b) || matches!(b, b'.' | b'_' | b'-'));
        if valid { Ok(Self(text.to_owned())) } else { Err(InvalidName { text: text.to_owned() }) }
    }
}

string_id!(Name, InvalidName, r"^[a-z0-9][a-z0-9._-]{0,63}$");

/// A caller's id of one request: 1 to 128 bytes of printable ASCII without space.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RequestId(String);

impl FromStr for RequestId {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let valid = (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        if valid { Ok(Self(text.to_owned())) } else { Err(InvalidName { text: text.to_owned() }) }
    }
}

string_id!(RequestId, InvalidName, r"^[!-~]{1,128}$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_a_directory_are_refused() {
        for bad in ["", ".", "..", "../x", "a/b", "/a", "-a", ".a", "A", "a b", "a\n", "ä", &"a".repeat(65)] {
            assert!(bad.parse::<Name>().is_err(), "{bad:?}");
        }
        for good in ["a", "0", "a..b", "my-ws_1.2", &"a".repeat(64)] {
            assert!(good.parse::<Name>().is_ok(), "{good:?}");
        }
    }

    #[test]
    fn a_refused_name_is_shown_without_control_characters() {
        let shown = "a\u{1b}[31m".parse::<Name>().expect_err("refused").to_string();
        assert!(!shown.contains('\u{1b}'), "{shown}");
    }
}
