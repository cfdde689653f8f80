//! Retention: what of what is there may go by the rules, and why.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use mosaic_config::{Retention, Rule};
use mosaic_ids::{Name, RunId};

/// Everything that a plan is made from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Terminal runs.
    pub runs: Vec<EndedRun>,
    /// Sessions that are there.
    pub sessions: Vec<Session>,
}

/// A terminal run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedRun {
    /// Its id.
    pub run: RunId,
    /// When it became terminal, by the wall clock of then.
    pub finished_at: Timestamp,
    /// True while a person keeps it.
    pub kept: bool,
    /// True while somebody still works on it: its files are being written, or what it had for itself is not free yet.
    pub in_hand: bool,
    /// What it takes on disk.
    pub sizes: RunSizes,
}

/// What a run takes on disk, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunSizes {
    /// Its whole directory.
    pub record: u64,
    /// What its adapter wrote; `None` when that is not there any more.
    pub output: Option<u64>,
    /// Its `:run` workspace; `None` when there is none any more.
    pub workspace: Option<RunWorkspace>,
}

/// A `:run` workspace that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunWorkspace {
    /// What it takes on disk, in bytes.
    pub bytes: u64,
    /// True when nothing is in it.
    pub empty: bool,
}

/// A session that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its name.
    pub name: Name,
    /// When a run that used it finished last; where none is recorded any more, when the directory changed last.
    pub last_used: Timestamp,
    /// True while a run that is not over uses it or waits for it.
    pub in_use: bool,
    /// True while a person keeps a run that used it.
    pub kept: bool,
    /// What it takes on disk.
    pub bytes: u64,
}

/// What may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// What a run's adapter wrote.
    Output(RunId),
    /// A whole run.
    Record(RunId),
    /// A session.
    Session(Name),
    /// A `:run` workspace.
    Workspace(RunId),
}

/// One thing that goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// What.
    pub what: What,
    /// What it takes on disk.
    pub bytes: u64,
    /// Why.
    pub why: Why,
}

/// Why something goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Why {
    /// The bound that it is beyond.
    pub bound: Bound,
    /// True for a workspace whose run goes as a whole: it is archived first, and the rest goes with the next prune.
    pub for_its_record: bool,
}

/// A bound of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// It is at least this old.
    Age(Duration),
    /// It is not among so many newest ones.
    Count(u64),
    /// The newest ones take so many bytes without it.
    Bytes(u64),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bound.fmt(f)?;
        if self.for_its_record {
            f.write_str("; archived first, its record goes with the next prune")?;
        }
        Ok(())
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY: u64 = 24 * 3600;
        match self {
            Self::Age(age) if age.as_secs() >= DAY && age.as_secs() % DAY == 0 => {
                write!(f, "older than {} d", age.as_secs() / DAY)
            }
            Self::Age(age) => write!(f, "older than {} s", age.as_secs()),
            Self::Count(count) => write!(f, "not among the newest {count}"),
            Self::Bytes(bytes) => write!(f, "beyond {} in total", mosaic_lifecycle::human_bytes(*bytes)),
        }
    }
}

/// What goes by `policy` at the time `now`: first what frees space without needing any, workspaces last. Each kind oldest
/// first. What a person keeps, or somebody works on, is outside of every rule: it neither goes nor counts.
#[must_use]
pub fn plan(facts: &Facts, policy: &Retention, now: Timestamp) -> Vec<Planned> {
    let runs: Vec<&EndedRun> = facts.runs.iter().filter(|run| !run.kept && !run.in_hand).collect();
    let records = beyond(policy.records, now, &runs, |run| Some((run.finished_at, run.sizes.record)));
    let whole: HashSet<&RunId> = records.iter().map(|(run, _)| &run.run).collect();

    let mut plan = Vec::new();
    for (run, bound) in beyond(policy.output, now, &runs, |run| Some((run.finished_at, run.sizes.output?))) {
        if has_work(run) || !whole.contains(&run.run) {
            plan.push(planned(What::Output(run.run.clone()), run.sizes.output.unwrap_or_default(), bound));
        }
    }
    for (run, bound) in records.iter().filter(|(run, _)| !has_work(run)) {
        plan.push(planned(What::Record(run.run.clone()), run.sizes.record, *bound));
    }
    let sessions: Vec<&Session> = facts.sessions.iter().filter(|session| !session.in_use && !session.kept).collect();
    for (session, bound) in beyond(policy.sessions, now, &sessions, |session| Some((session.last_used, session.bytes)))
    {
        plan.push(planned(What::Session(session.name.clone()), session.bytes, bound));
    }
    plan.extend(workspaces(policy, now, &runs, &records, &whole));
    plan
}

/// A workspace goes by its own rule, or because its run goes: then archived, so that no prune destroys what nobody has had
/// a chance to see.
fn workspaces(
    policy: &Retention,
    now: Timestamp,
    runs: &[&EndedRun],
    records: &[(&EndedRun, Bound)],
    whole: &HashSet<&RunId>,
) -> Vec<Planned> {
    let bytes = |run: &EndedRun| run.sizes.workspace.map(|workspace| workspace.bytes);
    let own = beyond(policy.workspaces, now, runs, |run| Some((run.finished_at, bytes(run)?)));
    let by_own: HashSet<&RunId> = own.iter().map(|(run, _)| &run.run).collect();
    let why = |bound: Bound, run: &EndedRun| Why { bound, for_its_record: whole.contains(&run.run) };
    let own = own.iter().filter(|(run, _)| has_work(run) || !whole.contains(&run.run));
    let of_records = records.iter().filter(|(run, _)| has_work(run) && !by_own.contains(&run.run));
    let plan = own.chain(of_records).map(|(run, bound)| (*run, why(*bound, run)));
    let planned = |(run, why): (&EndedRun, Why)| Planned {
        what: What::Workspace(run.run.clone()),
        bytes: bytes(run).unwrap_or_default(),
        why,
    };
    plan.map(planned).collect()
}

/// True when something is in its `:run` workspace.
fn has_work(run: &EndedRun) -> bool {
    run.sizes.workspace.is_some_and(|workspace| !workspace.empty)
}

fn planned(what: What, bytes: u64, bound: Bound) -> Planned {
    Planned { what, bytes, why: Why { bound, for_its_record: false } }
}

/// The items beyond the rule, oldest first. `of` says when an item was last used and what it takes; `None` leaves it out.
fn beyond<'a, T>(
    rule: Option<Rule>,
    now: Timestamp,
    items: &[&'a T],
    of: impl Fn(&T) -> Option<(Timestamp, u64)>,
) -> Vec<(&'a T, Bound)> {
    let Some(rule) = rule else { return Vec::new() };
    let mut newest_first: Vec<(&T, Timestamp, u64)> =
        items.iter().filter_map(|item| of(item).map(|(time, bytes)| (*item, time, bytes))).collect();
    newest_first.sort_by_key(|(_, time, _)| std::cmp::Reverse(*time));
    let (mut beyond, mut number, mut total, mut full) = (Vec::new(), 0_u64, 0_u64, false);
    for (item, time, bytes) in newest_first {
        number += 1;
        total = total.saturating_add(bytes);
        full |= rule.max_bytes.is_some_and(|max| total > max);
        let by_age = rule.max_age.filter(|max| age(now, time) >= *max).map(Bound::Age);
        let by_count = rule.max_count.filter(|max| number > *max).map(Bound::Count);
        let by_bytes = rule.max_bytes.filter(|_| full).map(Bound::Bytes);
        if let Some(bound) = by_age.or(by_count).or(by_bytes) {
            beyond.push((item, bound));
        }
    }
    beyond.reverse();
    beyond
}

/// How old something is. What happened in the future, by a clock that was set back since, is new.
fn age(now: Timestamp, time: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(time)).unwrap_or_default()
}

/// What the wall clock is trusted to show: it may have been set forward since `then`, and removing can't be undone, so no
/// more time counts than has passed by a clock that nobody sets.
#[must_use]
pub fn trusted_now(wall: Timestamp, then: Timestamp, passed: Duration) -> Timestamp {
    then.checked_add(passed).map_or(wall, |latest| wall.min(latest))
}

#[cfg(test)]
mod tests;
