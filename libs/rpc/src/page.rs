use std::str::FromStr;

/// Items on a page when the caller does not say.
const DEFAULT_PAGE: i32 = 50;
/// Most items on a page.
const LARGEST_PAGE: i32 = 200;

/// Where a list goes on: opaque to the caller, bound to the query that it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageToken {
    /// Key of the last item of the page before.
    pub after: String,
    /// Digest of the query; a token is refused for another one.
    pub query: String,
}

/// Why a text is no [`PageToken`] of this query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the page token is not one that this query returned; begin without a token")]
pub struct InvalidPageToken;

impl PageToken {
    /// A token that goes on after the item with the key `after` in the list that `query` describes.
    #[must_use]
    pub fn new(after: impl Into<String>, query: &str) -> Self {
        Self { after: after.into(), query: fingerprint(query) }
    }

    /// The key after which the list that `query` describes goes on.
    ///
    /// # Errors
    /// When the token came from another query.
    pub fn resume(self, query: &str) -> Result<String, InvalidPageToken> {
        if self.query == fingerprint(query) { Ok(self.after) } else { Err(InvalidPageToken) }
    }
}

fn fingerprint(query: &str) -> String {
    mosaic_ids::Digest::of(query.as_bytes()).as_str()[..16].to_owned()
}

impl std::fmt::Display for PageToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.", self.query)?;
        self.after.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for PageToken {
    type Err = InvalidPageToken;

    fn from_str(text: &str) -> Result<Self, InvalidPageToken> {
        let (query, hex) = text.split_once('.').ok_or(InvalidPageToken)?;
        if hex.len() > 1024 || hex.len() % 2 != 0 || !hex.is_ascii() {
            return Err(InvalidPageToken);
        }
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).map_err(|_not_hex| InvalidPageToken);
        let bytes = (0..hex.len()).step_by(2).map(byte).collect::<Result<Vec<u8>, _>>()?;
        let after = String::from_utf8(bytes).map_err(|_not_text| InvalidPageToken)?;
        Ok(Self { after, query: query.to_owned() })
    }
}

/// Items on a page: 50 when 0 is asked for, at most 200.
///
/// # Errors
/// When the number is negative.
pub fn page_size(asked: i32) -> Result<usize, crate::RpcError> {
    match asked {
        0 => Ok(DEFAULT_PAGE),
        1.. => Ok(asked.min(LARGEST_PAGE)),
        _ => {
            Err(crate::RpcError::invalid(format!("page_size is {asked}; 1 to {LARGEST_PAGE}, or 0 for {DEFAULT_PAGE}")))
        }
    }
    .map(|size| usize::try_from(size).expect("not negative"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leads_back_to_its_position_and_only_in_its_own_query() {
        let text = PageToken::new("r-20260102-ä", "states=running").to_string();
        let token = text.parse::<PageToken>().expect("ours");
        assert_eq!(token.clone().resume("states=running").as_deref(), Ok("r-20260102-ä"));
        assert_eq!(token.resume("states="), Err(InvalidPageToken));
        for bad in ["", "x", ".", "ab.0", "ab.zz", "ab.é1"] {
            assert!(bad.parse::<PageToken>().and_then(|token| token.resume("states=")).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn page_sizes_are_bounded() {
        assert_eq!(page_size(0), Ok(50));
        assert_eq!(page_size(7), Ok(7));
        assert_eq!(page_size(9999), Ok(200));
        page_size(-1).expect_err("negative");
    }
}
