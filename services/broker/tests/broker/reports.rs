use mosaic_proto::broker::v1 as pb;
use mosaic_rpc::RpcError;

use crate::bed::{Bed, ENDED, RUNNING, TURN_DONE, claim, get, prepared, reason, send};

#[tokio::test]
async fn a_report_that_was_taken_is_acknowledged_again_without_effect_also_after_a_restart() {
    let mut bed = Bed::start().await;
    let run_id = prepared(&bed, "q").await;
    let first = send(&mut bed.runner(), &run_id, 1, &[(1, RUNNING)]).await.expect("taken");
    let again = send(&mut bed.runner(), &run_id, 1, &[(1, RUNNING)]).await.expect("acknowledged");
    assert_eq!(first, again);
    bed.restart().await;
    let later = send(&mut bed.runner(), &run_id, 1, &[(1, RUNNING), (2, TURN_DONE)]).await.expect("taken");
    assert_eq!(later.accepted, 2);
    assert_eq!(bed.assert_intact().await, 5);
}

#[tokio::test]
async fn a_gap_is_refused_whole_and_says_what_was_accepted() {
    let bed = Bed::start().await;
    let mut runner = bed.runner();
    let run_id = prepared(&bed, "q").await;
    send(&mut runner, &run_id, 1, &[(1, RUNNING)]).await.expect("taken");
    for gapped in [&[(3, TURN_DONE)][..], &[(2, TURN_DONE), (4, ENDED)], &[(2, TURN_DONE), (2, ENDED)], &[(0, RUNNING)]]
    {
        let refused = RpcError::from_status(&send(&mut runner, &run_id, 1, gapped).await.expect_err("refused"));
        assert_eq!(refused.reason.as_str(), "invalid-request");
    }
    let gap = RpcError::from_status(&send(&mut runner, &run_id, 1, &[(3, TURN_DONE)]).await.expect_err("refused"));
    assert_eq!(gap.metadata.get("accepted").map(String::as_str), Some("1"));
    assert_eq!(bed.assert_intact().await, 4);
}

#[tokio::test]
async fn reports_under_another_epoch_are_stale_and_go_out_under_the_new_one() {
    let bed = Bed::start().await;
    let mut runner = bed.runner();
    let run_id = prepared(&bed, "q").await;
    send(&mut runner, &run_id, 1, &[(1, RUNNING)]).await.expect("taken");
    claim(&mut bed.launcher(), &run_id, "a").await.expect("claimed again");
    assert_eq!(reason(send(&mut runner, &run_id, 1, &[(2, ENDED)]).await), "stale-lease");
    assert_eq!(reason(send(&mut runner, &run_id, 3, &[(2, ENDED)]).await), "stale-lease");
    let taken = send(&mut runner, &run_id, 2, &[(2, ENDED)]).await.expect("the epoch in force");
    assert_eq!(taken.run.expect("a run").state(), pb::run::State::Succeeded);
}

#[tokio::test]
async fn what_is_no_report_is_refused() {
    let bed = Bed::start().await;
    let mut runner = bed.runner();
    let run_id = prepared(&bed, "q").await;
    for payload in ["", "{}", r#"{"kind":"run.nonsense"}"#, r#"{"kind":"run.cancelled"}"#, r#"{"kind":"run.lost"}"#] {
        assert_eq!(reason(send(&mut runner, &run_id, 1, &[(1, payload)]).await), "invalid-request", "{payload}");
    }
    assert_eq!(reason(send(&mut runner, &run_id, 1, &[]).await), "invalid-request");
    let many: Vec<_> = (1..=257).map(|number| (number, TURN_DONE)).collect();
    assert_eq!(reason(send(&mut runner, &run_id, 1, &many).await), "invalid-request");
    assert_eq!(get(&bed, &run_id).await.state(), pb::run::State::Preparing);
}

#[tokio::test]
async fn reports_from_two_connections_at_once_are_each_taken_once() {
    let bed = Bed::start().await;
    let run_id = prepared(&bed, "q").await;
    send(&mut bed.runner(), &run_id, 1, &[(1, RUNNING)]).await.expect("taken");
    let reports: Vec<_> = (2..=200).map(|number| (number, TURN_DONE)).collect();
    let senders = (0..4).map(|_| {
        let (mut runner, run_id, reports) = (bed.runner(), run_id.clone(), reports.clone());
        async move {
            for report in reports {
                send(&mut runner, &run_id, 1, &[report]).await.expect("taken or known");
            }
        }
    });
    futures::future::join_all(senders).await;
    assert_eq!(bed.assert_intact().await, 3 + 200);
}
