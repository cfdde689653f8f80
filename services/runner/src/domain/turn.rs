//! One turn of an adapter: what each thing that happens means, and what is to be done about it.
//!
//! Times are durations since the adapter was started, by a monotonic clock.

use std::time::Duration;

use mosaic_adapters::{ActivityDeclared, Metadata, TurnMarker};
use mosaic_record::{ActivitySource, EndReason, Limits};
use mosaic_shim::protocol::Exit;

/// How long the shim may take to end what an adapter left behind before the sandbox is killed from outside.
const TIDY_LIMIT: Duration = Duration::from_secs(2);

/// What can happen in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happening {
    /// The activity token appeared.
    Activity,
    /// The first byte came out of standard output.
    FirstByte,
    /// The turn marker appeared.
    TurnDone,
    /// The adapter ended.
    Exited(Exit),
    /// Somebody wants the run to end.
    StopAsked,
    /// The sandbox refused to fork for want of processes.
    ProcessLimit,
    /// The shim says nothing more, or the sandbox is gone.
    Silence,
    /// Time has passed.
    Time,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Report the first output of the model.
    ReportActivity {
        /// Time since the adapter was started.
        latency: Duration,
        /// Who saw it.
        source: ActivitySource,
    },
    /// Report the end of the turn.
    ReportTurnDone,
    /// Report that the run is being ended.
    ReportEnding(EndReason),
    /// Ask the adapter to end.
    Terminate,
    /// Kill the sandbox.
    Kill,
}

/// Where a turn is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The adapter works.
    Working,
    /// The turn is over by its marker, and the process may go on until then.
    Lingering { until: Duration },
    /// The adapter was asked to end, and is killed then.
    Stopping { until: Duration },
    /// The adapter has ended; what it left behind is being removed by the shim, or then from outside.
    Tidying { until: Duration },
    /// The sandbox was killed.
    Killed,
}

/// A turn.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    rules: Rules,
    phase: Phase,
    has_activity: bool,
    cause: Option<EndReason>,
    has_marker: bool,
    lingered: bool,
    exit: Option<Exit>,
}

#[derive(Debug, Clone, Copy)]
struct Rules {
    wall: Duration,
    no_activity: Option<Duration>,
    grace: Duration,
    linger: Duration,
    by_token_alone: bool,
    has_marker: bool,
}

/// What came of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TurnResult {
    /// How the adapter ended; `None` when nobody saw it.
    pub(crate) exit: Option<Exit>,
    /// Why it was ended, if it did not end by itself.
    pub(crate) cause: Option<EndReason>,
    /// True when the turn marker was written.
    pub(crate) has_marker: bool,
    /// True when the adapter went on after its marker and was killed.
    pub(crate) lingered: bool,
}

impl Turn {
    /// A turn that begins now.
    pub(crate) fn new(metadata: &Metadata, limits: &Limits) -> Self {
        let by_token_alone = metadata.activity == ActivityDeclared::Adapter;
        let rules = Rules {
            wall: Duration::from_secs(limits.timeout_seconds),
            no_activity: by_token_alone.then(|| Duration::from_secs(limits.no_activity_seconds)),
            grace: Duration::from_secs(limits.stop_grace_seconds),
            linger: Duration::from_secs(limits.linger_seconds),
            by_token_alone,
            has_marker: metadata.turn_marker != TurnMarker::None,
        };
        Self {
            rules,
            phase: Phase::Working,
            has_activity: false,
            cause: None,
            has_marker: false,
            lingered: false,
            exit: None,
        }
    }

    /// When something happens if nothing else does.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Working => {
                let silent = self.rules.no_activity.filter(|_| !self.has_activity);
                Some(silent.map_or(self.rules.wall, |limit| limit.min(self.rules.wall)))
            }
            Phase::Lingering { until } | Phase::Stopping { until } | Phase::Tidying { until } => Some(until),
            Phase::Killed => None,
        }
    }

    /// What `happening` at `now` leads to. Where a deadline has passed by then, that came first.
    pub(crate) fn take(&mut self, happening: Happening, now: Duration) -> Vec<Act> {
        let mut acts = self.time(now);
        acts.extend(self.happens(happening, now));
        acts
    }

    fn happens(&mut self, happening: Happening, now: Duration) -> Vec<Act> {
        match happening {
            Happening::Activity => self.activity(ActivitySource::Adapter, now),
            Happening::FirstByte if !self.rules.by_token_alone => self.activity(ActivitySource::Stdout, now),
            Happening::FirstByte => Vec::new(),
            Happening::TurnDone => self.turn_done(now),
            Happening::Exited(exit) => self.exited(exit, now),
            Happening::StopAsked => self.stop(now),
            Happening::ProcessLimit => self.process_limit(),
            Happening::Silence => self.kill(),
            Happening::Time => Vec::new(),
        }
    }

    /// What came of it.
    pub(crate) const fn result(&self) -> TurnResult {
        TurnResult { exit: self.exit, cause: self.cause, has_marker: self.has_marker, lingered: self.lingered }
    }

    fn activity(&mut self, source: ActivitySource, now: Duration) -> Vec<Act> {
        if std::mem::replace(&mut self.has_activity, true) {
            return Vec::new();
        }
        vec![Act::ReportActivity { latency: now, source }]
    }

    fn turn_done(&mut self, now: Duration) -> Vec<Act> {
        if !self.rules.has_marker || self.has_marker || matches!(self.phase, Phase::Tidying { .. } | Phase::Killed) {
            return Vec::new();
        }
        self.has_marker = true;
        // A marker that comes while the run is being stopped does not undo the stop.
        if self.phase == Phase::Working {
            self.phase = Phase::Lingering { until: now + self.rules.linger };
        }
        vec![Act::ReportTurnDone]
    }

    fn exited(&mut self, exit: Exit, now: Duration) -> Vec<Act> {
        if self.exit.is_none() && self.phase != Phase::Killed {
            self.exit = Some(exit);
            self.phase = Phase::Tidying { until: now + TIDY_LIMIT };
        }
        Vec::new()
    }

    fn stop(&mut self, now: Duration) -> Vec<Act> {
        match self.phase {
            Phase::Working => self.end(EndReason::Cancelled, now),
            // The turn is over; only its process is not.
            Phase::Lingering { .. } => self.linger_is_over(),
            Phase::Stopping { .. } | Phase::Tidying { .. } | Phase::Killed => Vec::new(),
        }
    }

    /// Without grace: what forks without end does not stop when it is asked.
    fn process_limit(&mut self) -> Vec<Act> {
        if matches!(self.phase, Phase::Tidying { .. } | Phase::Killed) {
            return Vec::new();
        }
        let cause = *self.cause.get_or_insert(EndReason::ProcessLimit);
        let mut acts = self.kill();
        if cause == EndReason::ProcessLimit {
            acts.insert(0, Act::ReportEnding(cause));
        }
        acts
    }

    fn time(&mut self, now: Duration) -> Vec<Act> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return Vec::new();
        }
        match self.phase {
            Phase::Working if now >= self.rules.wall => self.end(EndReason::TimedOut, now),
            Phase::Working => self.end(EndReason::NoActivity, now),
            Phase::Lingering { .. } => self.linger_is_over(),
            Phase::Stopping { .. } | Phase::Tidying { .. } => self.kill(),
            Phase::Killed => Vec::new(),
        }
    }

    fn end(&mut self, reason: EndReason, now: Duration) -> Vec<Act> {
        self.cause = Some(reason);
        self.phase = Phase::Stopping { until: now + self.rules.grace };
        vec![Act::ReportEnding(reason), Act::Terminate]
    }

    fn linger_is_over(&mut self) -> Vec<Act> {
        self.lingered = true;
        self.kill()
    }

    fn kill(&mut self) -> Vec<Act> {
        self.phase = Phase::Killed;
        vec![Act::Kill]
    }
}

#[cfg(test)]
mod tests;
