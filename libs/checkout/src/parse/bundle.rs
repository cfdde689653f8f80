use std::io::BufRead;

use super::{Malformed, ObjectId};

/// Longest line of a header, in bytes.
const LINE_BYTES: u64 = 4096;
/// Most lines of a header.
const LINES: usize = 400_000;

/// What the header of a bundle says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BundleHeader {
    /// Commits that whoever takes the bundle must have.
    pub prerequisites: Vec<ObjectId>,
    /// Its refs.
    pub refs: Vec<(String, ObjectId)>,
}

/// Reads the header of a bundle of version 2 (gitformat-bundle(5)); what follows in `from` is its pack.
///
/// # Errors
/// When it is no such header, or has more than anything honest.
pub fn bundle_header(from: &mut impl BufRead) -> Result<BundleHeader, Malformed> {
    let mut header = BundleHeader::default();
    let mut line = Vec::new();
    for number in 0..LINES {
        line.clear();
        let read = std::io::Read::take(&mut *from, LINE_BYTES).read_until(b'\n', &mut line);
        read.map_err(|_unreadable| Malformed)?;
        let line = line.strip_suffix(b"\n").ok_or(Malformed)?;
        match line {
            b"# v2 git bundle" if number == 0 => {}
            _ if number == 0 => return Err(Malformed),
            b"" => return Ok(header),
            [b'-', rest @ ..] => {
                let id = rest.get(..40).and_then(ObjectId::from_hex).ok_or(Malformed)?;
                header.prerequisites.push(id);
            }
            _ => {
                let (id, name) = line.split_at_checked(40).ok_or(Malformed)?;
                let name = name.strip_prefix(b" ").filter(|name| is_ref_name(name)).ok_or(Malformed)?;
                let id = ObjectId::from_hex(id).ok_or(Malformed)?;
                header.refs.push((String::from_utf8_lossy(name).into_owned(), id));
            }
        }
    }
    Err(Malformed)
}

/// True for the names that Mosaic's own bundles have.
fn is_ref_name(name: &[u8]) -> bool {
    name.starts_with(b"refs/") && super::is_branch_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_ends_where_the_pack_begins() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let text = format!("# v2 git bundle\n-{a} what it was\n{b} refs/agent/work\n\nPACK");
        let mut from = text.as_bytes();
        let header = bundle_header(&mut from).expect("a header");
        assert_eq!(header.prerequisites.len(), 1);
        assert_eq!(header.refs, [("refs/agent/work".to_owned(), ObjectId::from_hex(b.as_bytes()).expect("an id"))]);
        assert_eq!(from, b"PACK");
        for bad in [
            "".to_owned(),
            "# v3 git bundle\n\n".to_owned(),
            format!("# v2 git bundle\n{b} refs/a b\n\n"),
            format!("# v2 git bundle\n{b} HEAD\n\n"),
            format!("# v2 git bundle\n{b} refs/../x\n\n"),
            format!("# v2 git bundle\n-{}\n\n", &a[1..]),
            format!("# v2 git bundle\n{b} refs/x\n"),
            format!("# v2 git bundle\n{}", "x".repeat(10_000)),
        ] {
            assert_eq!(bundle_header(&mut bad.as_bytes()), Err(Malformed), "{bad}");
        }
    }
}
