//! Task files and their missions, read as text: the launcher judges them.

use std::path::{Path, PathBuf};

use mosaic_proto::launcher::v1 as pb;

use crate::args::Overrides;
use crate::exit::Failure;

/// Largest document that is read, in bytes.
const DOCUMENT_BYTES: u64 = 36 * 1024 * 1024;

/// What is sent of a task.
#[derive(Debug, Clone)]
pub(crate) struct Documents {
    /// The task file.
    pub task: pb::Document,
    /// The mission that it names.
    pub mission: Option<pb::Document>,
}

impl Documents {
    /// Reads a task file and the mission that it names.
    ///
    /// # Errors
    /// When one of them can't be read.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let task = read(path)?;
        // A text that is no task at all goes to the launcher as it is, which says what is wrong with it.
        let named = serde_json::from_str::<serde_json::Value>(&task.content).ok();
        let mission = match named.as_ref().and_then(|task| task.get("mission")?.as_str()) {
            Some(mission) if !mission.is_empty() => Some(read(&beside(path, mission))?),
            _ => None,
        };
        Ok(Self { task, mission })
    }
}

/// A path in a task file is relative to the file.
fn beside(task: &Path, named: &str) -> PathBuf {
    task.parent().unwrap_or(Path::new("")).join(named)
}

fn read(path: &Path) -> Result<pb::Document, Failure> {
    use std::io::Read as _;
    let name = path.display().to_string();
    let unreadable = |error: std::io::Error| {
        let message = format!("can't read `{name}`: {error}");
        if error.kind() == std::io::ErrorKind::NotFound { Failure::usage(message) } else { Failure::rejected(message) }
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(DOCUMENT_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > DOCUMENT_BYTES {
        return Err(Failure::rejected(format!("{name}: it has more than {DOCUMENT_BYTES} bytes")));
    }
    let content = String::from_utf8(bytes).map_err(|_bytes| Failure::rejected(format!("{name}: it is not UTF-8")))?;
    Ok(pb::Document { name, content })
}

impl From<Overrides> for pb::Overrides {
    fn from(overrides: Overrides) -> Self {
        let Overrides { adapter, model, mock_response } = overrides;
        Self { adapter: adapter.map(Into::into), model, mock_response }
    }
}
