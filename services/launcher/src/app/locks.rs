//! Locks of workspaces and sessions: one live run each, first come first served.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use mosaic_ids::{Name, RunId};
use mosaic_record::{RunSpec, Workspace};
use tokio::sync::Notify;

/// What a run needs for itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Claim {
    /// A named workspace.
    Workspace(Name),
    /// A session.
    Session(Name),
}

impl std::fmt::Display for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Workspace(name) => write!(f, "workspace:{name}"),
            Self::Session(name) => write!(f, "session:{name}"),
        }
    }
}

impl Claim {
    /// What a run needs for itself.
    #[must_use]
    pub fn of(spec: &RunSpec) -> Vec<Self> {
        let workspace = match &spec.workspace {
            Some(Workspace::Named(name)) => Some(Self::Workspace(name.clone())),
            Some(Workspace::Run) | None => None,
        };
        workspace.into_iter().chain(spec.session.clone().map(Self::Session)).collect()
    }
}

/// Somebody else has what a run needs, or waits for it longer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{claim}` is in use by `{by}`")]
pub struct Busy {
    /// What.
    pub claim: Claim,
    /// Who.
    pub by: RunId,
}

/// All locks of one launcher.
#[derive(Debug, Clone, Default)]
pub struct Locks {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    held: HashMap<Claim, RunId>,
    /// Ids of runs sort by time, so that the first entry has waited longest.
    waiting: BTreeMap<RunId, Vec<Claim>>,
}

impl State {
    fn busy(&self, run: &RunId, claims: &[Claim]) -> Option<Busy> {
        let holder = |claim: &Claim| self.held.get(claim).cloned();
        let earlier = |claim: &Claim| {
            let mut before = self.waiting.range(..run.clone());
            before.find(|(_, claims)| claims.contains(claim)).map(|(run, _)| run.clone())
        };
        claims.iter().find_map(|claim| {
            let by = holder(claim).or_else(|| earlier(claim))?;
            Some(Busy { claim: claim.clone(), by })
        })
    }
}

impl Locks {
    /// Takes all of `claims` at once, or says what is in the way.
    ///
    /// # Errors
    /// When somebody else has one of them, or waits for it longer.
    pub fn try_take(&self, run: &RunId, claims: &[Claim]) -> Result<Held, Busy> {
        let mut state = self.state();
        if let Some(busy) = state.busy(run, claims) {
            return Err(busy);
        }
        state.waiting.remove(run);
        state.held.extend(claims.iter().map(|claim| (claim.clone(), run.clone())));
        Ok(Held { locks: self.clone(), claims: claims.to_vec() })
    }

    /// Enters the queue for all of `claims`. Dropping the place gives it up.
    #[must_use]
    pub fn enter(&self, run: &RunId, claims: &[Claim]) -> Place {
        self.state().waiting.insert(run.clone(), claims.to_vec());
        Place { locks: self.clone(), run: run.clone(), claims: claims.to_vec() }
    }

    /// Says what is in the way of a run that has not been recorded yet.
    #[must_use]
    pub fn in_the_way(&self, claims: &[Claim]) -> Option<Busy> {
        let state = self.state();
        let holder = |claim: &Claim| {
            let waits = || state.waiting.iter().find(|(_, claims)| claims.contains(claim)).map(|(run, _)| run);
            state.held.get(claim).or_else(waits).cloned()
        };
        claims.iter().find_map(|claim| Some(Busy { claim: claim.clone(), by: holder(claim)? }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().expect("no code panics while it holds the lock")
    }
}

/// A place in the queue.
#[derive(Debug)]
pub struct Place {
    locks: Locks,
    run: RunId,
    claims: Vec<Claim>,
}

impl Place {
    /// Waits until it is this place's turn.
    pub async fn take(self) -> Held {
        loop {
            let changed = self.locks.inner.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Ok(held) = self.locks.try_take(&self.run, &self.claims) {
                return held;
            }
            changed.await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.locks.state().waiting.remove(&self.run).is_some() {
            self.locks.inner.changed.notify_waiters();
        }
    }
}

/// What a run has for itself until this value is dropped.
#[derive(Debug)]
pub struct Held {
    locks: Locks,
    claims: Vec<Claim>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.locks.state();
        for claim in &self.claims {
            state.held.remove(claim);
        }
        drop(state);
        self.locks.inner.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn run(text: &str) -> RunId {
        text.parse().expect("run id")
    }

    fn site() -> Claim {
        Claim::Workspace("site".parse().expect("name"))
    }

    fn chat() -> Claim {
        Claim::Session("chat".parse().expect("name"))
    }

    #[test]
    fn a_claim_is_held_by_one_run() {
        let locks = Locks::default();
        let held = locks.try_take(&run("r-1"), &[site(), chat()]).expect("free");
        let busy = locks.try_take(&run("r-2"), &[chat()]).expect_err("in use");
        assert_eq!(busy.to_string(), "`session:chat` is in use by `r-1`");
        drop(held);
        drop(locks.try_take(&run("r-2"), &[chat()]).expect("free again"));
    }

    #[tokio::test]
    async fn who_waits_longest_is_served_first_and_who_gives_up_is_out_of_the_way() {
        let locks = Locks::default();
        let held = locks.try_take(&run("r-1"), &[site()]).expect("free");
        let impatient =
            tokio::time::timeout(Duration::from_millis(5), locks.enter(&run("r-2"), &[site()]).take()).await;
        impatient.expect_err("still in use");
        let waiting = locks.clone();
        let second = tokio::spawn(async move { waiting.enter(&run("r-3"), &[site(), chat()]).take().await });
        while locks.in_the_way(&[chat()]).is_none() {
            tokio::task::yield_now().await;
        }
        drop(held);
        let busy = locks.try_take(&run("r-4"), &[site()]).expect_err("the third one was first");
        assert_eq!(busy.by, run("r-3"));
        drop(second.await.expect("served"));
        locks.try_take(&run("r-4"), &[site()]).expect("free");
    }
}
