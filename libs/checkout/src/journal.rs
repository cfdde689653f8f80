//! A note of an update that is under way, so that one that was cut short is recognised, and undone by the next checkout.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use mosaic_ids::Digest;

use crate::mirror::MirrorError;
use crate::parse::{ObjectId, is_branch_name};

/// What is noted before anything is written to a clone.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Journal {
    /// The clone's branch.
    pub(crate) branch: String,
    /// Where it is.
    base: String,
    /// Where it is moved to.
    tip: String,
    /// Tells the locks and files of this update from those of others.
    nonce: String,
    /// When it began, in seconds since 1970 of the clock that stamps files.
    pub(crate) started: i64,
}

impl Journal {
    /// Of an update that begins now.
    pub(crate) fn begin(branch: &str, base: ObjectId, tip: ObjectId) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let nonce = Digest::of(format!("{branch} {base} {tip} {} {}", std::process::id(), now.as_nanos()).as_bytes());
        Self {
            branch: branch.to_owned(),
            base: base.to_string(),
            tip: tip.to_string(),
            nonce: nonce.as_str()[..20].to_owned(),
            started: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        }
    }

    /// Where the clone was.
    pub(crate) fn base(&self) -> Option<ObjectId> {
        ObjectId::from_hex(self.base.as_bytes())
    }

    /// Where the clone was moved to.
    pub(crate) fn tip(&self) -> Option<ObjectId> {
        ObjectId::from_hex(self.tip.as_bytes())
    }

    /// Content of the locks.
    pub(crate) fn lock(&self) -> String {
        format!("mosaic {}\n", self.nonce)
    }

    /// Name of the directory in `.git` that files are made in before they are moved to their places.
    pub(crate) fn stage(&self) -> String {
        format!("mosaic-{}", self.nonce)
    }

    /// Writes it, so that it is there whatever happens next.
    pub(crate) fn write(&self, path: &Path) -> Result<(), MirrorError> {
        let temporary = path.with_extension("new");
        let written = std::fs::OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&temporary)
            .and_then(|mut file| {
                file.write_all(serde_json::to_string(self)?.as_bytes())?;
                file.sync_data()
            })
            .and_then(|()| std::fs::rename(&temporary, path));
        written.map_err(MirrorError::io("write", path))
    }

    /// Reads the one at `path`. One that says nothing of use is none: it was cut short before anything was done.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, MirrorError> {
        let content = match std::fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(MirrorError::io("read", path))?,
        };
        let journal: Option<Self> = serde_json::from_slice(&content).ok();
        Ok(journal.filter(|journal| {
            let named =
                is_branch_name(journal.branch.as_bytes()) && journal.nonce.bytes().all(|byte| byte.is_ascii_hexdigit());
            named && journal.base().is_some() && journal.tip().is_some()
        }))
    }

    /// The update is over.
    pub(crate) fn remove(path: &Path) -> Result<(), MirrorError> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(MirrorError::io("remove", path)),
        }
    }
}

/// Where the journal of the clone with this directory of state is.
pub(crate) fn journal_path(state: &Path) -> PathBuf {
    state.join("journal.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_read_as_it_was_written_and_rubbish_is_none() {
        let scratch = tempfile::tempdir().expect("scratch");
        let path = journal_path(scratch.path());
        assert_eq!(Journal::read(&path).expect("read"), None);
        let (base, tip) = (ObjectId::from_bytes([1; 20]), ObjectId::from_bytes([2; 20]));
        let journal = Journal::begin("main", base, tip);
        journal.write(&path).expect("written");
        assert_eq!(Journal::read(&path).expect("read"), Some(journal.clone()));
        assert_eq!((journal.base(), journal.tip()), (Some(base), Some(tip)));
        assert_ne!(Journal::begin("main", base, tip).lock(), journal.lock());
        let odd = Journal { branch: "../x".to_owned(), ..journal };
        odd.write(&path).expect("written");
        assert_eq!(Journal::read(&path).expect("read"), None);
        std::fs::write(&path, "{").expect("written");
        assert_eq!(Journal::read(&path).expect("read"), None);
        Journal::remove(&path).expect("removed");
        Journal::remove(&path).expect("removed");
    }
}
