use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use mosaic_ids::RunId;

use super::{AppError, Execution, State};

/// Executions that may be live at once.
const LIVE: usize = 1024;

/// Executions that are remembered after their end.
const REMEMBERED: usize = 1024;

/// The executions that are live, and those that ended last.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    executions: HashMap<RunId, Arc<Execution>>,
    ended: VecDeque<RunId>,
}

/// What a run's place in the registry holds.
#[derive(Debug)]
pub(crate) enum Reserved {
    /// Nothing was there; the caller makes the execution.
    New(Arc<Execution>),
    /// It is there already.
    Present(Arc<Execution>),
}

impl Registry {
    /// Takes the place of a run. One that was never started leaves its place free.
    pub(crate) fn reserve(&self, run: &RunId, epoch: i64) -> Result<Reserved, AppError> {
        let mut inner = self.inner.lock().expect("never poisoned");
        if let Some(present) = inner.executions.get(run)
            && !matches!(present.status().state, State::NotStarted(_))
        {
            return Ok(Reserved::Present(Arc::clone(present)));
        }
        if inner.executions.len() - inner.ended.len() >= LIVE {
            return Err(AppError::Full { limit: LIVE });
        }
        let execution = Arc::new(Execution::new(run.clone(), epoch));
        inner.executions.insert(run.clone(), Arc::clone(&execution));
        Ok(Reserved::New(execution))
    }

    /// Puts an execution of an earlier life in its place.
    pub(crate) fn insert(&self, execution: Arc<Execution>) {
        self.inner.lock().expect("never poisoned").executions.insert(execution.run.clone(), execution);
    }

    pub(crate) fn get(&self, run: &RunId) -> Option<Arc<Execution>> {
        self.inner.lock().expect("never poisoned").executions.get(run).cloned()
    }

    /// Forgets an execution, unless another has its place by now.
    pub(crate) fn forget(&self, execution: &Arc<Execution>) {
        let mut inner = self.inner.lock().expect("never poisoned");
        if inner.executions.get(&execution.run).is_some_and(|present| Arc::ptr_eq(present, execution)) {
            inner.executions.remove(&execution.run);
        }
    }

    /// Marks an execution as over, and forgets those that ended long ago.
    pub(crate) fn settle(&self, run: &RunId) {
        let mut inner = self.inner.lock().expect("never poisoned");
        if inner.executions.contains_key(run) && !inner.ended.contains(run) {
            inner.ended.push_back(run.clone());
        }
        while inner.ended.len() > REMEMBERED
            && let Some(oldest) = inner.ended.pop_front()
        {
            inner.executions.remove(&oldest);
        }
    }

    /// Those of this life that have not ended.
    pub(crate) fn live(&self) -> Vec<Arc<Execution>> {
        let inner = self.inner.lock().expect("never poisoned");
        let is_live = |execution: &&Arc<Execution>| {
            let is_over = matches!(execution.status().state, State::Ended | State::NotStarted(_));
            !is_over && !execution.is_inherited()
        };
        inner.executions.values().filter(is_live).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: usize) -> RunId {
        format!("r-{number}").parse().expect("run id")
    }

    #[test]
    fn a_run_has_one_place_and_a_failed_start_leaves_it_free() {
        let registry = Registry::default();
        let Ok(Reserved::New(first)) = registry.reserve(&run(1), 1) else { panic!("the place is free") };
        assert!(matches!(registry.reserve(&run(1), 1), Ok(Reserved::Present(_))));
        first.update(|status| status.state = State::NotStarted(AppError::Closing));
        let Ok(Reserved::New(second)) = registry.reserve(&run(1), 2) else { panic!("the place is free") };
        registry.forget(&first);
        assert!(registry.get(&run(1)).is_some(), "the place is the second one's");
        registry.forget(&second);
        assert!(registry.get(&run(1)).is_none());
    }

    #[test]
    fn what_an_earlier_life_left_is_known_and_not_waited_for() {
        let registry = Registry::default();
        registry.insert(Arc::new(Execution::inherited(run(1), 1)));
        assert!(matches!(registry.reserve(&run(1), 1), Ok(Reserved::Present(_))));
        assert!(registry.live().is_empty());
    }

    #[test]
    fn only_the_last_ended_ones_are_remembered_and_live_ones_are_bounded() {
        let registry = Registry::default();
        for number in 0..REMEMBERED + 3 {
            registry.reserve(&run(number), 1).expect("a place");
            registry.settle(&run(number));
        }
        assert!(registry.get(&run(2)).is_none() && registry.get(&run(3)).is_some());
        for number in 10_000..10_000 + LIVE {
            registry.reserve(&run(number), 1).expect("a place");
        }
        assert_eq!(registry.reserve(&run(99_999), 1).expect_err("full"), AppError::Full { limit: LIVE });
    }
}
