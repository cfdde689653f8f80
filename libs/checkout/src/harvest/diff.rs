//! What differs between two commits, as a contained git says it.

use std::collections::HashMap;

use super::repository::Repository;
use crate::git::Failed;
use crate::parse::ObjectId;

/// A path that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delta {
    /// Path below the tree.
    pub(crate) path: Vec<u8>,
    /// `A`dded, `D`eleted, `M`odified, or of another `T`ype.
    pub(crate) status: u8,
    /// Modes before and after; 0 for none.
    pub(crate) before: u32,
    pub(crate) mode: u32,
    /// The object after.
    pub(crate) id: ObjectId,
    /// Lines added and removed; none of a binary file.
    pub(crate) lines: Option<(u64, u64)>,
}

/// Lists what differs from `from` to `to`, in ascending order of path.
pub(crate) fn between(repository: &Repository<'_>, from: &str, to: &str) -> Result<Vec<Delta>, Failed> {
    let line = ["diff-tree", "-r", "-z", "--raw", "--numstat", "--no-renames", "--no-abbrev", "--no-ext-diff"];
    let line: Vec<&str> = line.into_iter().chain(["--no-textconv", from, to]).collect();
    let listed = repository.git(&line, b"")?.bytes;
    let malformed = || Failed::Start {
        program: "git diff-tree".to_owned(),
        source: std::io::Error::other("it wrote what it does not write"),
    };
    parse(&listed).ok_or_else(malformed)
}

/// First `:<mode> <mode> <id> <id> <status>`, path for each, then `<added>\t<removed>\t<path>`; see git-diff-tree(1).
fn parse(listed: &[u8]) -> Option<Vec<Delta>> {
    let mut fields = listed.split(|byte| *byte == 0).peekable();
    let mut deltas = Vec::new();
    while let Some(facts) = fields.next_if(|field| field.starts_with(b":")) {
        let mut facts = std::str::from_utf8(&facts[1..]).ok()?.split(' ');
        let (before, mode) = (facts.next()?, facts.next()?);
        let (_, id, status) = (facts.next()?, facts.next()?, facts.next()?);
        deltas.push(Delta {
            path: fields.next()?.to_vec(),
            status: *status.as_bytes().first()?,
            before: u32::from_str_radix(before, 8).ok()?,
            mode: u32::from_str_radix(mode, 8).ok()?,
            id: ObjectId::from_hex(id.as_bytes())?,
            lines: None,
        });
    }
    let mut counts = HashMap::new();
    for line in fields.filter(|line| !line.is_empty()) {
        let mut parts = line.splitn(3, |byte| *byte == b'\t');
        let number = |part: &[u8]| std::str::from_utf8(part).ok()?.parse::<u64>().ok();
        let (added, removed, path) = (parts.next()?, parts.next()?, parts.next()?);
        if let (Some(added), Some(removed)) = (number(added), number(removed)) {
            counts.insert(path, (added, removed));
        }
    }
    for delta in &mut deltas {
        delta.lines = counts.get(delta.path.as_slice()).copied();
    }
    Some(deltas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lists_are_read_together() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let text =
            format!(":100644 000000 {a} {b} D\0gone\0:000000 100755 {a} {b} A\0x\ty\n\0000\t3\tgone\0-\t-\tx\ty\n\0");
        let deltas = parse(text.as_bytes()).expect("well formed");
        assert_eq!((deltas[0].status, deltas[0].lines), (b'D', Some((0, 3))));
        assert_eq!((deltas[1].path.as_slice(), deltas[1].mode, deltas[1].lines), (&b"x\ty\n"[..], 0o100_755, None));
        assert_eq!(parse(b""), Some(vec![]));
        assert_eq!(parse(b":100644 x"), None);
    }
}
