//! The response: what an adapter wrote to standard output, as a record shows it.

use mosaic_record::RESPONSE_SHOWN_BYTES;

/// A response as a record shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    /// The text; invalid UTF-8 is replaced.
    pub(crate) text: String,
    /// True when it is not all of it.
    pub(crate) truncated: bool,
}

/// Bytes of the beginning of standard output that [`shown`] needs at most.
pub(crate) const NEEDED_BYTES: usize = RESPONSE_SHOWN_BYTES + 4;

/// What is shown of a response of `length` bytes (newlines at the end are not part of it) whose beginning is `beginning`.
pub(crate) fn shown(beginning: &[u8], length: u64) -> Response {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let there = &beginning[..beginning.len().min(length)];
    let cut = &there[..there.len().min(RESPONSE_SHOWN_BYTES)];
    let mut truncated = cut.len() < length;
    let whole = if truncated { without_split_character(cut) } else { cut };
    let mut text = String::from_utf8_lossy(whole).into_owned();
    // A replaced byte takes three.
    if text.len() > RESPONSE_SHOWN_BYTES {
        text.truncate(text.floor_char_boundary(RESPONSE_SHOWN_BYTES));
        truncated = true;
    }
    Response { text, truncated }
}

/// `bytes` without a character at the end that the cut has split.
fn without_split_character(bytes: &[u8]) -> &[u8] {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let needed = match bytes[at] {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            0x80..=0xBF => continue,
            _ => return bytes,
        };
        return if needed > back { &bytes[..at] } else { bytes };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_shown_as_it_is() {
        for text in ["", "ok", "日本 🦀", "a\u{2028}b\r\n\u{1b}[31m", "nul\0"] {
            let response = shown(text.as_bytes(), text.len() as u64);
            assert_eq!(response, Response { text: text.to_owned(), truncated: false });
        }
        assert_eq!(shown(b"ok\n\n", 2).text, "ok");
        assert_eq!(shown(b"a\xff\xfeb", 4).text, "a\u{fffd}\u{fffd}b");
    }

    #[test]
    fn a_cut_at_every_offset_never_splits_a_character() {
        let pattern = "aé日🦀";
        let long = pattern.repeat(RESPONSE_SHOWN_BYTES / pattern.len() + 2);
        for shift in 0..pattern.len() {
            let text = format!("{}{long}", "x".repeat(shift));
            let response = shown(&text.as_bytes()[..NEEDED_BYTES], text.len() as u64);
            assert!(response.truncated);
            assert!(text.starts_with(&response.text), "shift {shift}");
            assert!(response.text.len() > RESPONSE_SHOWN_BYTES - 4, "shift {shift}");
        }
    }

    #[test]
    fn garbage_stays_within_the_limit() {
        let garbage = vec![0xff; RESPONSE_SHOWN_BYTES];
        let response = shown(&garbage, garbage.len() as u64);
        assert!(response.truncated && response.text.len() <= RESPONSE_SHOWN_BYTES);
        assert!(shown(b"\x80\x80\x80", 9).truncated);
    }
}
