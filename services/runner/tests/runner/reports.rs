use std::time::{Duration, Instant};

use mosaic_data_root::Service;
use mosaic_proto::runner::v1::GetExecutionRequest;
use mosaic_proto::runner::v1::execution::State;
use mosaic_record::{Backend, RunEvent, RunStatus};

use crate::broker::Mood;
use crate::harness::{PATIENCE, Run, World, wait_for};

const WAITS: &str = "echo up; while [ ! -e go ]; do sleep 0.02; done; echo done";

#[tokio::test(flavor = "multi_thread")]
async fn the_end_arrives_once_after_an_outage_of_the_broker() {
    let world = World::new().await;
    world.broker.be(Mood::IsAway);
    let run = world.scripted("echo hi", Backend::Host, |_| {});
    world.start(&run, 1).await.expect("started without the broker");
    let execution = world.execution(&run, PATIENCE).await;
    assert_eq!((execution.state(), execution.reported), (State::Ended, false));
    assert!(world.root.execution(&run.id).exists(), "the spool waits on disk");
    world.broker.be(Mood::Takes);
    let finished = world.reported(&run).await;
    assert_eq!(finished.outcome.status, RunStatus::Succeeded);
    let spool = world.root.execution(&run.id);
    wait_for("the spool's removal", || (!spool.exists()).then_some(())).await;
    assert!(world.execution(&run, PATIENCE).await.reported);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_that_a_runner_could_not_deliver_go_out_with_the_next_one() {
    let mut world = World::new().await;
    world.broker.be(Mood::IsAway);
    let run = world.scripted("echo hi", Backend::Host, |_| {});
    world.start(&run, 1).await.expect("started");
    world.execution(&run, PATIENCE).await;
    world.runner.take().expect("a runner").drain(Duration::from_secs(1)).await;
    world.broker.be(Mood::Takes);
    world.runner = Some(mosaic_runner::start(world.options()).await.expect("started again"));
    let finished = world.reported(&run).await;
    assert_eq!(finished.outcome.status, RunStatus::Succeeded, "what was spooled, not `lost`");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_over_ends_the_sandbox_and_writes_nothing() {
    let world = World::new().await;
    world.broker.be(Mood::Wants(2));
    let run = world.scripted(WAITS, Backend::Host, |_| {});
    world.start(&run, 1).await.expect("started");
    let execution = world.execution(&run, PATIENCE).await;
    assert_eq!((execution.state(), execution.reported), (State::Ended, false));
    assert!(world.taken(&run).is_empty());
    world.assert_clean(&run);
    let spool = world.root.execution(&run.id);
    wait_for("the spool's removal", || (!spool.exists()).then_some(())).await;
    wait_for_unknown(&world, &run).await;
    world.end().await;
}

/// Waits until the runner does not know the run any more: whoever has its lease now is to learn that it is lost.
async fn wait_for_unknown(world: &World, run: &Run) {
    let deadline = Instant::now() + PATIENCE;
    let request = GetExecutionRequest { run_id: run.id.to_string(), wait: None };
    while let Ok(answer) = world.client(Service::Launcher).get_execution(request.clone()).await {
        assert!(Instant::now() < deadline, "still known: {answer:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launcher_that_takes_over_has_the_run_go_on_under_its_epoch() {
    let world = World::new().await;
    let run = world.scripted(WAITS, Backend::Host, |_| {});
    world.start(&run, 1).await.expect("started");
    wait_for("the first report", || world.taken(&run).first().cloned()).await;
    assert_eq!(world.start(&run, 5).await.expect("adopted").epoch, 5);
    world.broker.be(Mood::Wants(5));
    std::fs::write(world.root.run_workspace(&run.id).join("go"), "").expect("written");
    let finished = world.finished(&run).await;
    assert_eq!(finished.outcome.response.as_deref(), Some("up\ndone"));
    let taken = world.taken(&run);
    assert_eq!((taken[0].epoch, taken[taken.len() - 1].epoch), (1, 5));
    world.end().await;
}

/// Adopts a run once its reports were found stale, and checks that everything arrives under the new epoch, each once.
async fn adopted_when_stale(world: &World, run: &Run) {
    wait_for("a stale answer", || world.broker.found_stale(run.id.as_str()).then_some(())).await;
    assert_eq!(world.start(run, 2).await.expect("adopted").epoch, 2);
    std::fs::write(world.root.run_workspace(&run.id).join("go"), "").expect("written");
    let finished = world.finished(run).await;
    assert_eq!(finished.outcome.status, RunStatus::Succeeded, "{finished:?}");
    assert_eq!(finished.outcome.response.as_deref(), Some("up\ndone"));
    let taken = world.taken(run);
    assert!(taken.iter().all(|taken| taken.epoch == 2), "{taken:?}");
    let numbers: Vec<i64> = taken.iter().map(|taken| taken.number).collect();
    assert_eq!(numbers, (1..=i64::try_from(taken.len()).expect("few")).collect::<Vec<_>>());
    assert!(matches!(taken[0].event, RunEvent::Running { .. }), "{taken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_found_stale_before_its_adoption_goes_on_and_delivers_everything() {
    let world = World::new().await;
    world.broker.be(Mood::Wants(2));
    let run = world.scripted(WAITS, Backend::Host, |_| {});
    world.start(&run, 1).await.expect("started");
    adopted_when_stale(&world, &run).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_run_that_is_found_stale_before_its_adoption_is_delivered() {
    let world = World::new().await;
    world.broker.be(Mood::IsAway);
    let run = world.scripted("echo up; echo done", Backend::Host, |_| {});
    world.start(&run, 1).await.expect("started");
    let execution = world.execution(&run, PATIENCE).await;
    assert_eq!((execution.state(), execution.reported), (State::Ended, false));
    world.broker.be(Mood::Wants(2));
    adopted_when_stale(&world, &run).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn how_much_was_written_is_reported_less_and_less_often() {
    let world = World::new().await;
    let run = world.scripted("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.25; done", Backend::Host, |_| {});
    let finished = world.run(&run).await;
    let reports = finished.events.iter().filter(|event| matches!(event, RunEvent::Output(_))).count();
    assert!((1..=2).contains(&reports), "{finished:?}");
    world.end().await;
}
