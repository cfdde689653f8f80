use std::time::{Duration, Instant};

use mosaic_proto::runner::v1::execution::State;
use mosaic_record::{EndReason, RunEvent, RunStatus};

use crate::harness::{Run, World, backends, wait_for};

/// Waits until the adapter has written to standard output.
async fn wait_for_output(world: &World, run: &Run) {
    let file = world.root.run_stdout(&run.id);
    wait_for("output", || std::fs::metadata(&file).is_ok_and(|metadata| metadata.len() > 0).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_ends_everything_below_the_shell_and_keeps_the_output() {
    let world = World::new().await;
    for backend in backends() {
        let script = "mkfifo p; (while :; do echo x; sleep 0.2; done) >p & cat p";
        let run = world.scripted(script, backend, |launch| {
            launch.limits.timeout_seconds = 1;
            launch.limits.stop_grace_seconds = 1;
        });
        let begun = Instant::now();
        let finished = world.run(&run).await;
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert_eq!(finished.outcome.status, RunStatus::Failed);
        assert_eq!(finished.outcome.reason, Some(EndReason::TimedOut));
        assert!(finished.stdout.starts_with(b"x\nx\n"), "{finished:?}");
        assert!(finished.events.contains(&RunEvent::Ending { reason: EndReason::TimedOut }));
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_does_not_outlive_a_run_that_is_done() {
    let world = World::new().await;
    for backend in backends() {
        let script = "setsid nohup sleep 600 </dev/null >/dev/null 2>&1 & (setsid sleep 601 &) ; exit 0";
        let begun = Instant::now();
        let finished = world.run(&world.scripted(script, backend, |_| {})).await;
        assert_eq!(finished.outcome.status, RunStatus::Succeeded, "{finished:?}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_acknowledged_at_once_and_kills_what_ignores_it() {
    let world = World::new().await;
    for backend in backends() {
        let script = "trap '' TERM; echo up; while :; do sleep 0.1; done";
        let run = world.scripted(script, backend, |launch| launch.limits.stop_grace_seconds = 2);
        world.start(&run, 1).await.expect("started");
        wait_for_output(&world, &run).await;
        let asked = Instant::now();
        world.stop(&run).await;
        assert!(asked.elapsed() < Duration::from_millis(500), "acknowledged after {:?}", asked.elapsed());
        world.stop(&run).await;
        let finished = world.finished(&run).await;
        let took = asked.elapsed();
        assert!((Duration::from_secs(2)..Duration::from_secs(4)).contains(&took), "{took:?}");
        assert_eq!(finished.outcome.status, RunStatus::Cancelled);
        assert_eq!(finished.outcome.reason, Some(EndReason::Cancelled));
        let endings = finished.events.iter().filter(|event| matches!(event, RunEvent::Ending { .. })).count();
        assert_eq!(endings, 1, "{finished:?}");
        assert_eq!(world.stop(&run).await.state(), State::Ended, "a stop of what has ended changes nothing");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cleans_up_within_the_grace_is_left_the_time_for_it() {
    let world = World::new().await;
    for backend in backends() {
        let script = "trap 'sleep 1; echo cleaned >cleaned; exit 0' TERM; echo up; while :; do sleep 0.1; done";
        let run = world.scripted(script, backend, |launch| launch.limits.stop_grace_seconds = 10);
        world.start(&run, 1).await.expect("started");
        wait_for_output(&world, &run).await;
        let asked = Instant::now();
        world.stop(&run).await;
        let finished = world.finished(&run).await;
        assert!(asked.elapsed() < Duration::from_secs(6), "{:?}", asked.elapsed());
        assert_eq!(finished.outcome.status, RunStatus::Cancelled);
        let cleaned = world.root.run_workspace(&run.id).join("cleaned");
        assert_eq!(std::fs::read_to_string(cleaned).expect("there"), "cleaned\n");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_lets_runs_finish_and_stops_those_that_do_not() {
    let mut world = World::new().await;
    let short = world.scripted("sleep 0.3; echo done", mosaic_record::Backend::Host, |_| {});
    let long = world.scripted("echo up; sleep 600", mosaic_record::Backend::Host, |_| {});
    for run in [&short, &long] {
        world.start(run, 1).await.expect("started");
    }
    wait_for_output(&world, &long).await;
    let runner = world.runner.take().expect("a runner");
    assert!(!runner.drain(Duration::from_secs(2)).await, "one had to be stopped");
    assert_eq!(world.reported(&short).await.outcome.status, RunStatus::Succeeded);
    assert_eq!(world.reported(&long).await.outcome.status, RunStatus::Cancelled);
}
