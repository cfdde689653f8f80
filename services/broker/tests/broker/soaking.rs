use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use sqlx::Connection as _;
use tokio::sync::watch;

use crate::bed::{Bed, prepared, soak};
use crate::killing::{kill, start_process};
use crate::pipelining::report_through;

const WRITERS: usize = 64;

/// All of it takes long at the full count.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Length past which the log is emptied, and what one transaction may add to it.
const LOG_BYTES: u64 = (64 + 16) * 1024 * 1024;

/// What the writers have had acknowledged.
struct Progress {
    /// Reports of each run, in order.
    reports: Vec<AtomicI64>,
    all: watch::Sender<i64>,
    latencies: Mutex<Vec<Duration>>,
}

impl Progress {
    async fn reach(&self, reports: i64) {
        self.all.subscribe().wait_for(|&all| all >= reports).await.expect("it lives as long");
    }

    /// Reports on a run up to `last`, over any outage, going on after what was acknowledged.
    async fn write(&self, bed: &Bed, writer: usize, run_id: &str, last: i64) {
        let own = &self.reports[writer];
        while own.load(Ordering::SeqCst) < last {
            let numbers = own.load(Ordering::SeqCst) + 1..=last;
            let cut_off = report_through(bed, run_id, 1, numbers, |number, latency| {
                assert_eq!(own.fetch_add(1, Ordering::SeqCst) + 1, number, "acknowledged in order");
                self.all.send_modify(|all| *all += 1);
                self.latencies.lock().expect("no panic").push(latency);
            });
            if cut_off.await.is_err() {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Keeps the ledger as it is now in view, and tries to empty the log beside it, as backups and curious people do.
async fn disturb(bed: &Bed, done: &AtomicBool) {
    let (mut reader, mut other) = (bed.raw().await, bed.raw().await);
    let mut old = reader.begin().await.expect("a snapshot");
    let count = "SELECT COUNT(*) FROM events";
    let before: i64 = sqlx::query_scalar(count).fetch_one(&mut *old).await.expect("counted");
    while !done.load(Ordering::SeqCst) {
        sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&mut other).await.expect("a checkpoint");
        let after: i64 = sqlx::query_scalar(count).fetch_one(&mut *old).await.expect("counted");
        assert_eq!(before, after, "what is in view does not change");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stderr, reason = "a soak reports what it measured")]
async fn many_writers_lose_nothing_over_a_kill_a_long_reader_and_forced_checkpoints() {
    let bed = Bed::idle();
    let each = i64::from(soak(10_000));
    let all = each * WRITERS as i64;
    let mut child = start_process(&bed).await;
    let mut runs = Vec::new();
    for number in 0..WRITERS {
        runs.push(prepared(&bed, &format!("q-{number}")).await);
    }
    let progress = Progress {
        reports: runs.iter().map(|_| AtomicI64::new(0)).collect(),
        all: watch::Sender::new(0),
        latencies: Mutex::default(),
    };
    let killed = AtomicBool::new(false);
    let interfere = async {
        progress.reach(all / 2).await;
        kill(&mut child).await;
        killed.store(true, Ordering::SeqCst);
        child = start_process(&bed).await;
        progress.reach(all * 3 / 4).await;
        let forced = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut bed.raw().await).await;
        forced.expect("a checkpoint, or a reader in its way");
    };
    let writers = runs.iter().enumerate().map(|(writer, run_id)| progress.write(&bed, writer, run_id, each));
    let work = async { tokio::join!(futures::future::join_all(writers), interfere, disturb(&bed, &killed)) };
    tokio::time::timeout(PATIENCE, work).await.expect("in time");

    assert_eq!(bed.assert_intact().await, all + 3 * WRITERS as i64, "acknowledged is stored, each once");
    let log = std::fs::metadata(bed.root.ledger().with_extension("db-wal")).map_or(0, |log| log.len());
    assert!(log <= LOG_BYTES, "the log has {log} bytes");
    let check: String =
        sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut bed.raw().await).await.expect("checked");
    assert_eq!(check, "ok");
    kill(&mut child).await;

    let mut latencies = progress.latencies.into_inner().expect("no panic");
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    eprintln!("{all} reports; acknowledged after {:?} (p50), {:?} (p99)", at(0.5), at(0.99));
}
