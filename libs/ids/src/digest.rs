use std::str::FromStr;

use sha2::Digest as _;

use crate::string_id;

/// A SHA-256 digest as 64 lower-case hex digits.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

/// Why a text is no [`Digest`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 lower-case hex digits")]
pub struct InvalidDigest;

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_hash(&sha2::Sha256::digest(bytes))
    }

    /// The digest of everything that `reader` has.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn of_reader(reader: &mut impl std::io::Read) -> std::io::Result<Self> {
        let (mut hash, mut buffer) = (sha2::Sha256::new(), vec![0; 64 * 1024]);
        loop {
            let read = reader.read(&mut buffer)?;
            if read == 0 {
                return Ok(Self::from_hash(&hash.finalize()));
            }
            hash.update(&buffer[..read]);
        }
    }

    /// The digest whose 32 raw bytes are `hash`.
    #[must_use]
    pub fn from_hash(hash: &[u8]) -> Self {
        use std::fmt::Write as _;
        let mut hex = String::with_capacity(hash.len() * 2);
        for byte in hash {
            write!(hex, "{byte:02x}").expect("writing to a string can't fail");
        }
        Self(hex)
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let valid = text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if valid { Ok(Self(text.to_owned())) } else { Err(InvalidDigest) }
    }
}

string_id!(Digest, InvalidDigest, r"^[0-9a-f]{64}$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_nothing_is_the_one_of_fips_180_4() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").as_str(), empty);
        assert!("E3B0".parse::<Digest>().is_err());
    }
}
