use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use mosaic_ids::RunId;
use mosaic_record::{EndReason, Outcome, Output, RunEvent, RunStatus};

use super::reporter::backoff;
use super::{App, Execution, State};
use crate::sandbox;
use crate::store::{self, ExecutionRecord, Spool};

/// How long the first pause after a sandbox could not be proven gone is, and how long a pause gets.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The epoch of an execution whose record can't be read: every launcher that has the run's lease has a higher one.
const NO_EPOCH: i64 = 0;

impl App {
    /// Takes up what an earlier life of this runner left: proves each sandbox gone, and reports the end of each execution
    /// whose end was not spooled. One whose sandbox can't be proven gone is ending, and is tried again.
    pub(crate) async fn recover(&self) {
        let directory = self.parts.root.state_of(mosaic_data_root::Service::Runner);
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(error) => {
                tracing::error!(%error, "Could not look for what an earlier runner left");
                return;
            }
        };
        let runs: Vec<RunId> = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        for run in runs {
            self.recover_one(run).await;
        }
    }

    async fn recover_one(&self, run: RunId) {
        let directory = self.parts.root.execution(&run);
        let record = store::read_record(&directory);
        if matches!(record, Ok(None)) {
            // Nothing is made before there is a record.
            if let Err(error) = std::fs::remove_dir_all(directory) {
                tracing::warn!(run.id = %run, %error, "Could not remove what is left of an execution");
            }
            return;
        }
        let epoch = record.ok().flatten().map_or(NO_EPOCH, |record| record.epoch);
        let execution = Arc::new(Execution::inherited(run, epoch));
        self.registry.insert(Arc::clone(&execution));
        if let Err(error) = self.take_up(&execution).await {
            tracing::error!(run.id = %execution.run, %error, "Could not take up an execution; it is tried again");
            let app = self.clone();
            self.reporters.spawn(async move {
                // What is on disk is for the next start.
                let closing = app.closing.clone();
                let _left = closing.run_until_cancelled(app.keep_taking_up(execution)).await;
            });
        }
    }

    async fn keep_taking_up(&self, execution: Arc<Execution>) {
        let mut failures = 1;
        loop {
            tokio::time::sleep(backoff(FIRST_PAUSE, LONGEST_PAUSE, failures)).await;
            match self.take_up(&execution).await {
                Ok(()) => return tracing::info!(run.id = %execution.run, "Took up an execution after all"),
                Err(error) => {
                    tracing::warn!(run.id = %execution.run, failures, %error, "Can't take up an execution yet");
                }
            }
            failures = failures.saturating_add(1);
        }
    }

    /// Proves the sandbox of an execution gone, and has its end reported.
    async fn take_up(&self, execution: &Arc<Execution>) -> io::Result<()> {
        let run = &execution.run;
        let directory = self.parts.root.execution(run);
        let record = store::read_record(&directory)?.ok_or_else(|| io::Error::other("its record is gone"))?;
        execution.update(|status| {
            status.epoch = status.epoch.max(record.epoch);
            status.sandbox.clone_from(&record.sandbox);
        });
        let mut spool = Spool::open(&directory)?;
        self.prove_gone(record).await?;
        if !spool.is_complete() {
            spool.append(self.parts.clock.now(), RunEvent::Ended(Box::new(self.lost(run))));
            tracing::warn!(run.id = %run, "A run was lost with an earlier runner");
        }
        execution.open_spool(spool);
        execution.update(|status| status.state = State::Ended);
        self.spawn_reporter(Arc::clone(execution));
        Ok(())
    }

    /// Ends what is left of a sandbox; an error when it can't be proven gone.
    async fn prove_gone(&self, record: ExecutionRecord) -> io::Result<()> {
        let state = self.parts.root.run_state(&record.run_id);
        let clear = move || {
            if !sandbox::clear(record.backend, record.anchor, &record.groups, &state) {
                return Err(io::Error::other("its sandbox can't be proven gone"));
            }
            if let Err(error) = mosaic_data_root::remove_tree(&state) {
                tracing::warn!(run.id = %record.run_id, %error, "Could not remove a run's private state");
            }
            Ok(())
        };
        tokio::task::spawn_blocking(clear).await.map_err(io::Error::other)?
    }

    /// The outcome of a run that nobody saw the end of: what it wrote by then is kept.
    fn lost(&self, run: &RunId) -> Outcome {
        let stdout_bytes = crate::capture::abandon(&self.parts.root.run_stdout(run));
        let stderr_bytes = crate::capture::abandon(&self.parts.root.run_stderr(run));
        Outcome {
            status: RunStatus::Lost,
            reason: Some(EndReason::RunnerLost),
            notes: Vec::new(),
            warnings: vec![
                "the runner ended while the run was going; output beyond what is kept is not counted".to_owned(),
            ],
            exit_code: None,
            signal: None,
            response: None,
            response_truncated: false,
            output: Output { stdout_bytes, stderr_bytes, ..Output::default() },
            duration_ms: None,
        }
    }

    /// Writes the epoch that an execution works under into its record.
    pub(super) fn remember_epoch(&self, execution: &Execution) {
        let directory = self.parts.root.execution(&execution.run);
        let written = store::read_record(&directory).and_then(|record| match record {
            Some(record) => {
                store::write_record(&directory, &ExecutionRecord { epoch: execution.status().epoch, ..record })
            }
            None => Ok(()),
        });
        if let Err(error) = written {
            tracing::warn!(run.id = %execution.run, %error, "Could not record the epoch of an execution");
        }
    }
}
