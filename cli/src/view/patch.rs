//! A patch for people: coloured as git does, and harmless for a terminal.

use super::text::harmless;

/// Longest part of a line that waits for its end, in bytes.
const LINE_BYTES: usize = 64 * 1024;

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Plain,
    Header,
    Hunk,
    Added,
    Removed,
}

impl Look {
    /// The sequence that begins it; none for plain text.
    const fn begin(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Header => "\u{1b}[1m",
            Self::Hunk => "\u{1b}[36m",
            Self::Added => "\u{1b}[32m",
            Self::Removed => "\u{1b}[31m",
        }
    }
}

/// The sequence that ends every look.
const END: &str = "\u{1b}[m";

/// What lines before the hunks of a file begin with.
const HEADERS: [&str; 15] = [
    "diff --git ",
    "index ",
    "--- ",
    "+++ ",
    "old mode ",
    "new mode ",
    "new file mode ",
    "deleted file mode ",
    "similarity index ",
    "dissimilarity index ",
    "rename from ",
    "rename to ",
    "copy from ",
    "copy to ",
    "GIT binary patch",
];

/// Turns a patch that comes in pieces into text for a terminal.
#[derive(Debug)]
pub(crate) struct Painter {
    colors: bool,
    rest: Vec<u8>,
    /// Lines that the hunk still has, before and after.
    hunk: (u64, u64),
    /// How the rest of a line looks whose beginning was shown.
    going_on: Option<Look>,
}

impl Painter {
    /// One that colours, or only makes harmless.
    #[must_use]
    pub(crate) fn new(colors: bool) -> Self {
        Self { colors, rest: Vec::new(), hunk: (0, 0), going_on: None }
    }

    /// The text that is complete with the next piece.
    pub(crate) fn paint(&mut self, piece: &[u8]) -> String {
        let mut text = String::new();
        self.rest.extend_from_slice(piece);
        let buffer = std::mem::take(&mut self.rest);
        let mut lines = buffer.as_slice();
        while let Some(end) = lines.iter().position(|&byte| byte == b'\n') {
            self.part(&lines[..end], &mut text);
            text.push('\n');
            self.going_on = None;
            lines = &lines[end + 1..];
        }
        if lines.len() > LINE_BYTES {
            self.part(lines, &mut text);
        } else {
            self.rest = lines.to_vec();
        }
        text
    }

    /// What is left: a line without an end.
    pub(crate) fn finish(mut self) -> String {
        let mut text = String::new();
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            self.part(&rest, &mut text);
            text.push('\n');
        }
        text
    }

    /// A line, or a part of a long one.
    fn part(&mut self, part: &[u8], text: &mut String) {
        let look = match self.going_on {
            Some(look) => look,
            None => self.look(part),
        };
        self.going_on = Some(look);
        let shown = visible(part);
        if !self.colors || look == Look::Plain || shown.is_empty() {
            return text.push_str(&shown);
        }
        // What follows the numbers of a hunk is a line of the file.
        let coloured = match look {
            Look::Hunk => shown.get(2..).and_then(|rest| rest.find("@@")).map_or(shown.len(), |end| end + 4),
            _ => shown.len(),
        };
        let (coloured, plain) = shown.split_at(coloured);
        text.extend([look.begin(), coloured, END, plain]);
    }

    fn look(&mut self, line: &[u8]) -> Look {
        if self.hunk != (0, 0) {
            let (before, after) = &mut self.hunk;
            return match line.first() {
                Some(b'+') => {
                    *after = after.saturating_sub(1);
                    Look::Added
                }
                Some(b'-') => {
                    *before = before.saturating_sub(1);
                    Look::Removed
                }
                Some(b'\\') => Look::Plain,
                _ => {
                    (*before, *after) = (before.saturating_sub(1), after.saturating_sub(1));
                    Look::Plain
                }
            };
        }
        if let Some(lines) = hunk(line) {
            self.hunk = lines;
            return Look::Hunk;
        }
        if HEADERS.iter().any(|header| line.starts_with(header.as_bytes())) { Look::Header } else { Look::Plain }
    }
}

/// How many lines a hunk has, before and after, by the line that begins it.
fn hunk(line: &[u8]) -> Option<(u64, u64)> {
    let numbers = std::str::from_utf8(line.get(..line.len().min(100))?.split(|&byte| byte == b'@').nth(2)?).ok()?;
    let (before, after) = numbers.trim().strip_prefix('-')?.split_once(" +")?;
    let count = |range: &str| match range.split_once(',') {
        Some((_, count)) => count.parse().ok(),
        None => Some(1),
    };
    line.starts_with(b"@@ ").then_some((count(before)?, count(after)?))
}

/// Bytes as a terminal may have them: what could control it, or deceive who reads it, is spelled out.
fn visible(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(&harmless(chunk.valid()));
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "\
diff --git a/list b/list
index 1..2 100644
--- a/list
+++ b/list
@@ -1,3 +1,2 @@ fn main()
 same
--- a bullet
-gone
+++ new
diff --git a/x b/x
new file mode 100755
--- /dev/null
+++ b/x
@@ -0,0 +1 @@
+last
\\ No newline at end of file
";

    fn painted(colors: bool, pieces: &[&[u8]]) -> String {
        let mut painter = Painter::new(colors);
        let mut text: String = pieces.iter().map(|piece| painter.paint(piece)).collect();
        text.push_str(&painter.finish());
        text
    }

    #[test]
    fn lines_are_coloured_by_what_they_are_and_not_by_what_they_look_like() {
        let text = painted(true, &[PATCH.as_bytes()]);
        let shown: Vec<String> = text.lines().map(|line| line.replace('\u{1b}', "")).collect();
        let expected = [
            "[1mdiff --git a/list b/list[m",
            "[1mindex 1..2 100644[m",
            "[1m--- a/list[m",
            "[1m+++ b/list[m",
            "[36m@@ -1,3 +1,2 @@[m fn main()",
            " same",
            "[31m--- a bullet[m",
            "[31m-gone[m",
            "[32m+++ new[m",
            "[1mdiff --git a/x b/x[m",
            "[1mnew file mode 100755[m",
            "[1m--- /dev/null[m",
            "[1m+++ b/x[m",
            "[36m@@ -0,0 +1 @@[m",
            "[32m+last[m",
            "\\ No newline at end of file",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_patch_looks_the_same_however_it_is_cut() {
        let whole = painted(true, &[PATCH.as_bytes()]);
        for at in 0..PATCH.len() {
            let (head, tail) = PATCH.as_bytes().split_at(at);
            assert_eq!(painted(true, &[head, tail]), whole, "{at}");
        }
        assert_eq!(painted(false, &[PATCH.as_bytes()]), PATCH);
    }

    #[test]
    fn nothing_of_the_content_reaches_the_terminal_as_control() {
        let hostile = b"@@ -0,0 +1,2 @@ \x1b[2J@@\n+\x1b]52;c;eA\x07\r\n+\xff\xe2\x80\xae";
        let text = painted(false, &[hostile]);
        assert_eq!(text, "@@ -0,0 +1,2 @@ \\u{1b}[2J@@\n+\\u{1b}]52;c;eA\\u{7}\\r\n+\\xff\\u{202e}\n");
        let coloured = painted(true, &[hostile]);
        for (at, _) in coloured.match_indices('\u{1b}') {
            let rest = &coloured[at + 1..];
            assert!(["[m", "[36m", "[32m"].iter().any(|own| rest.starts_with(own)), "{coloured:?}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_shown_in_parts_of_one_colour() {
        let long = [b"@@ -0,0 +1 @@\n+".as_slice(), &vec![b'x'; 3 * LINE_BYTES]].concat();
        let text = painted(true, &long.chunks(LINE_BYTES).collect::<Vec<_>>());
        let line = text.lines().nth(1).expect("a line");
        assert_eq!(line.matches('x').count(), 3 * LINE_BYTES);
        assert_eq!(line.matches("\u{1b}[32m").count(), line.matches(END).count());
    }
}
