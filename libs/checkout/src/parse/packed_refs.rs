use super::{Malformed, ObjectId};

/// One line of `packed-refs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedRef<'a> {
    /// Full name of the ref, as it is written.
    pub name: &'a [u8],
    /// What it names.
    pub id: ObjectId,
}

/// The refs of a `packed-refs` file in its order, without a claim that they are sorted or named once.
///
/// Each item is an error when its line is none that git writes.
pub fn packed_refs(content: &[u8]) -> impl Iterator<Item = Result<PackedRef<'_>, Malformed>> {
    let lines = content.strip_suffix(b"\n").unwrap_or(content).split(|byte| *byte == b'\n');
    lines.filter(|line| !content.is_empty() && !line.starts_with(b"#")).filter_map(|line| {
        if let Some(peeled) = line.strip_prefix(b"^") {
            return ObjectId::from_hex(peeled).is_none().then_some(Err(Malformed));
        }
        let Some((id, rest)) = line.split_at_checked(40) else { return Some(Err(Malformed)) };
        let name = rest.strip_prefix(b" ").filter(|name| !name.is_empty());
        Some(match (ObjectId::from_hex(id), name) {
            (Some(id), Some(name)) => Ok(PackedRef { name, id }),
            _ => Err(Malformed),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_ref_a_comment_or_a_peeled_tag() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let text = format!("# pack-refs with: peeled sorted \n{a} refs/heads/main\n{b} refs/tags/v1\n^{a}\n");
        let names: Vec<_> =
            packed_refs(text.as_bytes()).map(|found| found.expect("well formed").name.to_vec()).collect();
        assert_eq!(names, [b"refs/heads/main".to_vec(), b"refs/tags/v1".to_vec()]);
        assert_eq!(packed_refs(b"").count(), 0);
        for bad in [
            format!("{a}\n"),
            format!("{a} \n"),
            format!("{a}\trefs/x\n"),
            "x refs/heads/main\n".into(),
            "^x\n".into(),
            "\n\n".into(),
        ] {
            assert!(packed_refs(bad.as_bytes()).any(|found| found.is_err()), "{bad:?}");
        }
    }
}
