use mosaic_proto::broker::v1 as pb;

use crate::bed::{Bed, create, prepared, queued, reason, send, soak, soon};

#[tokio::test]
async fn writers_that_wait_together_are_committed_together() {
    let bed = Bed::start().await;
    let each = soak(200);
    let writers = (0..64).map(|writer| {
        let mut launcher = bed.launcher();
        async move {
            for number in 0..each {
                create(&mut launcher, &format!("q-{writer}-{number}")).await.expect("created");
            }
        }
    });
    futures::future::join_all(writers).await;
    let (commits, events) = (bed.handle().commits(), bed.handle().events());
    assert_eq!(events, u64::from(64 * each));
    assert!(commits < events / 2, "{commits} commits for {events} events");
    assert_eq!(bed.assert_intact().await, i64::from(64 * each));
}

#[tokio::test]
async fn a_refused_command_spoils_nothing_for_those_it_is_written_with() {
    let bed = Bed::start().await;
    let calls = (0..60).map(|number| {
        let mut launcher = bed.launcher();
        async move {
            // Every third one asks for a run that is not there.
            if number % 3 == 0 {
                let cancel = pb::CancelRunRequest { run_id: "r-nobody".to_owned() };
                assert_eq!(reason(launcher.cancel_run(cancel).await), "not-found");
            } else {
                create(&mut launcher, &format!("q-{number}")).await.expect("created");
            }
        }
    });
    futures::future::join_all(calls).await;
    assert_eq!(bed.assert_intact().await, 40);
}

#[tokio::test]
async fn a_failed_transaction_fails_its_commands_and_leaves_nothing_behind() {
    let bed = Bed::start().await;
    let run_id = prepared(&bed, "q").await;
    let mut raw = bed.raw().await;
    // The event goes in, the run does not: the whole transaction has to go.
    let trap = "CREATE TRIGGER full BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'the disk is full'); END";
    sqlx::raw_sql(trap).execute(&mut raw).await.expect("a trap");
    let calls = (0..10).map(|number| {
        let mut launcher = bed.launcher();
        async move { reason(create(&mut launcher, &format!("q-{number}")).await) }
    });
    assert_eq!(futures::future::join_all(calls).await, ["unavailable"; 10]);
    assert_eq!(reason(crate::bed::claim(&mut bed.launcher(), &run_id, "a").await), "unavailable");

    sqlx::raw_sql("DROP TRIGGER full").execute(&mut raw).await.expect("no trap");
    let claimed = crate::bed::claim(&mut bed.launcher(), &run_id, "a").await.expect("claimed");
    assert_eq!(claimed.lease.expect("a lease").epoch, 2, "the failed claim has not raised the epoch");
    assert!(create(&mut bed.launcher(), "q-1").await.expect("created").created);
    assert_eq!(bed.assert_intact().await, 5);
}

#[tokio::test]
async fn a_damaged_run_fails_alone() {
    let mut bed = Bed::start().await;
    let damaged = prepared(&bed, "q").await;
    // What a broker works on it has in memory, so the damage is done to one that is not there.
    bed.stop_broker().await;
    let mut raw = bed.raw().await;
    let damage = sqlx::query("UPDATE runs SET record = '{' WHERE run_id = $1").bind(&damaged);
    damage.execute(&mut raw).await.expect("damaged");
    drop(raw);
    bed.start_broker().await;
    assert_eq!(reason(send(&mut bed.runner(), &damaged, 1, &[(1, crate::bed::RUNNING)]).await), "internal");
    queued(&bed, "another").await;
}

#[tokio::test]
async fn a_reader_with_an_old_snapshot_stops_no_writer() {
    use sqlx::Connection as _;
    let bed = Bed::start().await;
    queued(&bed, "q").await;
    let mut raw = bed.raw().await;
    let mut old = raw.begin().await.expect("a snapshot");
    let count = "SELECT COUNT(*) FROM events";
    let before: i64 = sqlx::query_scalar(count).fetch_one(&mut *old).await.expect("counted");
    for number in 0..20 {
        soon(queued(&bed, &format!("q-{number}"))).await;
    }
    let after: i64 = sqlx::query_scalar(count).fetch_one(&mut *old).await.expect("counted");
    assert_eq!((before, after), (1, 1));
    assert_eq!(bed.assert_intact().await, 21);
}

#[tokio::test]
async fn the_write_ahead_log_is_emptied_once_old_readers_are_gone() {
    use sqlx::Connection as _;
    const MIB: u64 = 1024 * 1024;
    let bed = Bed::start().await;
    let log = bed.root.ledger().with_extension("db-wal");
    let length = || std::fs::metadata(&log).map_or(0, |log| log.len());
    let big = |number: u64| pb::CreateRunRequest {
        request_id: format!("q-{number}"),
        spec: crate::bed::spec(&"x".repeat(MIB as usize)),
    };
    queued(&bed, "q").await;

    let mut raw = bed.raw().await;
    let mut old = raw.begin().await.expect("a snapshot");
    let _count: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM events").fetch_one(&mut *old).await.expect("counted");
    let mut number = 0;
    while length() <= 66 * MIB {
        bed.launcher().create_run(big(number)).await.expect("an old reader stops no writer");
        number += 1;
    }
    old.rollback().await.expect("the reader is gone");

    let emptied = async {
        while length() > 8 * MIB {
            queued(&bed, &format!("after-{number}")).await;
            number += 1;
        }
    };
    soon(emptied).await;
    bed.assert_intact().await;
}
