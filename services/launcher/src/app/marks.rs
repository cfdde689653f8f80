//! What this launcher has in hand, on disk: whoever comes after it finds what it has left half done.
//!
//! A run is marked from before it is worked on until its files say what the ledger says. Its mark is a file of one JSON
//! value a line, which says what the ledger does not know yet: steps that were begun, and a wish that it should end.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use mosaic_data_root::{DataRoot, Service};
use mosaic_ids::RunId;
use mosaic_record::Actor;

use super::prepare::Step;

/// Name of the directory of marks in the launcher's own.
const DIRECTORY: &str = "in-hand";

/// Largest mark that is read, in bytes: a few lines.
const MARK_BYTES: u64 = 64 * 1024;

/// The marks of one data root.
#[derive(Debug, Clone)]
pub struct Marks {
    directory: PathBuf,
}

/// What a mark says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mark {
    /// Steps that were begun where nothing was before.
    pub begun: Vec<Step>,
    /// Who wants the run to end.
    pub stop: Option<Actor>,
}

#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
enum Line {
    Begun(String),
    Stop(Actor),
}

impl Marks {
    /// Those of `root`.
    ///
    /// # Errors
    /// When their directory can't be made.
    pub fn of(root: &DataRoot) -> io::Result<Self> {
        let directory = root.state_of(Service::Launcher).join(DIRECTORY);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        Ok(Self { directory })
    }

    /// Runs that are marked.
    ///
    /// # Errors
    /// When that can't be read.
    pub fn all(&self) -> io::Result<Vec<RunId>> {
        let entries = fs::read_dir(&self.directory)?;
        Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
    }

    /// Marks a run. A mark that is there keeps what it says.
    pub fn put(&self, run: &RunId) {
        self.write(run, "");
    }

    /// Notes that a step is begun, before anything is made.
    pub fn begin(&self, run: &RunId, step: Step) {
        self.write_line(run, &Line::Begun(step.name().to_owned()));
    }

    /// Notes that somebody wants the run to end.
    pub fn stop(&self, run: &RunId, actor: &Actor) {
        self.write_line(run, &Line::Stop(actor.clone()));
    }

    /// What the mark of a run says; nothing where there is none. A line that a crash cut short was never acted upon.
    #[must_use]
    pub fn read(&self, run: &RunId) -> Mark {
        use std::io::Read as _;
        let mut text = String::new();
        let read = fs::File::open(self.directory.join(run)).map(|file| file.take(MARK_BYTES).read_to_string(&mut text));
        if let Err(error) = read.and_then(|read| read)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(run.id = %run, %error, "Could not read what was noted of a run");
        }
        let mut mark = Mark::default();
        for line in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
            match line {
                Line::Begun(name) => mark.begun.extend(Step::named(&name)),
                Line::Stop(actor) => mark.stop = Some(actor),
            }
        }
        mark
    }

    /// The run is out of hand.
    pub fn remove(&self, run: &RunId) {
        if let Err(error) = fs::remove_file(self.directory.join(run))
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(run.id = %run, %error, "Could not remove the mark of a run");
        }
    }

    fn write_line(&self, run: &RunId, line: &Line) {
        let line = serde_json::to_string(line).expect("a line has no failing type");
        self.write(run, &format!("{line}\n"));
    }

    /// One write, so that a crash leaves a line whole or cut at the end. What can't be noted is done all the same: the mark
    /// matters only to whoever comes after a crash.
    fn write(&self, run: &RunId, text: &str) {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).open(self.directory.join(run));
        if let Err(error) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
            tracing::warn!(run.id = %run, %error, "Could not note that a run is in hand");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_says_what_was_noted_until_the_run_is_out_of_hand() {
        let scratch = tempfile::tempdir().expect("scratch");
        let root = DataRoot::create_or_open(&scratch.path().join("data")).expect("a data root");
        let (marks, run) = (Marks::of(&root).expect("made"), "r-1".parse().expect("run id"));
        assert_eq!(marks.read(&run), Mark::default());
        marks.put(&run);
        marks.begin(&run, Step::Workspace);
        marks.stop(&run, &Actor::Operator);
        marks.put(&run);
        let again = Marks::of(&root).expect("there");
        assert_eq!(again.all().expect("readable"), std::slice::from_ref(&run));
        assert_eq!(again.read(&run), Mark { begun: vec![Step::Workspace], stop: Some(Actor::Operator) });
        let path = scratch.path().join("data/state/launcher/in-hand/r-1");
        let whole = fs::read_to_string(&path).expect("readable");
        fs::write(&path, format!("{whole}{{\"begun\":\"sess")).expect("written");
        assert_eq!(again.read(&run).begun, [Step::Workspace], "a line that was cut counts for nothing");
        again.remove(&run);
        assert_eq!(again.all().expect("readable"), []);
    }
}
