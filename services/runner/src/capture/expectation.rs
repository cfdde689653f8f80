/// Compares a stream with the one response that counts, byte by byte as it comes, whatever is kept of it.
#[derive(Debug, Clone)]
pub(crate) struct Expectation {
    expected: Vec<u8>,
    matched: usize,
    differs: bool,
}

impl Expectation {
    /// `expected` is the response, which is the stream without newlines at its end.
    pub(crate) fn new(expected: impl Into<Vec<u8>>) -> Self {
        Self { expected: expected.into(), matched: 0, differs: false }
    }

    /// Takes what comes next.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let left = &self.expected[self.matched..];
        let within = bytes.len().min(left.len());
        let (compared, beyond) = bytes.split_at(within);
        self.differs |= compared != &left[..within] || beyond.iter().any(|&byte| byte != b'\n');
        self.matched += within;
    }

    /// True when the stream, if it ends now, holds the expected response.
    pub(crate) fn holds(&self) -> bool {
        !self.differs && self.matched == self.expected.len() && self.expected.last() != Some(&b'\n')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_count_but_newlines_at_the_end_however_the_stream_is_cut() {
        for (expected, stream, holds) in [
            ("ok", "ok", true),
            ("ok", "ok\n", true),
            ("ok", "ok\n\n\n", true),
            ("ok", "ok\r\n", false),
            ("ok", "ok \n", false),
            ("ok", " ok", false),
            ("ok", "o", false),
            ("ok", "ok\nx", false),
            ("ok\n", "ok\n", false),
            ("", "", true),
            ("", "\n", true),
            ("a\nb", "a\nb\n", true),
            ("a\nb", "a\n\nb", false),
            ("日本", "日本\n", true),
        ] {
            for cut in 0..=stream.len() {
                let mut expectation = Expectation::new(expected);
                expectation.feed(&stream.as_bytes()[..cut]);
                expectation.feed(&stream.as_bytes()[cut..]);
                assert_eq!(expectation.holds(), holds, "{expected:?} {stream:?} cut at {cut}");
            }
        }
    }
}
