//! Removing files, after that was recorded. What is about to go is noted first, so that a removal that a crash interrupted is
//! finished by the next one.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use mosaic_data_root::{DataRoot, remove_tree};
use mosaic_ids::{Name, RunId};
use mosaic_record::RunPart;

use super::measure::output_files;

/// What sessions are called while they are removed.
const SESSION: &str = "session";

/// What is being removed from a data root. Everything here blocks on the file system.
#[derive(Debug, Clone)]
pub(super) struct Removal {
    root: DataRoot,
}

impl Removal {
    pub(super) fn new(root: &DataRoot) -> Self {
        Self { root: root.clone() }
    }

    /// Notes that a part of a run is about to go. Best effort: a disk that is full may have no room for it, and is not to be
    /// kept from getting emptier.
    pub(super) fn note(&self, run: &RunId, part: RunPart) {
        let write = || -> io::Result<()> {
            let directory = self.root.removing();
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
            let mut options = fs::OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600).open(self.note_of(run, part))?;
            fs::File::open(directory)?.sync_all()
        };
        if let Err(error) = write() {
            tracing::warn!(run.id = %run, %part, %error, "Could not note what is about to be removed");
        }
    }

    /// Takes a note back: nothing is removed, or everything is.
    pub(super) fn forget(&self, run: &RunId, part: RunPart) {
        if let Err(error) = gone(fs::remove_file(self.note_of(run, part))) {
            tracing::warn!(run.id = %run, %part, %error, "Could not take back what was noted");
        }
    }

    /// Parts of runs that were about to go when a launcher ended.
    pub(super) fn noted(&self) -> Vec<(RunId, RunPart)> {
        let names = self.entries().into_iter().filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
        let parsed = |name: String| {
            let (run, part) = name.rsplit_once('.')?;
            Some((run.parse().ok()?, part.parse().ok()?))
        };
        names.filter_map(parsed).collect()
    }

    /// Removes the files of a part of a run whose removal is recorded, and then the note.
    ///
    /// # Errors
    /// When something can't be removed; the note stays then.
    pub(super) fn of_run(&self, run: &RunId, part: RunPart) -> io::Result<()> {
        match part {
            RunPart::Output => output_files(&self.root, run).iter().try_for_each(|path| gone(fs::remove_file(path)))?,
            RunPart::Workspace => remove_tree(&self.root.run_workspace(run))?,
            RunPart::Record => remove_tree(&self.root.run(run))?,
        }
        self.forget(run, part);
        Ok(())
    }

    /// Removes a session whose removal is recorded. It is out of the way at once: what is left of it when this is interrupted
    /// is never taken for a session.
    ///
    /// # Errors
    /// When something can't be removed.
    pub(super) fn of_session(&self, name: &Name) -> io::Result<()> {
        let (path, aside) = (self.root.session(name), self.root.removing().join(format!("{name}.{SESSION}")));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(self.root.removing())?;
        remove_tree(&aside)?;
        // Moving a directory changes it; its owner may have closed it.
        if fs::symlink_metadata(&path)?.is_dir() {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        }
        fs::rename(&path, &aside)?;
        remove_tree(&aside)
    }

    /// Removes what interrupted removals of sessions have left.
    ///
    /// # Errors
    /// When something can't be removed.
    pub(super) fn rest_of_sessions(&self) -> io::Result<()> {
        let sessions = self.entries().into_iter().filter(|path| path.extension().is_some_and(|end| end == SESSION));
        sessions.map(|path| remove_tree(&path)).fold(Ok(()), Result::and)
    }

    fn entries(&self) -> Vec<PathBuf> {
        let listed = fs::read_dir(self.root.removing());
        listed.into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path()).collect()
    }

    fn note_of(&self, run: &RunId, part: RunPart) -> PathBuf {
        self.root.removing().join(format!("{run}.{part}"))
    }
}

/// What is not there is removed.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// True when the directory of a run is there.
pub(super) fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch() -> (tempfile::TempDir, Removal) {
        let scratch = tempfile::tempdir().expect("scratch");
        let root = DataRoot::create_or_open(&scratch.path().join("data")).expect("a data root");
        (scratch, Removal::new(&root))
    }

    #[test]
    fn what_is_about_to_go_is_known_until_it_is_gone() {
        let (_scratch, removal) = scratch();
        let run: RunId = "r-20260102T030405678Z-4f9a0c1b2d".parse().expect("a run id");
        fs::create_dir(removal.root.run(&run)).expect("made");
        for path in output_files(&removal.root, &run) {
            fs::write(path, "x").expect("written");
        }
        removal.note(&run, RunPart::Output);
        removal.note(&run, RunPart::Record);
        let mut noted = removal.noted();
        noted.sort();
        assert_eq!(noted, [(run.clone(), RunPart::Output), (run.clone(), RunPart::Record)]);
        removal.of_run(&run, RunPart::Output).expect("removed");
        assert_eq!(fs::read_dir(removal.root.run(&run)).expect("there").count(), 0);
        removal.of_run(&run, RunPart::Record).expect("removed");
        removal.of_run(&run, RunPart::Record).expect("nothing to do");
        assert!(!is_there(&removal.root.run(&run)) && removal.noted().is_empty());
    }

    #[test]
    fn an_interrupted_removal_of_a_session_leaves_no_session() {
        let (_scratch, removal) = scratch();
        let name: Name = "chat.2".parse().expect("a name");
        let left = removal.root.removing().join("chat.2.session");
        fs::create_dir_all(left.join("deep")).expect("made");
        assert!(removal.noted().is_empty());
        fs::create_dir(removal.root.session(&name)).expect("made");
        fs::write(removal.root.session(&name).join("history"), "x").expect("written");
        fs::set_permissions(removal.root.session(&name), fs::Permissions::from_mode(0o000)).expect("closed");
        removal.of_session(&name).expect("removed");
        assert!(!is_there(&removal.root.session(&name)) && !is_there(&left));
        fs::create_dir_all(left.join("deep")).expect("made");
        removal.rest_of_sessions().expect("removed");
        assert!(!is_there(&left));
    }
}
