use super::{Malformed, ObjectId};

/// Most entries that are read.
const ENTRIES: usize = 2_000_000;
/// Longest path that is read, in bytes: PATH_MAX.
const PATH_BYTES: usize = 4096;
/// Most kinds of extensions.
const EXTENSIONS: usize = 64;
/// Most bytes of all paths together: version 4 repeats long ones in a few bytes.
const PATHS_BYTES: usize = 128 * 1024 * 1024;

/// One entry of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexEntry {
    /// Path below the work tree, as it is written.
    pub path: Vec<u8>,
    /// Type and permissions as in a tree, for example `0o100644`.
    pub mode: u32,
    /// What it names.
    pub id: ObjectId,
    /// 0, or the side of a merge that was not resolved.
    pub stage: u8,
    /// True when git was told to overlook changes of the file, or its absence.
    pub hides: bool,
    /// True when the path was announced and nothing was added.
    pub intent_to_add: bool,
}

/// The staging area of a clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Its entries, in strictly ascending order of path and stage.
    pub entries: Vec<IndexEntry>,
    /// True when there is more in another file (an extension `link`), or less than files (`sdir`): the entries are not all.
    pub partial: bool,
    /// Names of its extensions, each once.
    pub extensions: Vec<[u8; 4]>,
}

/// Reads an index of version 2, 3 or 4 (gitformat-index(5)). Stat data and extensions are passed over: they are claims.
///
/// # Errors
/// When it is none, or not in order.
pub fn parse_index(content: &[u8]) -> Result<Index, Malformed> {
    let mut rest = Bytes(content);
    if rest.take(4)? != b"DIRC" {
        return Err(Malformed);
    }
    let version = rest.number()?;
    let count = rest.number()? as usize;
    if !(2..=4).contains(&version) || count > ENTRIES {
        return Err(Malformed);
    }
    // No entry has less than 62 bytes of its own: a count alone reserves nothing.
    let mut entries: Vec<IndexEntry> = Vec::with_capacity(count.min(content.len() / 62));
    let (mut paths, mut nameless) = (0, false);
    for _ in 0..count {
        let previous = entries.last().map(|entry| entry.path.as_slice()).unwrap_or_default();
        let entry = rest.entry(version, previous)?;
        if entry.path.is_empty() {
            // It stands for one in another file.
            nameless = true;
            continue;
        }
        if let Some(last) = entries.last()
            && (last.path.as_slice(), last.stage) >= (entry.path.as_slice(), entry.stage)
        {
            return Err(Malformed);
        }
        paths += entry.path.len();
        if paths > PATHS_BYTES {
            return Err(Malformed);
        }
        entries.push(entry);
    }
    let mut partial = false;
    let mut extensions = Vec::new();
    // What follows are extensions, and a checksum of 20 bytes at the end.
    while rest.0.len() > 20 {
        let name: [u8; 4] = rest.take(4)?.try_into().map_err(|_length| Malformed)?;
        let length = rest.number()? as usize;
        rest.take(length)?;
        // An upper-case name is optional to know; the others change what the entries mean.
        partial |= !name[0].is_ascii_uppercase();
        if !extensions.contains(&name) {
            // There are less than twenty kinds in all of git.
            if extensions.len() >= EXTENSIONS {
                return Err(Malformed);
            }
            extensions.push(name);
        }
    }
    if rest.0.len() != 20 || (nameless && !partial) {
        return Err(Malformed);
    }
    Ok(Index { entries, partial, extensions })
}

/// What is left to read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, Malformed> {
        let bytes = self.take(4)?.try_into().map_err(|_length| Malformed)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn short(&mut self) -> Result<u16, Malformed> {
        let bytes = self.take(2)?.try_into().map_err(|_length| Malformed)?;
        Ok(u16::from_be_bytes(bytes))
    }

    /// Everything up to a NUL, which is passed over.
    fn text(&mut self) -> Result<&'a [u8], Malformed> {
        let window = &self.0[..self.0.len().min(PATH_BYTES + 1)];
        let end = window.iter().position(|byte| *byte == 0).ok_or(Malformed)?;
        let text = self.take(end)?;
        self.take(1)?;
        Ok(text)
    }

    /// A number of the variable width that version 4 uses for the length of what is dropped from the path before.
    fn varint(&mut self) -> Result<usize, Malformed> {
        let mut value = 0_usize;
        for step in 0..4 {
            let byte = self.take(1)?[0];
            if step > 0 {
                value += 1;
            }
            value = value << 7 | usize::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    fn entry(&mut self, version: u32, previous: &[u8]) -> Result<IndexEntry, Malformed> {
        let before = self.0.len();
        // Times, device and inode.
        self.take(24)?;
        let mode = self.number()?;
        // Owner, group and size.
        self.take(12)?;
        let id = self.take(20)?.try_into().map_err(|_length| Malformed)?;
        let flags = self.short()?;
        let extended = flags & 0x4000 != 0;
        if extended && version < 3 {
            return Err(Malformed);
        }
        let more = if extended { self.short()? } else { 0 };
        let path = if version == 4 {
            let kept = previous.len().checked_sub(self.varint()?).ok_or(Malformed)?;
            let mut path = previous[..kept].to_vec();
            path.extend_from_slice(self.text()?);
            path
        } else {
            let path = self.text()?.to_vec();
            // Filled up with NULs to a multiple of eight; one of them was passed over.
            let used = before - self.0.len();
            let filling = self.take(used.next_multiple_of(8) - used)?;
            if filling.iter().any(|byte| *byte != 0) {
                return Err(Malformed);
            }
            path
        };
        if path.len() > PATH_BYTES {
            return Err(Malformed);
        }
        Ok(IndexEntry {
            path,
            mode,
            id: ObjectId::from_bytes(id),
            stage: u8::try_from(flags >> 12 & 3).map_err(|_bits| Malformed)?,
            hides: flags & 0x8000 != 0 || more & 0x4000 != 0,
            intent_to_add: more & 0x2000 != 0,
        })
    }
}
