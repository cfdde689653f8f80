//! Handing out the work that was taken out of a run's clones.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use mosaic_ids::{Digest, Name, RunId};
use mosaic_record::{Harvest, HarvestFile, HarvestState, Refusal, RunPart, Work};
use mosaic_rpc::RpcError;
use sha2::Digest as _;
use tokio::sync::mpsc;

use super::App;

/// Bytes that are sent at once.
const CHUNK: usize = 256 * 1024;

/// A file of a harvest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The patch.
    Patch,
    /// The bundle.
    Bundle,
    /// What changed, in detail.
    Handoff,
}

impl Part {
    const fn of(self, work: &Work) -> &HarvestFile {
        match self {
            Self::Patch => &work.patch,
            Self::Bundle => &work.bundle,
            Self::Handoff => &work.handoff,
        }
    }
}

impl App {
    /// Hands one file of a harvest to `reader`, in pieces; what is wrong with it is the last of them. Without a project, of the
    /// only one that the run has.
    ///
    /// # Errors
    /// `not-found` where there is no work; `invalid-request` when the project is to be named; `bundle-changed` when the file is
    /// gone; what the broker answers.
    pub async fn hand_out(
        &self,
        run: &RunId,
        project: Option<&Name>,
        part: Part,
        reader: mpsc::Sender<Result<Vec<u8>, RpcError>>,
    ) -> Result<(), RpcError> {
        let (_, record, _) = self.inner.broker.get(run).await?;
        let nothing = |why: String| RpcError::not_found(why).with("run_id", run);
        let harvest = match &record.harvest {
            _ if record.is_pruned(RunPart::Record) => return Err(nothing(format!("run `{run}` is removed"))),
            None => return Err(nothing(format!("run `{run}` has no clone that work was taken out of"))),
            Some(Harvest { state: HarvestState::Pending, .. }) => {
                return Err(nothing(format!("the work of run `{run}` is not taken out yet")));
            }
            Some(harvest) => harvest,
        };
        let file = part.of(work(harvest, run, project)?).clone();
        let path = path_below(&self.inner.root.run(run), &file)?;
        let (run, name) = (run.clone(), file.name.clone());
        let changed = move |why: String| {
            let message = format!("`{name}` of run `{run}` is not what was harvested: {why}");
            RpcError::refused(Refusal::BundleChanged, message).with("run_id", &run).with("name", &name)
        };
        let opened =
            tokio::task::spawn_blocking(move || open(&path)).await.map_err(|panic| RpcError::internal(&panic))?;
        let opened = opened.map_err(|error| changed(error.to_string()))?;
        // It ends with its reader, and a reader ends with the server.
        tokio::task::spawn_blocking(move || {
            if let Err(Stopped::Changed(why)) = send(opened, &file, &reader) {
                let _gone_away = reader.blocking_send(Err(changed(why)));
            }
        });
        Ok(())
    }
}

/// The work of one project.
fn work<'a>(harvest: &'a Harvest, run: &RunId, project: Option<&Name>) -> Result<&'a Work, RpcError> {
    let known = || harvest.projects.iter().map(|of| of.project.as_str()).collect::<Vec<_>>().join(" ");
    let found = match (project, harvest.projects.as_slice()) {
        (None, [only]) => only,
        (None, _) => {
            return Err(RpcError::invalid(format!("project: run `{run}` has several; name one of: {}", known())));
        }
        (Some(name), all) => all.iter().find(|of| of.project == *name).ok_or_else(|| {
            let message = format!("run `{run}` has no project `{name}`; it has: {}", known());
            RpcError::not_found(message).with("run_id", run).with("project", name)
        })?,
    };
    found.work.as_ref().ok_or_else(|| {
        let why = found.failure.map_or("unknown", |failure| failure.as_str());
        let message = format!("the work of run `{run}` in project `{}` could not be taken out: {why}", found.project);
        RpcError::not_found(message).with("run_id", run).with("project", &found.project)
    })
}

/// Where a file of a harvest is; nowhere but in the run's directory of harvests.
fn path_below(directory: &Path, file: &HarvestFile) -> Result<PathBuf, RpcError> {
    let name = Path::new(&file.name);
    let plain = name.components().all(|part| matches!(part, Component::Normal(_)));
    if plain && name.starts_with("harvest") {
        return Ok(directory.join(name));
    }
    Err(RpcError::internal(&io::Error::other(format!("the ledger has a harvest named {:?}", file.name))))
}

fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no file")) }
}

/// Why a file was not sent to its end.
enum Stopped {
    /// Nobody reads it any more.
    GoneAway,
    /// It is not what was recorded.
    Changed(String),
}

fn send(mut from: File, file: &HarvestFile, reader: &mpsc::Sender<Result<Vec<u8>, RpcError>>) -> Result<(), Stopped> {
    let (mut hash, mut left) = (sha2::Sha256::new(), file.size_bytes);
    loop {
        let mut chunk = vec![0; CHUNK];
        let read = from.read(&mut chunk).map_err(|error| Stopped::Changed(error.to_string()))?;
        if read == 0 {
            break;
        }
        left = left.checked_sub(read as u64).ok_or_else(|| Stopped::Changed("it is longer".to_owned()))?;
        chunk.truncate(read);
        hash.update(&chunk);
        reader.blocking_send(Ok(chunk)).map_err(|_gone| Stopped::GoneAway)?;
    }
    let digest = Digest::from_hash(&hash.finalize());
    if left > 0 || digest != file.digest {
        return Err(Stopped::Changed(format!("its digest is {digest}, and {} is recorded", file.digest)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, content: &[u8]) -> HarvestFile {
        HarvestFile { name: name.to_owned(), digest: Digest::of(content), size_bytes: content.len() as u64 }
    }

    #[test]
    fn nothing_outside_of_the_harvest_is_opened() {
        let below = |name: &str| path_below(Path::new("/r"), &file(name, b"")).ok();
        assert_eq!(below("harvest/site/work.patch"), Some("/r/harvest/site/work.patch".into()));
        for name in ["result.json", "harvest/../result.json", "/etc/passwd", "harvester/x", "", "../x"] {
            assert_eq!(below(name), None, "{name}");
        }
    }

    #[test]
    fn a_file_is_sent_whole_and_one_that_was_changed_is_told() {
        let scratch = tempfile::tempdir().expect("scratch");
        let path = scratch.path().join("work.patch");
        let content = vec![7; CHUNK + 1];
        std::fs::write(&path, &content).expect("written");
        let sent = |recorded: &HarvestFile| {
            let (reader, mut chunks) = mpsc::channel(8);
            let sent = send(open(&path).expect("opened"), recorded, &reader).is_ok();
            drop(reader);
            let mut all = Vec::new();
            while let Some(chunk) = chunks.blocking_recv() {
                all.extend(chunk.expect("a chunk"));
            }
            (sent, all.len())
        };
        assert_eq!(sent(&file("harvest/a", &content)), (true, CHUNK + 1));
        assert_eq!(sent(&file("harvest/a", &content[1..])), (false, CHUNK), "nothing beyond what is recorded is sent");
        assert_eq!(sent(&file("harvest/a", &[content.clone(), vec![1]].concat())), (false, CHUNK + 1));
        let other = HarvestFile { digest: Digest::of(b"other"), ..file("harvest/a", &content) };
        assert_eq!(sent(&other), (false, CHUNK + 1));
        std::os::unix::fs::symlink(&path, scratch.path().join("link")).expect("link");
        open(&scratch.path().join("link")).expect_err("a link is not followed");
        open(scratch.path()).expect_err("a directory is no file");
    }
}
