use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mosaic_proto::runner::v1::execution::State;
use mosaic_record::{Backend, EndReason, Refusal, RunStatus};

use crate::harness::{PATIENCE, Run, World, backends, runner_executable, wait_for};

/// A runner in a process of its own, killed with the value.
struct Process(Child);

impl Process {
    fn start(world: &World) -> Self {
        let config = world.scratch().join("config.json");
        let text = serde_json::json!({
            "configVersion": 1,
            "environment": "development",
            "dataRoot": world.root.path(),
            "execution": {"backend": "host", "provider": "none", "model": "none"},
        });
        std::fs::write(&config, text.to_string()).expect("written");
        let mut command = Command::new(runner_executable());
        command.arg("--config").arg(config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("started"))
    }

    fn kill(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("reaped");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _gone_already = self.0.kill();
        let _reaped = self.0.wait();
    }
}

async fn start_when_served(world: &World, run: &Run) {
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = world.start(run, 1).await {
        assert!(Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_runner_leaves_nothing_running_and_the_next_one_reports_the_loss_once() {
    for backend in backends() {
        let world = World::without_runner().await;
        let mut runner = Process::start(&world);
        let script = "echo up; for i in 1 2 3 4 5; do (setsid sleep 600 &) ; done; sleep 601";
        let run = world.scripted(script, backend, |_| {});
        start_when_served(&world, &run).await;
        let out = world.root.run_stdout(&run.id);
        wait_for("output", || std::fs::read(&out).ok().filter(|bytes| !bytes.is_empty())).await;
        runner.kill();

        let mut next = Process::start(&world);
        let finished = world.reported(&run).await;
        assert_eq!(finished.outcome.status, RunStatus::Lost, "{backend} {finished:?}");
        assert_eq!(finished.outcome.reason, Some(EndReason::RunnerLost));
        assert_eq!((finished.outcome.output.stdout_bytes, finished.stdout), (3, b"up\n".to_vec()));
        let directory = world.root.execution(&run.id);
        wait_for("the spool's removal", || (!directory.exists()).then_some(())).await;

        let after = world.scripted("echo next", backend, |_| {});
        start_when_served(&world, &after).await;
        assert_eq!(world.finished(&after).await.outcome.status, RunStatus::Succeeded);
        next.kill();
    }
}

/// What a runner leaves that is killed while a run goes on; its sandbox is held by what lies in `group`.
fn left_behind(world: &World, run: &Run, group: &Path) {
    let directory = world.root.execution(&run.id);
    std::fs::create_dir_all(&directory).expect("made");
    let record = serde_json::json!({
        "runId": run.id, "epoch": 1, "sandbox": format!("{}-abc", run.id), "backend": "host",
        "bundleDigest": run.digest, "shimDigest": run.digest, "groups": [group], "anchor": null,
    });
    std::fs::write(directory.join("execution.json"), record.to_string()).expect("written");
    std::fs::write(world.root.run_stdout(&run.id), "up\n").expect("written");
    std::fs::write(world.root.run_stderr(&run.id), "").expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_whose_sandbox_is_not_proven_gone_is_ending_until_it_is() {
    let mut world = World::without_runner().await;
    let run = world.scripted("echo again", Backend::Host, |_| {});
    // A directory that can't be removed stands for a control group that is not empty.
    let group = world.scratch().join("group");
    std::fs::create_dir_all(group.join("busy")).expect("made");
    left_behind(&world, &run, &group);
    for epoch in [1, 2] {
        world.runner = Some(mosaic_runner::start(world.options()).await.expect("started"));
        let execution = world.execution(&run, Duration::ZERO).await;
        assert_eq!((execution.state(), execution.epoch), (State::Ending, epoch), "the adoption is remembered");
        let adopted = world.start(&run, 2).await.expect("adopted, and not started again");
        assert_eq!((adopted.state(), adopted.epoch, adopted.sandbox), (State::Ending, 2, format!("{}-abc", run.id)));
        assert_eq!(world.start(&run, 1).await.expect_err("stale").refusal(), Some(Refusal::StaleLease));
        if epoch == 1 {
            assert!(
                world.runner.take().expect("a runner").drain(PATIENCE).await,
                "nothing ran, and nothing is waited for"
            );
        }
    }
    assert!(world.taken(&run).is_empty(), "nothing is said of a sandbox that may be there");
    wait_for("the group's removal", || std::fs::remove_dir_all(&group).ok()).await;
    let finished = world.finished(&run).await;
    assert_eq!((finished.outcome.status, finished.stdout), (RunStatus::Lost, b"up\n".to_vec()));
    assert!(world.taken(&run).iter().all(|taken| taken.epoch == 2));
    let directory = world.root.execution(&run.id);
    wait_for("the record's removal", || (!directory.exists()).then_some(())).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_cannot_be_read_keeps_its_run_ending() {
    let mut world = World::without_runner().await;
    let run = world.scripted("echo again", Backend::Host, |_| {});
    let group = world.scratch().join("group");
    left_behind(&world, &run, &group);
    let path = world.root.execution(&run.id).join("execution.json");
    let record = std::fs::read(&path).expect("there");
    std::fs::write(&path, "{").expect("written");
    world.runner = Some(mosaic_runner::start(world.options()).await.expect("started"));
    assert_eq!(world.start(&run, 1).await.expect("adopted").state(), State::Ending);
    assert_eq!(std::fs::read(&path).expect("there"), b"{");
    std::fs::write(&path, record).expect("written");
    assert_eq!(world.finished(&run).await.outcome.status, RunStatus::Lost);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_writes_nothing_over_what_is_recorded_of_an_execution() {
    let world = World::new().await;
    let run = world.scripted("echo again", Backend::Host, |_| {});
    left_behind(&world, &run, &world.scratch().join("group"));
    for output in [world.root.run_stdout(&run.id), world.root.run_stderr(&run.id)] {
        std::fs::remove_file(output).expect("removed");
    }
    let path = world.root.execution(&run.id).join("execution.json");
    let record = std::fs::read(&path).expect("there");
    std::fs::create_dir(world.root.run_state(&run.id)).expect("made");
    let error = world.start(&run, 2).await.expect_err("refused");
    assert_eq!(error.refusal(), Some(Refusal::StaleLease), "{error}");
    assert_eq!(std::fs::read(&path).expect("there"), record);
    assert!(world.root.run_state(&run.id).exists() && !world.root.run_stdout(&run.id).exists());

    // Private state alone is not this start's either; what the start made itself goes.
    std::fs::remove_dir_all(world.root.execution(&run.id)).expect("removed");
    let error = world.start(&run, 2).await.expect_err("refused");
    assert!(error.message.contains("private state"), "{error}");
    assert!(world.root.run_state(&run.id).exists() && !world.root.execution(&run.id).exists());
    assert!(!world.root.run_stdout(&run.id).exists());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_that_is_killed_takes_its_run_with_it() {
    let world = World::new().await;
    let script = "echo up; (setsid sleep 600 &); kill -9 $PPID; sleep 601";
    let run = world.scripted(script, Backend::Host, |_| {});
    let finished = world.run(&run).await;
    assert_eq!(finished.outcome.status, RunStatus::Failed);
    assert_eq!(finished.outcome.reason, Some(EndReason::AdapterFailed), "{finished:?}");
    world.end().await;
}
