//! Parsers of what an agent may have written: small, total, and strict. None of them trusts a length, an offset or a text.

mod bundle;
mod config;
mod head;
mod index;
mod packed_refs;

pub use bundle::{BundleHeader, bundle_header};
pub use config::{Entry, parse_config};
pub use head::{Head, parse_head, parse_loose_ref};
pub use index::{Index, IndexEntry, parse_index};
pub use packed_refs::{PackedRef, packed_refs};

/// A text that is not in its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not in its format")]
pub struct Malformed;

/// The id of an object: SHA-1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; 20]);

impl ObjectId {
    /// The id with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// Reads 40 lower-case hex digits and nothing else.
    #[must_use]
    pub fn from_hex(text: &[u8]) -> Option<Self> {
        let (pairs, rest) = text.as_chunks::<2>();
        if pairs.len() != 20 || !rest.is_empty() {
            return None;
        }
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 20];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Self(bytes))
    }
}

impl std::fmt::Display for ObjectId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// True for the name of a branch that is safe in every place that names one: what git itself allows
/// (git-check-ref-format(1)), less everything that could be taken for something else.
#[must_use]
pub fn is_branch_name(name: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./+@=,%#".contains(byte) || *byte >= 0x80;
    let component =
        |part: &[u8]| !part.is_empty() && !part.starts_with(b".") && !part.ends_with(b".lock") && !part.ends_with(b".");
    !name.is_empty()
        && name.len() <= 255
        && !name.starts_with(b"-")
        && name.iter().all(plain)
        && !name.windows(2).any(|pair| pair == b".." || pair == b"@{")
        && name != b"@"
        && name.split(|byte| *byte == b'/').all(component)
        && std::str::from_utf8(name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_something_else_are_no_branches() {
        for good in ["main", "feature/a-b_c.d", "v1+2", "größe"] {
            assert!(is_branch_name(good.as_bytes()), "{good}");
        }
        for bad in [
            "", "-x", "a..b", "a/", "/a", "a//b", ".a", "a/.b", "a.lock", "a.", "@", "a@{1}", "a b", "a~1", "a^",
            "a:b", "a?", "a*", "a[", "a\\b", "a\nb", "$(x)", "a;b", "a'b",
        ] {
            assert!(!is_branch_name(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn ids_are_forty_lower_case_digits() {
        let hex = b"0123456789abcdef0123456789abcdef01234567";
        assert_eq!(ObjectId::from_hex(hex).expect("an id").to_string().as_bytes(), hex);
        for bad in
            [&hex[1..], b"0123456789ABCDEF0123456789abcdef01234567", b"", b"0123456789abcdef0123456789abcdef0123456\n"]
        {
            assert_eq!(ObjectId::from_hex(bad), None);
        }
    }
}
