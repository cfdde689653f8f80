//! Text that came from an agent, made harmless for a terminal.

use std::borrow::Cow;
use std::time::Duration;

/// Replaces control characters, which could move the cursor, hide text or write the clipboard; newlines and tabs stay.
#[must_use]
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(harmful) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().flat_map(|c| if harmful(c) { c.escape_default().collect() } else { vec![c] });
    Cow::Owned(shown.collect())
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
    fn times_are_short() {
        assert_eq!(elapsed(Duration::from_millis(420)), "0.4 s");
        assert_eq!(elapsed(Duration::from_secs(185)), "3 min 05 s");
        assert_eq!(elapsed(Duration::from_secs(7260)), "2 h 01 min");
    }
}
