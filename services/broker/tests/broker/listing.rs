use mosaic_proto::broker::v1 as pb;
use pb::run::State;

use crate::bed::{Bed, claim, queued, reason};

async fn page(bed: &Bed, size: i32, token: &str, states: &[State]) -> pb::ListRunsResponse {
    let states = states.iter().map(|&state| state.into()).collect();
    let request = pb::ListRunsRequest { page_size: size, page_token: token.to_owned(), states, ..Default::default() };
    bed.operator().list_runs(request).await.expect("listed").into_inner()
}

fn ids(page: &pb::ListRunsResponse) -> Vec<String> {
    page.runs.iter().map(|run| run.run_id.clone()).collect()
}

#[tokio::test]
async fn runs_are_listed_newest_first_and_pages_are_stable_while_runs_are_added() {
    let bed = Bed::start().await;
    let mut expected = Vec::new();
    for number in 0..5 {
        expected.insert(0, queued(&bed, &format!("q-{number}")).await);
    }
    let first = page(&bed, 2, "", &[]).await;
    queued(&bed, "q-later").await;
    let second = page(&bed, 2, &first.next_page_token, &[]).await;
    let third = page(&bed, 2, &second.next_page_token, &[]).await;
    assert_eq!([ids(&first), ids(&second), ids(&third)].concat(), expected);
    assert_eq!(third.next_page_token, "");
    assert!(first.runs.iter().all(|run| run.record.is_empty() && run.spec.is_empty()));
}

#[tokio::test]
async fn a_filter_shows_only_its_states_and_its_pages_go_on_under_it() {
    let bed = Bed::start().await;
    let mut launcher = bed.launcher();
    let mut all = Vec::new();
    for number in 0..6 {
        all.insert(0, queued(&bed, &format!("q-{number}")).await);
    }
    for run_id in [&all[1], &all[4]] {
        launcher.cancel_run(pb::CancelRunRequest { run_id: run_id.clone() }).await.expect("cancelled");
    }
    claim(&mut launcher, &all[2], "a").await.expect("claimed");
    launcher.prepare_run(pb::PrepareRunRequest { run_id: all[2].clone(), epoch: 1 }).await.expect("prepared");

    assert_eq!(ids(&page(&bed, 0, "", &[State::Cancelled]).await), [all[1].clone(), all[4].clone()]);
    let both = [State::Preparing, State::Cancelled];
    let first = page(&bed, 2, "", &both).await;
    assert_eq!(ids(&first), [all[1].clone(), all[2].clone()]);
    assert_eq!(ids(&page(&bed, 2, &first.next_page_token, &both).await), [all[4].clone()]);
    assert_eq!(ids(&page(&bed, 0, "", &[State::Running]).await), Vec::<String>::new());

    let other_query =
        pb::ListRunsRequest { page_size: 2, page_token: first.next_page_token, states: vec![], ..Default::default() };
    assert_eq!(reason(bed.operator().list_runs(other_query).await), "invalid-request");
    let unknown =
        pb::ListRunsRequest { page_size: 0, page_token: String::new(), states: vec![42], ..Default::default() };
    assert_eq!(reason(bed.operator().list_runs(unknown).await), "invalid-request");
}
