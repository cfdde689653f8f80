use mosaic_bundle::WorkspaceKind;
use mosaic_record::{ActivitySource, Backend, EndReason, Enforcement, Note, RunEvent, RunStatus};

use crate::harness::{World, adapter_uid, backends};

#[tokio::test(flavor = "multi_thread")]
async fn a_mock_run_answers_and_its_record_says_what_held_it() {
    let world = World::new().await;
    for backend in backends() {
        let run = world.bundle("mock", "anything", backend, |launch| {
            launch.mock_response = Some("hello\n\n".to_owned());
            launch.expect_exact = Some("hello".to_owned());
        });
        let finished = world.run(&run).await;
        assert_eq!(finished.outcome.status, RunStatus::Succeeded, "{finished:?}");
        assert_eq!(finished.outcome.response.as_deref(), Some("hello"));
        assert_eq!(finished.outcome.exit_code, Some(0));
        let RunEvent::Running { containment, sandbox } = &finished.events[0] else { panic!("{finished:?}") };
        assert!(sandbox.starts_with(run.id.as_str()) && sandbox.len() > run.id.as_str().len());
        assert_eq!(containment.uid, adapter_uid());
        let is_contained = backend == Backend::Bubblewrap;
        assert_eq!(
            (containment.own_root, containment.no_network, containment.syscall_filter),
            (is_contained, is_contained, is_contained)
        );
        assert_eq!(containment.limits["openFiles"], Enforcement::Rlimit);
        let RunEvent::Activity(activity) = &finished.events[1] else { panic!("{finished:?}") };
        assert_eq!(activity.source, ActivitySource::Stdout);
        let shown = String::from_utf8(finished.stderr).expect("utf-8");
        assert!(shown.contains("MOSAIC_ADAPTER=mock\n") && shown.contains("MOSAIC_REQUEST=anything\n"), "{shown}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_input_is_at_its_end() {
    let world = World::new().await;
    for backend in backends() {
        let finished = world.run(&world.scripted("cat >/dev/null; echo done", backend, |_| {})).await;
        assert_eq!(finished.outcome.response.as_deref(), Some("done"));
        assert!(finished.outcome.duration_ms < Some(2000), "{finished:?}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adapter_that_goes_on_after_its_marker_keeps_its_answer() {
    let world = World::new().await;
    for backend in backends() {
        let run = world.scripted("echo the answer; turn_done; sleep 600", backend, |launch| {
            launch.limits.linger_seconds = 1;
            launch.limits.timeout_seconds = 2;
        });
        let finished = world.run(&run).await;
        assert_eq!(finished.outcome.status, RunStatus::Succeeded, "{finished:?}");
        assert_eq!(finished.outcome.response.as_deref(), Some("the answer"));
        assert_eq!(finished.outcome.notes, [Note::Lingered]);
        assert!(finished.events.contains(&RunEvent::TurnDone {}));
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_activity_token_is_the_adapters_word_and_counts_once() {
    let world = World::new().await;
    for backend in backends() {
        let script = "activity; activity; while [ ! -e go ]; do sleep 0.02; done; echo done";
        let run = world.scripted(script, backend, |_| {});
        world.start(&run, 1).await.expect("started");
        let activity = |events: Vec<crate::broker::Taken>| {
            events.into_iter().find_map(|taken| match taken.event {
                RunEvent::Activity(activity) => Some(activity),
                _ => None,
            })
        };
        let seen = crate::harness::wait_for("the activity", || activity(world.taken(&run))).await;
        assert_eq!(seen.source, ActivitySource::Adapter);
        std::fs::write(world.root.run_workspace(&run.id).join("go"), "").expect("written");
        let finished = world.finished(&run).await;
        let count = finished.events.iter().filter(|event| matches!(event, RunEvent::Activity(_))).count();
        assert_eq!(count, 1, "{finished:?}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adapter_of_ones_own_must_answer_and_write_the_marker_it_declares() {
    let world = World::new().await;
    let name = "mine".parse().expect("name");
    let metadata = |extra: &str| format!(r#"{{"adapterVersion": 1, "description": "d", "usesModel": false{extra}}}"#);
    let marked = metadata(r#", "turnMarker": "required""#);
    for (script, metadata, reason) in [
        ("exit 0", metadata(""), Some(EndReason::NoAnswer)),
        ("echo hi; exit 3", metadata(""), Some(EndReason::AdapterFailed)),
        ("echo hi; kill -9 $$", metadata(""), Some(EndReason::AdapterFailed)),
        ("echo hi", marked.clone(), Some(EndReason::AdapterFailed)),
        ("echo hi; : >\"$MOSAIC_TURN_MARKER\"", marked, None),
        ("echo hi", metadata(""), None),
    ] {
        let run = world.seal(script.as_bytes(), &metadata, &name, "r", Backend::Host, |_| {});
        let finished = world.run(&run).await;
        assert_eq!(finished.outcome.reason, reason, "{script}: {finished:?}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_of_the_model_ends_a_run_whose_adapter_declares_its_source() {
    let world = World::new().await;
    let metadata = r#"{"adapterVersion": 1, "description": "d", "usesModel": true, "activity": "adapter"}"#;
    let script = b"echo start; sleep 600";
    let run = world.seal(script, metadata, &"mine".parse().expect("name"), "r", Backend::Host, |launch| {
        launch.limits.no_activity_seconds = 1;
    });
    let finished = world.run(&run).await;
    assert_eq!(finished.outcome.reason, Some(EndReason::NoActivity), "{finished:?}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_workspace_the_working_directory_is_empty_and_private() {
    let world = World::new().await;
    for backend in backends() {
        let script = r#"[ -z "$MOSAIC_WORKSPACE$MOSAIC_SESSION_DIR" ] && ls -A | wc -l && echo x >here && pwd"#;
        let finished = world.run(&world.scripted(script, backend, |l| l.workspace = WorkspaceKind::None)).await;
        let response = finished.outcome.response.clone().expect("response");
        assert!(response.starts_with("0\n/") && response.ends_with("/cwd"), "{finished:?}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workspace_and_session_persist_and_are_the_adapters() {
    let world = World::new().await;
    for backend in backends() {
        let named = |launch: &mut mosaic_bundle::Launch| {
            launch.workspace = WorkspaceKind::Named { name: format!("w-{backend}").parse().expect("name") };
            launch.session = Some(format!("s-{backend}").parse().expect("name"));
        };
        let first = "pwd; echo one >kept; echo two >\"$MOSAIC_SESSION_DIR/kept\"";
        let first = world.run(&world.scripted(first, backend, named)).await;
        let second = "cat kept \"$MOSAIC_SESSION_DIR/kept\"; [ \"$PWD\" = \"$MOSAIC_WORKSPACE\" ]";
        let second = world.run(&world.scripted(second, backend, named)).await;
        assert_eq!(second.outcome.response.as_deref(), Some("one\ntwo"), "{first:?} {second:?}");
        assert_eq!(second.outcome.status, RunStatus::Succeeded);
        if backend == Backend::Bubblewrap {
            assert_eq!(first.outcome.response.as_deref(), Some("/var/lib/mosaic/workspace"));
        }
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adapter_is_a_part_of_its_callers_trace() {
    use tracing::Instrument as _;
    let world = World::new().await;
    let run = world.scripted("echo $TRACEPARENT", Backend::Host, |_| {});
    let span = tracing::info_span!(target: "mosaic_test", "launch");
    let traced = async {
        world.start(&run, 1).await.expect("started");
        mosaic_telemetry::current_traceparent().expect("a span")
    };
    let caller = traced.instrument(span).await;
    let finished = world.finished(&run).await;
    let response = finished.outcome.response.clone().expect("response");
    let told: mosaic_telemetry::Traceparent = response.parse().expect("a traceparent");
    assert_eq!(told.trace_id(), caller.trace_id());
    assert_ne!(told, caller, "a span of the runner's own");
    world.end().await;
}
