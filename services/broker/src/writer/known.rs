use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use mosaic_ids::{RequestId, RunId};

use crate::domain::{Change, Command, Order, RecordedStep, Run};
use crate::store::{StoreError, StoredRun, WriteConnection};

/// Live runs that are kept between batches.
const KEPT: usize = 1024;

/// What can't be read of one run: it spoils what concerns this run and nothing else.
pub(super) type Damage = Arc<StoreError>;

/// Live runs as they are on disk, so that a run that is worked on is not read for each of its commands. One that is
/// terminal is not kept: it is rarely asked for, and may hold a megabyte of response.
#[derive(Debug, Default)]
pub(super) struct Kept {
    runs: HashMap<RunId, Arc<Run>>,
}

impl Kept {
    /// Forgets everything: what is on disk is not known any more.
    pub(super) fn forget(&mut self) {
        self.runs.clear();
    }

    /// Takes what a batch knew, once that is on disk.
    pub(super) fn take(&mut self, known: Known) {
        for (run_id, run) in known.runs {
            match run {
                Ok(run) if !run.record.status.is_terminal() => {
                    if self.runs.len() >= KEPT {
                        self.runs.clear();
                    }
                    self.runs.insert(run_id, run);
                }
                _ => drop(self.runs.remove(&run_id)),
            }
        }
    }
}

/// All that the commands of a batch need to know: read before the first of them is decided, then kept up to date with what
/// each of them has made of it.
#[derive(Debug, Default)]
pub(super) struct Known {
    runs: HashMap<RunId, Result<Arc<Run>, Damage>>,
    requests: HashMap<RequestId, Result<RunId, Damage>>,
    steps: HashMap<RunId, Result<Vec<RecordedStep>, Damage>>,
}

impl Known {
    /// Reads what `commands` need and is not kept.
    ///
    /// # Errors
    /// When the database fails. What is damaged is known as that.
    pub(super) async fn read(
        connection: &mut WriteConnection,
        kept: &Kept,
        commands: &[&Command],
    ) -> Result<Self, StoreError> {
        let mut known = Self::default();
        let mut missing = HashSet::new();
        for run_id in commands.iter().filter_map(|command| changed_run(command)) {
            match kept.runs.get(run_id) {
                Some(run) => drop(known.runs.insert(run_id.clone(), Ok(Arc::clone(run)))),
                None => drop(missing.insert(run_id)),
            }
        }
        for found in connection.runs(&all(&missing)).await? {
            known.found(found);
        }
        let requests = commands.iter().filter_map(|command| creating_request(command)).collect();
        for found in connection.runs_by_request(&all(&requests)).await? {
            known.found(found);
        }
        let stepping: HashSet<&RunId> = commands.iter().filter_map(|command| stepping_run(command)).collect();
        for found in connection.steps(&all(&stepping)).await? {
            if let Ok(run_id) = RunId::try_from(found.run_id) {
                known.found_step(run_id, found.step);
            }
        }
        Ok(known)
    }

    /// The run with this id, if there is one.
    pub(super) fn run(&self, run_id: &RunId) -> Result<Option<Run>, Damage> {
        let run = self.runs.get(run_id).cloned().transpose()?;
        Ok(run.map(Arc::unwrap_or_clone))
    }

    /// The run that a request made, if it made one.
    pub(super) fn run_of(&self, request_id: &RequestId) -> Result<Option<Run>, Damage> {
        match self.requests.get(request_id).cloned().transpose()? {
            Some(run_id) => self.run(&run_id),
            None => Ok(None),
        }
    }

    /// Sequence of the event that recorded the step of `change` before.
    pub(super) fn recorded_step(&self, run_id: &RunId, change: &Change) -> Result<Option<i64>, Damage> {
        match self.steps.get(run_id) {
            Some(Ok(steps)) => Ok(steps.iter().find(|step| step.is(change)).map(|step| step.sequence)),
            Some(Err(damage)) => Err(Arc::clone(damage)),
            None => Ok(None),
        }
    }

    /// A command has made `run` of a run, or a new run.
    pub(super) fn changed(&mut self, run: &Arc<Run>) {
        if !self.runs.contains_key(run.id()) {
            self.requests.insert(run.request_id.clone(), Ok(run.id().clone()));
        }
        self.runs.insert(run.id().clone(), Ok(Arc::clone(run)));
    }

    /// A command has recorded a step.
    pub(super) fn stepped(&mut self, run_id: &RunId, step: RecordedStep) {
        self.found_step(run_id.clone(), Ok(step));
    }

    fn found(&mut self, found: StoredRun) {
        let run = found.run.map(Arc::new).map_err(Arc::new);
        if let Ok(request_id) = RequestId::try_from(found.request_id) {
            self.requests.insert(request_id, run.as_ref().map(|run| run.id().clone()).map_err(Arc::clone));
        }
        if let Ok(run_id) = RunId::try_from(found.run_id) {
            self.runs.insert(run_id, run);
        }
    }

    fn found_step(&mut self, run_id: RunId, step: Result<RecordedStep, StoreError>) {
        let steps = self.steps.entry(run_id).or_insert_with(|| Ok(Vec::new()));
        match (steps, step) {
            (Ok(steps), Ok(step)) => steps.push(step),
            (steps @ Ok(_), Err(damage)) => *steps = Err(Arc::new(damage)),
            (Err(_), _) => {}
        }
    }
}

fn changed_run(command: &Command) -> Option<&RunId> {
    match &command.order {
        Order::Change { run_id, .. } => Some(run_id),
        Order::Create(_) => None,
    }
}

fn creating_request(command: &Command) -> Option<&RequestId> {
    match &command.order {
        Order::Create(new) => Some(&new.request_id),
        Order::Change { .. } => None,
    }
}

fn stepping_run(command: &Command) -> Option<&RunId> {
    match &command.order {
        Order::Change { run_id, change: Change::Step { .. } } => Some(run_id),
        _ => None,
    }
}

fn all<'a, T: Eq + Hash>(keys: &HashSet<&'a T>) -> Vec<&'a T> {
    keys.iter().copied().collect()
}
