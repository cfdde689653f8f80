//! Messages that cross to other services.

/// What stands in the place of what was cut.
const CUT: &str = " [cut]";

/// `text`, cut so that it takes at most `limit` bytes.
pub(crate) fn bounded(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit.saturating_sub(CUT.len())));
        text.push_str(CUT);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_beyond_its_limit_is_cut_between_characters_and_says_so() {
        for (text, limit, expected) in [
            ("", 10, ""),
            ("0123456789", 10, "0123456789"),
            ("0123456789a", 10, "0123 [cut]"),
            ("012\u{65e5}\u{65e5}\u{65e5}", 10, "012 [cut]"),
        ] {
            assert_eq!(bounded(text.to_owned(), limit), expected, "{text}");
        }
    }
}
