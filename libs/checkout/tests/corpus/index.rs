//! An index as an agent forges one: versions 2 and 3, extensions as bytes, no checksum.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// One entry: ten numbers of what was seen of the file, the object, flags and path.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) stat: [u32; 10],
    pub(crate) id: [u8; 20],
    /// Flags without the length of the path.
    pub(crate) flags: u16,
    pub(crate) more_flags: u16,
    pub(crate) path: Vec<u8>,
}

/// Position of times and sizes in [`Entry::stat`].
pub(crate) const MODE: usize = 6;
pub(crate) const SIZE: usize = 9;

#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) entries: Vec<Entry>,
    pub(crate) extensions: Vec<([u8; 4], Vec<u8>)>,
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().expect("four bytes"))
}

fn short(bytes: &[u8]) -> u16 {
    u16::from_be_bytes(bytes[..2].try_into().expect("two bytes"))
}

impl Index {
    pub(crate) fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).expect("read");
        assert!(bytes.starts_with(b"DIRC") && number(&bytes[4..]) <= 3);
        let (mut at, mut entries, mut extensions) = (12, Vec::new(), Vec::new());
        for _ in 0..number(&bytes[8..]) {
            let start = at;
            let stat = std::array::from_fn(|field| number(&bytes[start + 4 * field..]));
            let flags = short(&bytes[start + 60..]);
            at += 62;
            let mut more_flags = 0;
            if flags & 0x4000 != 0 {
                more_flags = short(&bytes[at..]);
                at += 2;
            }
            let length = bytes[at..].iter().position(|byte| *byte == 0).expect("an end");
            let path = bytes[at..at + length].to_vec();
            let id = bytes[start + 40..start + 60].try_into().expect("an id");
            entries.push(Entry { stat, id, flags: flags & 0xb000, more_flags, path });
            at = start + (at + length - start + 8) / 8 * 8;
        }
        while at < bytes.len() - 20 {
            let length = number(&bytes[at + 4..]) as usize;
            let name = bytes[at..at + 4].try_into().expect("a name");
            extensions.push((name, bytes[at + 8..at + 8 + length].to_vec()));
            at += 8 + length;
        }
        Self { entries, extensions }
    }

    pub(crate) fn entry(&mut self, path: &str) -> &mut Entry {
        self.entries.iter_mut().find(|entry| entry.path == path.as_bytes()).expect("an entry")
    }

    /// Gives an entry what lstat(2) says of the file now, whatever it contains.
    pub(crate) fn forge(&mut self, clone: &Path, path: &str) {
        let seen = clone.join(path).symlink_metadata().expect("there");
        let entry = self.entry(path);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as git cuts them")]
        let low = |number: i64| number as u32;
        entry.stat = [
            low(seen.ctime()),
            low(seen.ctime_nsec()),
            low(seen.mtime()),
            low(seen.mtime_nsec()),
            low(seen.dev().cast_signed()),
            low(seen.ino().cast_signed()),
            entry.stat[MODE],
            seen.uid(),
            seen.gid(),
            low(seen.size().cast_signed()),
        ];
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let version: u32 = if self.entries.iter().any(|entry| entry.more_flags != 0) { 3 } else { 2 };
        let mut all = b"DIRC".to_vec();
        all.extend(version.to_be_bytes());
        all.extend(u32::try_from(self.entries.len()).expect("few").to_be_bytes());
        for entry in &self.entries {
            let start = all.len();
            entry.stat.iter().for_each(|number| all.extend(number.to_be_bytes()));
            all.extend(entry.id);
            let length = u16::try_from(entry.path.len().min(0xfff)).expect("short");
            let extended = if entry.more_flags == 0 { 0 } else { 0x4000 };
            all.extend((entry.flags | length | extended).to_be_bytes());
            if entry.more_flags != 0 {
                all.extend(entry.more_flags.to_be_bytes());
            }
            all.extend(&entry.path);
            let used = all.len() - start;
            all.resize(start + (used + 8) / 8 * 8, 0);
        }
        for (name, content) in &self.extensions {
            all.extend(name);
            all.extend(u32::try_from(content.len()).expect("short").to_be_bytes());
            all.extend(content);
        }
        // No checksum: git takes that for one that was not asked for.
        all.extend([0; 20]);
        all
    }

    pub(crate) fn write(&mut self, path: &Path) {
        self.entries.sort_by(|one, other| (&one.path, one.flags & 0x3000).cmp(&(&other.path, other.flags & 0x3000)));
        std::fs::write(path, self.bytes()).expect("written");
    }
}
