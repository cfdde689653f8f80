//! Every run against its events: read many at a time, while those read before are folded elsewhere.

use std::collections::VecDeque;

use mosaic_ids::RunId;

use super::with_cause;
use crate::app::{AppError, off_the_workers};
use crate::domain::{Faults, RunWalk};
use crate::store::{Candidate, EventPage, PageLimits, Snapshot, StoreError, StoredRow};

/// Runs that are read at once, as far as their events fit a page.
const RUNS: i64 = 128;

/// Events of a page.
const PAGE: PageLimits = PageLimits { events: 1024, bytes: 1024 * 1024 };

/// Some events of a run, and with its last ones what is stored of it.
struct Piece {
    run_id: String,
    events: EventPage,
    row: Option<StoredRow>,
    is_last: bool,
}

/// Proves every run. Returns how many there are.
pub(super) async fn walk(snapshot: &mut Snapshot, faults: Faults) -> Result<(i64, Faults), AppError> {
    let mut proof = Proof { runs: 0, open: None, faults };
    let mut reader = Reader { after: i64::MIN, candidates: VecDeque::new(), long: None };
    let mut pieces = reader.next(snapshot).await?;
    while !pieces.is_empty() {
        let proven = off_the_workers(move || {
            pieces.into_iter().for_each(|piece| proof.piece(piece));
            Ok(proof)
        });
        let (proven, next) = tokio::join!(proven, reader.next(snapshot));
        (proof, pieces) = (proven?, next?);
    }
    Ok((proof.runs, proof.faults))
}

/// Where the reading is.
struct Reader {
    after: i64,
    candidates: VecDeque<Candidate>,
    /// A run whose events do not fit a page, and from where on they are missing.
    long: Option<(String, i64)>,
}

impl Reader {
    /// The next pieces, no more than a page holds; none at the end.
    async fn next(&mut self, snapshot: &mut Snapshot) -> Result<Vec<Piece>, StoreError> {
        if let Some((run_id, from)) = self.long.take() {
            return self.part(snapshot, run_id, from).await;
        }
        if self.candidates.is_empty() {
            self.candidates = snapshot.candidates(self.after, RUNS).await?.into();
            self.after = self.candidates.back().map_or(self.after, |last| last.first_sequence);
        }
        match self.fitting() {
            0 => match self.candidates.pop_front() {
                Some(long) => self.part(snapshot, long.run_id, 0).await,
                None => Ok(vec![]),
            },
            short => whole(snapshot, self.candidates.drain(..short).collect()).await,
        }
    }

    /// How many of the next runs fit a page together.
    fn fitting(&self) -> usize {
        let (mut events, mut bytes) = (PAGE.events, PAGE.bytes as f64);
        let fits = |candidate: &&Candidate| {
            events -= candidate.events;
            bytes -= candidate.bytes;
            events >= 0 && bytes >= 0.0
        };
        self.candidates.iter().take_while(fits).count()
    }

    /// A page of a long run.
    async fn part(&mut self, snapshot: &mut Snapshot, run_id: String, from: i64) -> Result<Vec<Piece>, StoreError> {
        let events = snapshot.events_of(&run_id, from, PAGE).await?;
        if let Some(last) = events.last() {
            self.long = Some((run_id.clone(), last.sequence + 1));
            return Ok(vec![Piece { run_id, events, row: None, is_last: false }]);
        }
        let row = snapshot.rows_of_all(&[&run_id]).await?.remove(&run_id);
        Ok(vec![Piece { run_id, events, row, is_last: true }])
    }
}

/// All of short runs.
async fn whole(snapshot: &mut Snapshot, candidates: Vec<Candidate>) -> Result<Vec<Piece>, StoreError> {
    let run_ids: Vec<&str> = candidates.iter().map(|candidate| candidate.run_id.as_str()).collect();
    let mut events = snapshot.events_of_all(&run_ids).await?;
    let mut rows = snapshot.rows_of_all(&run_ids).await?;
    let piece = |candidate: Candidate| Piece {
        events: events.remove(&candidate.run_id).unwrap_or_default(),
        row: rows.remove(&candidate.run_id),
        run_id: candidate.run_id,
        is_last: true,
    };
    Ok(candidates.into_iter().map(piece).collect())
}

/// What was proven so far.
struct Proof {
    runs: i64,
    /// The walk of a run whose events go on in the next piece.
    open: Option<RunWalk>,
    faults: Faults,
}

impl Proof {
    fn piece(&mut self, piece: Piece) {
        self.runs += i64::from(piece.is_last);
        let walk = match (self.open.take(), piece.run_id.parse::<RunId>()) {
            (Some(open), _) => Ok(open),
            (None, parsed) => parsed.map(RunWalk::new),
        };
        let mut walk = match walk {
            Ok(walk) => walk,
            Err(error) if piece.is_last => return self.faults.add(0, &piece.run_id, error),
            Err(_told_with_the_last_piece) => return,
        };
        for stored in piece.events {
            match stored.event {
                Ok(event) => walk.event(&event, &mut self.faults),
                Err(_told_by_the_chain) => walk.damaged(),
            }
        }
        if !piece.is_last {
            self.open = Some(walk);
            return;
        }
        match piece.row.map(|row| (row.run, row.columns)) {
            Some((Ok(run), Ok(columns))) => walk.compare(&run, &columns, &mut self.faults),
            Some((Err(damage), _) | (_, Err(damage))) => self.faults.add(0, &piece.run_id, with_cause(&damage)),
            None => self.faults.add(0, &piece.run_id, "the run is missing"),
        }
    }
}
