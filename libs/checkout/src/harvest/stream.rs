//! The stream that git-fast-import(1) makes snapshots from: any name, any bytes, no filter.

use std::io::{Result, Write};

use super::files::{Changed, Opener};

/// A commit in the making.
#[derive(Debug, Clone, Copy)]
pub(super) struct Snapshot<'a> {
    /// Its ref.
    pub(super) name: &'a str,
    /// The commit that it is made from; none for one with nothing else.
    pub(super) from: Option<&'a str>,
    /// Seconds since 1970 at which it is dated.
    pub(super) date: i64,
    /// Files of `from` that are gone.
    pub(super) removed: &'a [Vec<u8>],
    /// Files with their content.
    pub(super) files: &'a [Changed],
}

/// Writes snapshots, and that this is all.
pub(super) fn write(to: &mut dyn Write, snapshots: &[Snapshot<'_>], opener: &mut Opener<'_>) -> Result<()> {
    to.write_all(b"feature done\n")?;
    for snapshot in snapshots {
        commit(to, snapshot, opener)?;
    }
    to.write_all(b"done\n")?;
    to.flush()
}

fn commit(to: &mut dyn Write, snapshot: &Snapshot<'_>, opener: &mut Opener<'_>) -> Result<()> {
    let Snapshot { name, from, date, removed, files } = snapshot;
    writeln!(to, "commit {name}")?;
    writeln!(to, "committer Mosaic <mosaic@localhost> {date} +0000")?;
    writeln!(to, "data <<END\n{name}\nEND\n")?;
    if let Some(from) = from {
        writeln!(to, "from {from}")?;
    }
    // A file makes room for a directory, and the other way round.
    for path in *removed {
        writeln!(to, "D {}", quoted(path))?;
    }
    for changed in *files {
        writeln!(to, "M {:o} inline {}", changed.mode, quoted(&changed.path))?;
        writeln!(to, "data {}", changed.size)?;
        opener.copy(changed, to)?;
        to.write_all(b"\n")?;
    }
    Ok(())
}

/// A path as git quotes it: what is not plain, as octal digits.
pub(super) fn quoted(path: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in path {
        match byte {
            b'"' | b'\\' => {
                text.push('\\');
                text.push(char::from(*byte));
            }
            b' '..=b'~' => text.push(char::from(*byte)),
            other => text.push_str(&format!("\\{other:03o}")),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_as_git_reads_them() {
        assert_eq!(quoted(b"a b"), "\"a b\"");
        assert_eq!(quoted(b"q\"\\\n\xff"), "\"q\\\"\\\\\\012\\377\"");
    }
}
