use mosaic_ids::{Digest, RunId};

use super::{Event, Head, Recorded, RetainedWalk, Run, RunSummary};

/// Most faults that are told.
const MAX_FAULTS: usize = 100;

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Sequence of the event; 0 when the fault is not an event's.
    pub(crate) sequence: i64,
    /// The run; empty when the fault is not a run's.
    pub(crate) run_id: String,
    /// What is wrong.
    pub(crate) message: String,
}

/// The first faults that were found.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    found: Vec<Fault>,
}

impl Faults {
    /// Adds a fault, unless there are enough of them.
    pub(crate) fn add(&mut self, sequence: i64, run_id: &str, message: impl std::fmt::Display) {
        if !self.is_full() {
            self.found.push(Fault { sequence, run_id: run_id.to_owned(), message: message.to_string() });
        }
    }

    /// True when no more are told.
    pub(crate) fn is_full(&self) -> bool {
        self.found.len() >= MAX_FAULTS
    }

    /// All that are told.
    pub(crate) fn into_vec(self) -> Vec<Fault> {
        self.found
    }
}

/// Walks the whole ledger in order and proves its chain, and what is left before it when the ledger was cut.
#[derive(Debug)]
pub(crate) struct ChainWalk {
    head: Head,
    head_known: bool,
    events: i64,
    /// Until the first event after the cut.
    cut: Option<LeftOfCut>,
}

/// What is left of the events up to a cut.
#[derive(Debug)]
struct LeftOfCut {
    recorded: Recorded,
    walk: RetainedWalk,
    readable: bool,
}

impl ChainWalk {
    /// A walk that begins before the first event of a ledger with this newest checkpoint.
    pub(crate) fn new(newest: Option<&Recorded>) -> Self {
        let cut = newest.map(|recorded| LeftOfCut {
            recorded: recorded.clone(),
            walk: RetainedWalk::default(),
            readable: true,
        });
        Self { head: Head::empty(), head_known: true, events: 0, cut }
    }

    /// Takes the next event.
    pub(crate) fn event(&mut self, event: &Event, faults: &mut Faults) {
        self.pass_cut(event.sequence, faults);
        self.events += 1;
        if let Some(cut) = &mut self.cut {
            cut.walk.event(event.sequence, &event.hash);
            if event.sequence != self.head.sequence + 1 {
                // What was between them was removed.
                self.head.sequence = event.sequence - 1;
                self.head_known = false;
            }
        }
        if !self.head_known {
            self.head.hash = event.previous_hash.clone();
        }
        self.head_known = true;
        for broken in self.head.check(event) {
            faults.add(event.sequence, "", format_args!("event {}: {broken}", event.sequence));
        }
        if !event.is_of_run() && !event.is_of_ledger() {
            let message = "is neither of a run nor what it is called";
            faults.add(event.sequence, "", format_args!("event {}: {message}", event.sequence));
        }
    }

    /// Takes the next event, which can't be read.
    pub(crate) fn damaged(&mut self, sequence: i64, why: impl std::fmt::Display, faults: &mut Faults) {
        self.pass_cut(sequence, faults);
        if let Some(cut) = &mut self.cut {
            cut.readable = false;
        }
        faults.add(sequence, "", why);
        self.events += 1;
        self.head.sequence = sequence;
        self.head_known = false;
    }

    /// When `next` is the first event after the cut: proves what was left before it, and goes on from the cut.
    fn pass_cut(&mut self, next: i64, faults: &mut Faults) {
        let Some(cut) = self.cut.take_if(|cut| next > cut.recorded.checkpoint.sequence) else { return };
        let checkpoint = cut.recorded.checkpoint;
        let left = cut.walk.finish();
        if cut.readable && left.events != checkpoint.retained_events {
            let (found, retained) = (left.events, checkpoint.retained_events);
            let message = format_args!("{found} events are left up to event {}, not {retained}", checkpoint.sequence);
            faults.add(cut.recorded.sequence, "", message);
        } else if cut.readable && left.digest != checkpoint.retained_digest {
            let message = format_args!("what is left up to event {} is not what was signed", checkpoint.sequence);
            faults.add(cut.recorded.sequence, "", message);
        }
        self.head = Head { sequence: checkpoint.sequence, hash: checkpoint.hash };
        self.head_known = true;
    }

    /// Number of events so far.
    pub(crate) fn events(&self) -> i64 {
        self.events
    }

    /// Hash of the last event; none for an empty ledger.
    pub(crate) fn head_hash(self) -> Option<Digest> {
        (self.head.sequence > 0).then_some(self.head.hash)
    }
}

/// Walks the events of one run and proves that what is stored of it is what they say.
#[derive(Debug)]
pub(crate) struct RunWalk {
    run_id: RunId,
    run: Option<Run>,
    whole: bool,
}

impl RunWalk {
    /// A walk that begins before the run's first event.
    pub(crate) fn new(run_id: RunId) -> Self {
        Self { run_id, run: None, whole: true }
    }

    /// Takes the next event. After one that can't be, the rest proves nothing and is passed over.
    pub(crate) fn event(&mut self, event: &Event, faults: &mut Faults) {
        if !self.whole {
            return;
        }
        match self.fold(event) {
            Ok(run) => self.run = Some(run),
            Err(why) => {
                faults.add(event.sequence, self.run_id.as_str(), why);
                self.whole = false;
            }
        }
    }

    /// Takes the next event, which can't be read; the walk of the chain has told it.
    pub(crate) fn damaged(&mut self) {
        self.whole = false;
    }

    fn fold(&mut self, event: &Event) -> Result<Run, String> {
        let parsed =
            event.run_event().map_err(|error| format!("event {} has no valid payload: {error}", event.sequence))?;
        if parsed.kind() != event.kind {
            return Err(format!("event {} is called `{}` and is `{}`", event.sequence, event.kind, parsed.kind()));
        }
        let folded = match self.run.take() {
            Some(run) => run.then(&event.meta(), &parsed, event.sequence),
            None => Run::queued(&self.run_id, &event.meta(), &parsed, event.sequence),
        };
        folded.map_err(|illegal| format!("event {}: {illegal}", event.sequence))
    }

    /// Compares what is stored with what the events say.
    pub(crate) fn compare(self, stored: &Run, columns: &RunSummary, faults: &mut Faults) {
        if !self.whole {
            return;
        }
        let run_id = self.run_id.as_str();
        let Some(mut told) = self.run else {
            return faults.add(0, run_id, "the run has no event");
        };
        if stored.holder.is_none() {
            // Given back, which is no event.
            told.holder = None;
        }
        if stored.record != told.record {
            faults.add(0, run_id, "the record is not what the events say");
        }
        if *columns != told.summary() || (Run { record: told.record.clone(), ..stored.clone() }) != told {
            faults.add(0, run_id, "the columns of the run are not what the events say");
        }
    }
}
