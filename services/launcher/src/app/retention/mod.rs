//! Retention: measuring what is there, planning what may go, and removing it.
//!
//! The broker records each removal before a file goes; it refuses what is kept or live. A run is taken in hand for the time of
//! its removal, so that nobody writes its files anew meanwhile. Only what is known as ours goes: directories of runs that are
//! in the ledger, and sessions by their names. Named workspaces never do.

mod archive;
mod measure;
mod removal;
mod rounds;
mod sweep;
mod walk;

use std::time::Duration;

use jiff::Timestamp;
use mosaic_config::{Retention, Rule};
use mosaic_record::{Actor, Archive};
use mosaic_rpc::RpcError;

use super::App;
use crate::domain::retention::{Facts, Planned, plan, trusted_now};

/// A kind of what can be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whole runs.
    Records,
    /// What adapters wrote.
    Output,
    /// `:run` workspaces.
    Workspaces,
    /// Sessions.
    Sessions,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Records, Self::Output, Self::Workspaces, Self::Sessions];
}

/// What a prune is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Change nothing.
    pub dry_run: bool,
    /// Instead of the configured rules: everything at least this old goes.
    pub older_than: Option<Duration>,
    /// Which kinds; empty for all.
    pub only: Vec<Kind>,
    /// Who asked for it; nobody where it is the launcher's own.
    pub actor: Option<Actor>,
}

/// One thing that a prune was about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// What, and why.
    pub planned: Planned,
    /// What became of it.
    pub fate: Fate,
}

/// What became of something that was to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It would go; nothing was changed.
    WouldGo,
    /// It is gone.
    Gone {
        /// Where its files are kept.
        archive: Option<Archive>,
    },
    /// It was left where it is: somebody keeps it, or works on it.
    Left(String),
    /// It was to go, and could not.
    Failed(String),
}

/// What a prune tells whoever asked for it.
#[derive(Debug)]
pub enum Told {
    /// What became of one thing.
    Item(Pruned),
    /// The sum; the last.
    Sum(Sum),
    /// Why it can't go on; the last.
    Error(RpcError),
}

/// What a prune has done in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// What went, or would go.
    pub items: u64,
    /// Bytes on disk that it took.
    pub freed: u64,
    /// Bytes of archives that were made.
    pub archived: u64,
    /// What was left where it is.
    pub left: u64,
    /// What was to go and could not.
    pub failed: u64,
    /// Events that were cut from the ledger.
    pub cut_events: i64,
    /// Runs that were.
    pub cut_runs: i64,
}

/// The rules of one prune: the configured ones, or those of the order, for the kinds that it names.
fn policy(configured: &Retention, order: &Order) -> Retention {
    let rule = |kind: Kind, configured: Option<Rule>| {
        let asked = order.only.is_empty() || order.only.contains(&kind);
        order.older_than.map(Rule::older_than).or(configured).filter(|_| asked)
    };
    Retention {
        records: rule(Kind::Records, configured.records),
        output: rule(Kind::Output, configured.output),
        workspaces: rule(Kind::Workspaces, configured.workspaces),
        sessions: rule(Kind::Sessions, configured.sessions),
        disk_low_bytes: configured.disk_low_bytes,
    }
}

impl App {
    /// What would go by `policy` now.
    async fn plan(&self, policy: &Retention) -> Result<Vec<Planned>, RpcError> {
        let facts = self.facts().await?;
        Ok(plan(&facts, policy, self.now()))
    }

    /// Bytes that a prune by the configured rules would free.
    ///
    /// # Errors
    /// What the broker answers.
    pub(super) async fn would_free(&self) -> Result<u64, RpcError> {
        let plan = self.plan(&self.inner.config.retention).await?;
        Ok(plan.iter().map(|planned| planned.bytes).fold(0, u64::saturating_add))
    }

    async fn facts(&self) -> Result<Facts, RpcError> {
        // Runs first: one that takes a session after that is seen as using it.
        let ended = self.inner.retention.ended().await?;
        let busy = self.inner.retention.busy_sessions().await?;
        let app = self.clone();
        let measured = tokio::task::spawn_blocking(move || {
            let there: Vec<_> = ended.into_iter().filter(|run| !run.record_pruned).collect();
            measure::facts(&app.inner.root, there, &busy, |run| app.inner.registry.has(run))
        });
        measured.await.map_err(|panic| RpcError::internal(&panic))
    }

    /// What time it is, as far as removing may trust it.
    fn now(&self) -> Timestamp {
        let (then, started) = self.inner.started;
        trusted_now(self.inner.clock.now(), then, self.inner.clock.monotonic().saturating_sub(started))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(older_than: Option<u64>, only: &[Kind]) -> Order {
        Order { dry_run: false, older_than: older_than.map(Duration::from_secs), only: only.to_vec(), actor: None }
    }

    #[test]
    fn an_order_goes_before_the_configuration() {
        let rule = Rule { max_count: Some(3), ..Rule::default() };
        let configured = Retention { records: Some(rule), output: Some(rule), ..Retention::default() };
        assert_eq!(policy(&configured, &order(None, &[])), configured);
        let only = policy(&configured, &order(None, &[Kind::Output, Kind::Sessions]));
        assert_eq!((only.records, only.output, only.sessions), (None, Some(rule), None));
        let aged = policy(&configured, &order(Some(5), &[]));
        let age = Some(Rule::older_than(Duration::from_secs(5)));
        assert_eq!((aged.records, aged.output, aged.workspaces, aged.sessions), (age, age, age, age));
        let aged = policy(&configured, &order(Some(5), &[Kind::Sessions]));
        assert_eq!((aged.records, aged.sessions), (None, age));
    }
}
