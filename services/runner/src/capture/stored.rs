use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;

use super::{Layout, Progress, Reader, Shared};

/// Largest layout file that is read, in bytes.
const LAYOUT_BYTES: u64 = 4096;

/// What the file of a stream that is over holds: the beginning, then the end, and between them what is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Kept {
    /// Bytes of the beginning.
    head: u64,
    /// Bytes that were dropped behind it.
    dropped: u64,
    /// Bytes of the end.
    tail: u64,
}

impl Kept {
    /// What is kept of `total` bytes.
    pub(super) fn of(layout: Layout, total: u64) -> Self {
        let tail_start = layout.tail_start(total);
        Self { head: layout.head.min(total), dropped: layout.dropped(total), tail: total - tail_start }
    }

    /// Writes it beside `file`.
    pub(super) fn write(self, file: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        options.open(beside(file))?.write_all(&serde_json::to_vec(&self).map_err(io::Error::other)?)
    }

    /// What the layout beside `file` says, if it agrees with the file's length.
    fn read(file: &Path, length: u64) -> Option<Self> {
        let mut text = String::new();
        File::open(beside(file)).ok()?.take(LAYOUT_BYTES).read_to_string(&mut text).ok()?;
        let kept: Self = serde_json::from_str(&text).ok()?;
        (kept.head.checked_add(kept.tail)? == length && length.checked_add(kept.dropped).is_some()).then_some(kept)
    }
}

/// Where the layout of `file` is.
fn beside(file: &Path) -> PathBuf {
    file.with_extension("layout.json")
}

/// A reader of a stream that is over, from what is on disk of it; `None` when nothing is. Without a layout, as after a
/// crash, the file is taken for the beginning.
///
/// # Errors
/// When the file can't be looked at.
pub(crate) fn reopen(file: &Path) -> io::Result<Option<Reader>> {
    let length = match fs::symlink_metadata(file) {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let kept = Kept::read(file, length).unwrap_or(Kept { head: length, dropped: 0, tail: 0 });
    let total = length + kept.dropped;
    let shared = Shared {
        file: file.into(),
        ring: file.with_extension("tail"),
        layout: Layout { head: kept.head, tail: kept.tail },
        progress: watch::Sender::new(Progress { total, reserved: total, finished: true }),
    };
    Ok(Some(Reader::new(Arc::new(shared))))
}
