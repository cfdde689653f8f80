use std::process::{Child, Command, Stdio};
use std::time::Instant;

use mosaic_record::{Backend, EndReason, RunStatus};

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
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
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
