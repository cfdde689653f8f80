use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use mosaic_proto::broker::v1 as pb;
use sqlx::Connection as _;
use tokio::process::{Child, Command};

use crate::bed::{Bed, create, soak, soon};

/// The broker as a process of its own, on the data root of `bed`.
pub(crate) async fn start_process(bed: &Bed) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mosaic-broker"));
    command.arg("--data-root").arg(bed.root.path()).env_clear().stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let child = command.spawn().expect("the process starts");
    let serves = async {
        let probe = || bed.operator().list_runs_once();
        while probe().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    soon(serves).await;
    child
}

/// Kills the process, and is done when it is gone.
pub(crate) async fn kill(child: &mut Child) {
    let pid = i32::try_from(child.id().expect("alive")).expect("a pid");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).expect("killed");
    child.wait().await.expect("reaped");
}

/// One call that changes nothing.
trait Probe {
    async fn list_runs_once(self) -> Result<(), tonic::Status>;
}

impl Probe for crate::bed::Runs {
    async fn list_runs_once(mut self) -> Result<(), tonic::Status> {
        let request =
            pb::ListRunsRequest { page_size: 1, page_token: String::new(), states: vec![], ..Default::default() };
        self.list_runs(request).await.map(drop)
    }
}

/// Writes until the broker is gone, and says what was acknowledged.
async fn write(bed: &Bed, writer: String, acknowledged: &Mutex<Vec<(String, String)>>, dead: &AtomicBool) {
    let mut launcher = bed.launcher();
    for number in 0.. {
        if dead.load(Ordering::SeqCst) {
            return;
        }
        let request_id = format!("{writer}-{number}");
        if let Ok(answer) = create(&mut launcher, &request_id).await {
            let run_id = answer.run.expect("a run").run_id;
            acknowledged.lock().expect("no panic").push((request_id, run_id));
        }
    }
}

/// Reads an old snapshot and forces checkpoints beside it, as backups and curious people do.
async fn disturb(bed: &Bed, dead: &AtomicBool) {
    let (mut reader, mut other) = (bed.raw().await, bed.raw().await);
    let mut old = reader.begin().await.expect("a snapshot");
    let _seen: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM events").fetch_one(&mut *old).await.expect("counted");
    while !dead.load(Ordering::SeqCst) {
        sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&mut other).await.expect("a checkpoint");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_broker_has_everything_that_it_acknowledged() {
    let mut bed = Bed::idle();
    let acknowledged = Mutex::new(Vec::new());
    for round in 0..soak(30) {
        let mut child = start_process(&bed).await;
        let dead = AtomicBool::new(false);
        let before = acknowledged.lock().expect("no panic").len();
        let kill_in_time = async {
            // Somewhere in the middle of a few hundred writes, later in each round.
            let enough = before + 100 + 37 * round as usize;
            while acknowledged.lock().expect("no panic").len() < enough {
                tokio::task::yield_now().await;
            }
            kill(&mut child).await;
            dead.store(true, Ordering::SeqCst);
        };
        let writers = (0..64).map(|writer| write(&bed, format!("q-{round}-{writer}"), &acknowledged, &dead));
        let all = async { tokio::join!(kill_in_time, disturb(&bed, &dead), futures::future::join_all(writers)) };
        soon(all).await;
    }

    bed.start_broker().await;
    let acknowledged = acknowledged.into_inner().expect("no panic");
    let mut launcher = bed.launcher();
    for (request_id, run_id) in &acknowledged {
        let found = create(&mut launcher, request_id).await.expect("found");
        assert!(!found.created, "`{request_id}` was acknowledged and is gone");
        assert_eq!(&found.run.expect("a run").run_id, run_id);
    }
    let check: String =
        sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut bed.raw().await).await.expect("run");
    assert_eq!(check, "ok");
    let events = bed.assert_intact().await;
    assert!(events >= i64::try_from(acknowledged.len()).expect("few"));
}

#[tokio::test]
async fn a_broker_that_is_asked_to_end_ends_well() {
    let bed = Bed::idle();
    let mut child = start_process(&bed).await;
    create(&mut bed.launcher(), "q").await.expect("created");
    let pid = i32::try_from(child.id().expect("alive")).expect("a pid");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM).expect("asked");
    let status = soon(child.wait()).await.expect("reaped");
    assert!(status.success(), "{status}");
    assert!(!bed.scratch().join("d/broker/ledger.db-wal").exists(), "the write-ahead log was taken in");
}
