//! What must hold of the parsers of clone data, whatever they are given: one function each, for ordinary tests and for
//! cargo-fuzz (`fuzz/`). They panic where something does not hold.

use crate::parse::{Head, is_branch_name, packed_refs, parse_config, parse_head, parse_index, parse_loose_ref};

/// A configuration: lower-case names, in memory that the text's size bounds.
///
/// # Panics
/// When that does not hold.
pub fn config(content: &[u8]) {
    let Ok(entries) = parse_config(content) else { return };
    let lines = content.split(|byte| *byte == b'\n').count();
    assert!(entries.len() <= lines);
    let mut own = 0;
    for entry in &entries {
        let (name, sub) = entry.section.split_once('.').unwrap_or((&entry.section, ""));
        let plain = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        };
        assert!(plain(name) && plain(&entry.key), "{entry:?}");
        assert!(!sub.contains(['\n', '\0', '"', '\\']) && entry.section.len() <= 1024, "{entry:?}");
        assert!(entry.value.as_ref().is_none_or(|value| !value.contains('\0')), "{entry:?}");
        own += entry.key.len() + entry.value.as_ref().map_or(0, String::len);
    }
    assert!(own <= content.len());
    if !entries.is_empty() {
        assert!(content.contains(&b'['));
    }
}

/// A `HEAD`: a branch with a safe name, or an id; nothing around it.
///
/// # Panics
/// When that does not hold.
pub fn head(content: &[u8]) {
    let written = match parse_head(content) {
        Ok(Head::Branch(branch)) => {
            assert!(is_branch_name(branch.as_bytes()));
            let path = std::path::Path::new(&branch);
            assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))), "{branch:?}");
            format!("ref: refs/heads/{branch}\n")
        }
        Ok(Head::Detached(id)) => format!("{id}\n"),
        Err(_) => return,
    };
    assert_eq!(written.as_bytes(), content);
}

/// A file of a ref: an id.
///
/// # Panics
/// When that does not hold.
pub fn loose_ref(content: &[u8]) {
    if let Ok(id) = parse_loose_ref(content) {
        assert_eq!(format!("{id}\n").as_bytes(), content);
    }
}

/// A `packed-refs`: each ref is a line of it.
///
/// # Panics
/// When that does not hold.
pub fn refs(content: &[u8]) {
    let mut size = 0;
    for line in packed_refs(content).flatten() {
        assert!(!line.name.is_empty() && !line.name.contains(&b'\n'));
        size += 41 + line.name.len();
    }
    assert!(size <= content.len());
}

/// An index: in strict order, paths that the system could have, no more entries and memory than the content explains.
///
/// # Panics
/// When that does not hold.
pub fn index(content: &[u8]) {
    let Ok(index) = parse_index(content) else { return };
    assert!(content.starts_with(b"DIRC") && content.len() >= 32);
    assert!(index.entries.len() <= content.len() / 62);
    for entry in &index.entries {
        assert!(!entry.path.is_empty() && entry.path.len() <= 4096 && !entry.path.contains(&0));
        assert!(entry.stage <= 3);
    }
    assert!(index.extensions.len() <= 64);
    assert!(index.extensions.iter().enumerate().all(|(at, name)| !index.extensions[..at].contains(name)));
    let ordered = |pair: &[crate::parse::IndexEntry]| {
        (pair[0].path.as_slice(), pair[0].stage) < (pair[1].path.as_slice(), pair[1].stage)
    };
    assert!(index.entries.windows(2).all(ordered));
}

#[cfg(test)]
mod tests;
