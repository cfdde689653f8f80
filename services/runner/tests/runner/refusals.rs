use mosaic_proto::runner::v1::execution::State;
use mosaic_record::{Backend, Environment, Refusal};
use mosaic_rpc::Reason;

use crate::harness::{World, backends};

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_was_changed_does_not_run() {
    let world = World::new().await;
    let run = world.scripted("echo hi", Backend::Host, |_| {});
    let script = world.root.bundle(&run.id).join("adapter/adapter.sh");
    std::fs::remove_file(&script).expect("removed");
    std::fs::write(&script, "echo evil").expect("written");
    let error = world.start(&run, 1).await.expect_err("refused");
    assert_eq!(error.refusal(), Some(Refusal::BundleChanged), "{error}");
    assert!(!world.root.run_stdout(&run.id).exists() && !world.root.execution(&run.id).exists());

    let moved = world.scripted("echo hi", Backend::Host, |launch| launch.run_id = "r-other".parse().expect("run id"));
    let moved_to = world.scripted("echo ho", Backend::Host, |_| {});
    std::fs::remove_dir_all(world.root.bundle(&moved_to.id)).expect("removed");
    std::fs::rename(world.root.bundle(&moved.id), world.root.bundle(&moved_to.id)).expect("moved");
    let stolen = crate::harness::Run { id: moved_to.id, digest: moved.digest };
    let error = world.start(&stolen, 1).await.expect_err("refused");
    assert_eq!(error.refusal(), Some(Refusal::BundleChanged), "{error}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn production_refuses_the_host_and_the_adapters_for_tests() {
    let world = World::with(|options| options.environment = Environment::Production).await;
    for backend in [Backend::Host, Backend::Bubblewrap] {
        let error = world.start(&world.scripted("echo hi", backend, |_| {}), 1).await.expect_err("refused");
        assert_eq!(error.refusal(), Some(Refusal::BackendNotAllowed), "{error}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_bubblewrap_nothing_runs_and_the_refusal_says_what_is_missing() {
    let world = World::with(|options| options.bubblewrap = "/nonexistent/bwrap".into()).await;
    let run = world.scripted("echo hi", Backend::Bubblewrap, |_| {});
    let error = world.start(&run, 1).await.expect_err("refused");
    assert_eq!(error.refusal(), Some(Refusal::SandboxUnavailable), "{error}");
    assert!(error.message.contains("not installed") && error.message.contains("hint:"), "{error}");
    assert!(!world.root.run_stdout(&run.id).exists() && !world.root.execution(&run.id).exists());
    world.assert_clean(&run);
    assert!(world.taken(&run).is_empty());

    let docker = world.scripted("echo hi", Backend::Docker, |_| {});
    let error = world.start(&docker, 1).await.expect_err("refused");
    assert_eq!(error.refusal(), Some(Refusal::SandboxUnavailable), "{error}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_fails_half_way_leaves_nothing_and_can_be_started_again() {
    let world = World::new().await;
    for backend in backends() {
        let run = world.scripted("echo hi", backend, |_| {});
        let workspace = world.root.run_workspace(&run.id);
        std::fs::remove_dir(&workspace).expect("removed");
        let error = world.start(&run, 1).await.expect_err("refused");
        assert_eq!(error.refusal(), Some(Refusal::SandboxUnavailable), "{error}");
        world.assert_clean(&run);
        assert!(!world.root.run_stdout(&run.id).exists() && !world.root.execution(&run.id).exists());
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_again_returns_what_is_there_and_a_lower_epoch_is_stale() {
    let world = World::new().await;
    let run = world.scripted("echo up; while [ ! -e go ]; do sleep 0.02; done", Backend::Host, |_| {});
    let first = world.start(&run, 2).await.expect("started");
    let again = world.start(&run, 2).await.expect("there");
    assert_eq!((first.sandbox, State::Running), (again.sandbox.clone(), again.state()));
    assert_eq!(world.start(&run, 1).await.expect_err("stale").refusal(), Some(Refusal::StaleLease));
    std::fs::write(world.root.run_workspace(&run.id).join("go"), "").expect("written");
    world.finished(&run).await;
    let over = world.start(&run, 2).await.expect("there");
    assert_eq!((over.state(), over.sandbox, over.reported), (State::Ended, again.sandbox, true));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_runs_once_even_for_a_runner_that_does_not_remember_it() {
    let mut world = World::new().await;
    let run = world.scripted("echo once >>\"$MOSAIC_WORKSPACE/count\"", Backend::Host, |_| {});
    world.run(&run).await;
    world.runner.take().expect("a runner").drain(std::time::Duration::from_secs(5)).await;
    world.runner = Some(mosaic_runner::start(world.options()).await.expect("started again"));
    assert_eq!(world.start(&run, 1).await.expect_err("refused").refusal(), Some(Refusal::StaleLease));
    let count = std::fs::read_to_string(world.root.run_workspace(&run.id).join("count")).expect("there");
    assert_eq!(count, "once\n");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_and_a_fault_are_told_as_what_they_are() {
    let world = World::new().await;
    let run = world.scripted("echo hi", Backend::Host, |_| {});
    let directory = world.root.execution(&run.id);
    std::fs::create_dir_all(&directory).expect("made");
    std::os::unix::fs::symlink("/dev/full", directory.join(".execution.json.tmp")).expect("linked");
    let error = world.start(&run, 1).await.expect_err("refused");
    assert_eq!(error.refusal(), Some(Refusal::DiskLow), "{error}");
    assert!(error.message.contains("No space left"), "{error}");
    world.assert_clean(&run);
    assert!(!directory.exists() && !world.root.run_stdout(&run.id).exists());

    std::fs::write(&directory, "in the way").expect("written");
    let error = world.start(&run, 1).await.expect_err("refused");
    assert_eq!(error.reason, Reason::Internal, "{error}");
    assert!(error.message.contains("Not a directory"), "{error}");
    std::fs::remove_file(&directory).expect("removed");
    world.run(&run).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_run_is_not_found() {
    let world = World::new().await;
    let request = mosaic_proto::runner::v1::StopRunRequest { run_id: "r-unknown".to_owned() };
    let status = world.client(mosaic_data_root::Service::Launcher).stop_run(request).await.expect_err("unknown");
    assert_eq!(mosaic_rpc::RpcError::from_status(&status).reason, Reason::NotFound);
    world.end().await;
}
