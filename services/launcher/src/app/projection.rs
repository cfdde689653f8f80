//! Files that show what the ledger says: a run's documents, its record and its events.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use mosaic_data_root::DataRoot;
use mosaic_ids::RunId;
use mosaic_record::{RunPart, RunRecord, RunSpec};
use mosaic_rpc::RpcError;

use crate::peers::{Broker, persist};

/// Writes a run's documents.
///
/// # Errors
/// When the directory can't be written.
pub fn write_documents(directory: &Path, spec: &RunSpec) -> io::Result<()> {
    replace(&directory.join("task.json"), |file| file.write_all(spec.task.content.as_bytes()))?;
    if let Some(mission) = &spec.mission {
        replace(&directory.join("mission.json"), |file| file.write_all(mission.content.as_bytes()))?;
    }
    Ok(())
}

/// Writes everything that the ledger knows of a run that is over: documents, events, and last the record, so that a run
/// with a `result.json` is complete. Nothing is written of a run that was removed; says whether anything was.
///
/// # Errors
/// What the broker answers, or `internal` when the files can't be written.
pub async fn write_run(broker: &Broker, root: &DataRoot, run: &RunId) -> Result<bool, RpcError> {
    let (_view, record, spec) = persist(|| broker.get(run)).await?;
    if record.is_pruned(RunPart::Record) {
        return Ok(false);
    }
    let lines = persist(|| async {
        let mut lines = Vec::new();
        broker
            .events(run, |line| {
                lines.extend_from_slice(line.as_bytes());
                lines.push(b'\n');
            })
            .await?;
        Ok(lines)
    })
    .await?;
    let directory = root.run(run);
    let write = move || -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        write_documents(&directory, &spec)?;
        replace(&directory.join("events.jsonl"), |file| file.write_all(&lines))?;
        replace(&directory.join("result.json"), |file| {
            serde_json::to_writer_pretty(&mut *file, &record)?;
            file.write_all(b"\n")
        })
    };
    let written = tokio::task::spawn_blocking(write).await.map_err(|panic| RpcError::internal(&panic))?;
    written.map_err(|error| RpcError::internal(&error))?;
    Ok(true)
}

/// True when a file of a terminal run is missing, or its record is not whole.
#[must_use]
pub fn is_incomplete(root: &DataRoot, run: &RunId) -> bool {
    let directory = root.run(run);
    let record = fs::read(directory.join("result.json")).ok();
    let whole = record.is_some_and(|text| serde_json::from_slice::<RunRecord>(&text).is_ok());
    !whole || !directory.join("events.jsonl").exists() || !directory.join("task.json").exists()
}

/// Writes a file whole or not at all. The caller has the run in hand, and nobody else writes its files.
fn replace(path: &Path, write: impl FnOnce(&mut io::BufWriter<fs::File>) -> io::Result<()>) -> io::Result<()> {
    // Whoever writes has the run in hand; what a killed writer has left is written over.
    let temporary = path.with_extension("tmp");
    let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    let mut file = io::BufWriter::new(file);
    write(&mut file)?;
    file.flush()?;
    fs::rename(&temporary, path)
}
