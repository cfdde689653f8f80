//! A cut removes whole runs and leaves everything else as it was.

use mosaic_data_root::Service;
use mosaic_proto::broker::v1 as pb;

use super::{keep, prune_session, verdict};
use crate::bed::{Bed, create, cut, get, over, prepared, prune, queued, reason, soak, soon};
use crate::killing::start_process;

async fn would_cut(bed: &Bed) -> pb::CutLedgerResponse {
    let request = pb::CutLedgerRequest { dry_run: true };
    bed.retention(None).cut_ledger(request).await.expect("answered").into_inner()
}

/// Ids and sequences of all runs, newest first, two at a time.
async fn list(bed: &Bed) -> Vec<(String, i64)> {
    let (mut runs, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = pb::ListRunsRequest { page_size: 2, page_token, states: vec![], ..Default::default() };
        let page = bed.operator().list_runs(request).await.expect("listed").into_inner();
        runs.extend(page.runs.into_iter().map(|run| (run.run_id, run.last_sequence)));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return runs;
        }
    }
}

#[tokio::test]
async fn a_ledger_in_which_nothing_may_be_cut_is_left_as_it_is() {
    let bed = Bed::start().await;
    let nothing = pb::CutLedgerResponse { checkpoint: None, events: 0, runs: 0 };
    assert_eq!(cut(&bed).await.expect("empty"), nothing);
    let run_id = over(&bed, "q").await;
    prune(&bed, &run_id, pb::RunPart::Output).await.expect("removed");
    prune_session(&bed, "talk").await.expect("removed");
    assert_eq!(would_cut(&bed).await, nothing);
    assert_eq!(cut(&bed).await.expect("nothing to do"), nothing);
    assert_eq!(bed.assert_intact().await, 5);
}

#[tokio::test]
async fn runs_that_are_removed_go_with_their_events_and_all_others_stay_whole() {
    let mut bed = Bed::start().await;
    let lives = prepared(&bed, "lives").await;
    let gone = over(&bed, "gone").await;
    let stays = over(&bed, "stays").await;
    keep(&bed, &stays, true).await.expect("kept");
    prune_session(&bed, "talk").await.expect("removed");
    prune(&bed, &gone, pb::RunPart::Record).await.expect("removed");
    queued(&bed, "later").await;
    let before = [get(&bed, &lives).await, get(&bed, &stays).await];

    let dry = would_cut(&bed).await;
    assert_eq!((dry.checkpoint.clone(), dry.events, dry.runs), (None, 5, 1), "four of the run, and the session");
    assert_eq!(bed.assert_intact().await, 13);
    let done = cut(&bed).await.expect("cut");
    assert_eq!((done.events, done.runs), (dry.events, dry.runs));
    let checkpoint = done.checkpoint.expect("a checkpoint");
    assert_eq!((checkpoint.sequence, checkpoint.hash.len(), checkpoint.public_key.len()), (12, 32, 32));

    bed.restart().await;
    let proven = verdict(&bed).await;
    assert_eq!((proven.faults, proven.events, proven.runs), (vec![], 13 - 5 + 1, 3));
    assert_eq!(proven.checkpoint, Some(checkpoint.clone()));
    assert_eq!([get(&bed, &lives).await, get(&bed, &stays).await], before);
    let request = pb::GetRunRequest { run_id: gone.clone() };
    assert_eq!(reason(bed.operator().get_run(request).await), "not-found");
    assert_eq!(reason(prune(&bed, &gone, pb::RunPart::Record).await), "not-found");

    let again = cut(&bed).await.expect("nothing to do");
    assert_eq!((again.checkpoint, again.events, again.runs), (Some(checkpoint), 0, 0));
}

#[tokio::test]
async fn the_request_of_a_run_that_was_cut_makes_a_new_one() {
    let bed = Bed::start().await;
    let gone = over(&bed, "q").await;
    prune(&bed, &gone, pb::RunPart::Record).await.expect("removed");
    assert!(!create(&mut bed.launcher(), "q").await.expect("known until it is cut").created);
    cut(&bed).await.expect("cut");
    let new = create(&mut bed.launcher(), "q").await.expect("created");
    assert!(new.created && new.run.expect("a run").run_id != gone);
    bed.assert_intact().await;
}

#[tokio::test]
async fn a_ledger_is_cut_again_and_again() {
    let bed = Bed::start().await;
    let stays = over(&bed, "stays").await;
    let mut earlier = Vec::new();
    for round in 0..5 {
        for number in 0..3 {
            earlier.push(over(&bed, &format!("q-{round}-{number}")).await);
        }
        // Not in the order in which they were made.
        for _ in 0..2 {
            let run_id = earlier.remove(earlier.len() / 2);
            prune(&bed, &run_id, pb::RunPart::Record).await.expect("removed");
        }
        assert_eq!(cut(&bed).await.expect("cut").runs, 2);
        bed.assert_intact().await;
    }
    for run_id in &earlier {
        prune(&bed, run_id, pb::RunPart::Record).await.expect("removed");
    }
    assert_eq!(cut(&bed).await.expect("cut").runs, 5);
    let proven = verdict(&bed).await;
    assert_eq!((proven.faults, proven.events, proven.runs), (vec![], 4, 1), "one run of three events, one checkpoint");
    assert_eq!(get(&bed, &stays).await.last_sequence, 3);
}

#[tokio::test]
async fn a_list_that_is_under_way_goes_on_over_a_cut() {
    let bed = Bed::start().await;
    let mut runs = Vec::new();
    for number in 0..6 {
        runs.insert(0, over(&bed, &format!("q-{number}")).await);
    }
    let request = pb::ListRunsRequest { page_size: 2, page_token: String::new(), states: vec![], ..Default::default() };
    let first = bed.operator().list_runs(request).await.expect("listed").into_inner();
    for run_id in [&runs[1], &runs[3]] {
        prune(&bed, run_id, pb::RunPart::Record).await.expect("removed");
    }
    cut(&bed).await.expect("cut");
    let request =
        pb::ListRunsRequest { page_size: 10, page_token: first.next_page_token, states: vec![], ..Default::default() };
    let rest = bed.operator().list_runs(request).await.expect("listed").into_inner().runs;
    assert_eq!(rest.iter().map(|run| &run.run_id).collect::<Vec<_>>(), [&runs[2], &runs[4], &runs[5]]);
}

#[tokio::test]
async fn the_space_of_what_was_cut_returns() {
    let bed = Bed::start().await;
    let size = || std::fs::metadata(bed.root.ledger()).expect("there").len();
    let mut launcher = bed.launcher();
    let mut runs = Vec::new();
    for number in 0..64 {
        let request_id = format!("q-{number}");
        let spec = crate::bed::spec(&"x".repeat(128 * 1024));
        let run = launcher.create_run(pb::CreateRunRequest { request_id, spec }).await.expect("created");
        runs.push(run.into_inner().run.expect("a run").run_id);
    }
    for run_id in &runs {
        launcher.cancel_run(pb::CancelRunRequest { run_id: run_id.clone() }).await.expect("cancelled");
        prune(&bed, run_id, pb::RunPart::Record).await.expect("removed");
    }
    sqlx::query("PRAGMA wal_checkpoint(FULL)").execute(&mut bed.raw().await).await.expect("a checkpoint");
    assert!(size() > 8 << 20, "{}", size());
    cut(&bed).await.expect("cut");
    assert!(size() < 1 << 20, "{}", size());
    bed.assert_intact().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_killed_while_it_cuts_has_cut_all_or_nothing() {
    let mut bed = Bed::idle();
    let wal = bed.root.ledger().with_extension("db-wal");
    let size = || std::fs::metadata(&wal).map_or(0, |log| log.len());
    for round in 0..u64::from(soak(40)) {
        let mut child = start_process(&bed).await;
        let kept = over(&bed, &format!("kept-{round}")).await;
        let gone = futures::future::join_all((0..64).map(|number| {
            let bed = &bed;
            async move {
                let run_id = over(bed, &format!("gone-{round}-{number}")).await;
                prune(bed, &run_id, pb::RunPart::Record).await.expect("removed");
                run_id
            }
        }));
        let gone = soon(gone).await;
        let mut retention = bed.retention(Some(Service::Launcher));
        let cutting = tokio::spawn(async move { retention.cut_ledger(pb::CutLedgerRequest { dry_run: false }).await });
        // The log grows while the cut is written: killed after more of it in each round, at the latest when it is done.
        let enough = size() + round * 4096;
        while size() < enough && !cutting.is_finished() {
            tokio::task::yield_now().await;
        }
        child.start_kill().expect("killed");
        soon(child.wait()).await.expect("reaped");
        let answered = soon(cutting).await.expect("no panic");

        bed.start_broker().await;
        let left: Vec<String> = list(&bed).await.into_iter().map(|(run_id, _)| run_id).collect();
        let of_these = gone.iter().filter(|run_id| left.contains(run_id)).count();
        assert!(of_these == 0 || of_these == gone.len(), "round {round}: {of_these} of {} are left", gone.len());
        assert!(answered.is_err() || of_these == 0, "round {round}: an acknowledged cut is on disk");
        assert!(left.contains(&kept));
        bed.assert_intact().await;
        cut(&bed).await.expect("finished by the next one");
        assert_eq!(list(&bed).await.len() as u64, round + 1);
        bed.assert_intact().await;
        bed.stop_broker().await;
    }
}
