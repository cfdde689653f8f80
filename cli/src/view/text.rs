//! Text that came from an agent, made harmless for a terminal.

use std::borrow::Cow;
use std::time::Duration;

/// Replaces control characters, which could move the cursor, hide text or write the clipboard; newlines and tabs stay.
#[must_use]
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    // Characters without width or with a direction of their own can hide or turn around what is read.
    let deceiving =
        |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    let harmful = |c: char| (c.is_control() && c != '\n' && c != '\t') || deceiving(c);
    if !text.contains(harmful) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().flat_map(|c| if harmful(c) { c.escape_default().collect() } else { vec![c] });
    Cow::Owned(shown.collect())
}

/// Turns chunks of a stream into text. A character that is split between two chunks waits for its rest; bytes that are no
/// UTF-8 become U+FFFD.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    rest: Vec<u8>,
}

impl Decoder {
    /// The text that is complete with the next chunk.
    pub(crate) fn decode(&mut self, chunk: &[u8]) -> String {
        self.rest.extend_from_slice(chunk);
        let complete = self.rest.len() - incomplete_tail(&self.rest);
        let text = String::from_utf8_lossy(&self.rest[..complete]).into_owned();
        self.rest.drain(..complete);
        text
    }

    /// What is left at the end of the stream, or where bytes are missing.
    pub(crate) fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.rest).into_owned();
        self.rest.clear();
        text
    }
}

/// Bytes at the end that may be the beginning of a character; at most three.
fn incomplete_tail(bytes: &[u8]) -> usize {
    let last = &bytes[bytes.len().saturating_sub(3)..];
    match std::str::from_utf8(last) {
        Err(error) if error.error_len().is_none() => last.len() - error.valid_up_to(),
        Err(_) => (1..=last.len()).find(|&tail| is_beginning(&last[last.len() - tail..])).unwrap_or(0),
        Ok(_) => 0,
    }
}

fn is_beginning(bytes: &[u8]) -> bool {
    matches!(std::str::from_utf8(bytes), Err(error) if error.error_len().is_none() && error.valid_up_to() == 0)
}

/// `0.4 s`, `12 s`, `3 min 05 s`.
#[must_use]
pub(crate) fn elapsed(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..120 => format!("{seconds} s"),
        120..7200 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escape_sequence_does_not_reach_the_terminal() {
        assert_eq!(harmless("plain\n\ttext ä 漢"), "plain\n\ttext ä 漢");
        assert_eq!(harmless("a\u{1b}]52;c;eA\u{7}b\rc\u{9b}"), "a\\u{1b}]52;c;eA\\u{7}b\\rc\\u{9b}");
    }

    #[test]
    fn characters_survive_every_split_and_other_bytes_are_replaced() {
        let text = "a\u{e4}\u{6f22}\u{1F980}z";
        for at in 0..=text.len() {
            let mut decoder = Decoder::default();
            let (head, tail) = text.as_bytes().split_at(at);
            let whole = decoder.decode(head) + &decoder.decode(tail) + &decoder.finish();
            assert_eq!(whole, text, "split at {at}");
        }
        let mut decoder = Decoder::default();
        let broken = decoder.decode(b"a\xff\xfeb\xe6\xbc") + &decoder.finish();
        assert_eq!(broken, "a\u{fffd}\u{fffd}b\u{fffd}");
    }

    #[test]
    fn times_are_short() {
        assert_eq!(elapsed(Duration::from_millis(420)), "0.4 s");
        assert_eq!(elapsed(Duration::from_secs(185)), "3 min 05 s");
        assert_eq!(elapsed(Duration::from_secs(7260)), "2 h 01 min");
    }
}
