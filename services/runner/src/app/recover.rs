use std::sync::Arc;

use mosaic_ids::RunId;
use mosaic_record::{EndReason, Outcome, Output, RunEvent, RunStatus};

use super::{App, Execution, State};
use crate::sandbox;
use crate::store::{self, ExecutionRecord, Spool};

impl App {
    /// Takes up what an earlier life of this runner left: proves each sandbox gone, and reports the end of each execution
    /// whose end was not spooled.
    pub(crate) async fn recover(&self) {
        let directory = self.parts.root.state_of(mosaic_data_root::Service::Runner);
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let runs: Vec<RunId> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        for run in runs {
            if let Err(error) = self.recover_one(&run).await {
                tracing::error!(run.id = %run, %error, "Could not take up an execution; the next start tries again");
            }
        }
    }

    async fn recover_one(&self, run: &RunId) -> std::io::Result<()> {
        let directory = self.parts.root.execution(run);
        let Some(record) = store::read_record(&directory)? else {
            // Nothing is made before there is a record.
            return std::fs::remove_dir_all(directory);
        };
        let mut spool = Spool::open(&directory)?;
        let is_gone = {
            let (root, record) = (self.parts.root.clone(), record.clone());
            let clear = move || {
                let state = root.run_state(&record.run_id);
                sandbox::clear(record.backend, record.anchor, &record.groups, &state)
                    .then(|| store::remove_private(&state))
            };
            tokio::task::spawn_blocking(clear).await.map_err(std::io::Error::other)?
        };
        match is_gone {
            None => return Err(std::io::Error::other("its sandbox can't be proven gone")),
            Some(Err(error)) => tracing::warn!(run.id = %run, %error, "Could not remove a run's private state"),
            Some(Ok(())) => {}
        }
        if !spool.is_complete() {
            spool.append(self.parts.clock.now(), RunEvent::Ended(Box::new(self.lost(run))));
            tracing::warn!(run.id = %run, "A run was lost with an earlier runner");
        }
        self.take_up(record, spool);
        Ok(())
    }

    fn take_up(&self, record: ExecutionRecord, spool: Spool) {
        let execution = Arc::new(Execution::new(record.run_id, record.epoch));
        execution.open_spool(spool);
        execution.update(|status| {
            status.sandbox = record.sandbox;
            status.state = State::Ended;
        });
        self.registry.insert(Arc::clone(&execution));
        self.spawn_reporter(execution);
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
