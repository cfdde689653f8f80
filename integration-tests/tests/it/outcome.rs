//! What a person sees of a run: exit statuses, records, and nothing recorded where nothing may be.

use std::collections::HashSet;

use serde_json::json;

use crate::installation;

#[test]
fn an_expected_answer_decides_the_exit_status() {
    let mosaic = installation();
    let task = mosaic.task("echo yes", |task| task["expectExact"] = json!("yes"));
    let met = mosaic.mosaic(&["run", "--json", &task]).expect(0).json();
    assert_eq!((met["status"].as_str(), met["response"].as_str()), (Some("succeeded"), Some("yes")));
    let task = mosaic.task("echo no", |task| task["expectExact"] = json!("yes"));
    let missed = mosaic.mosaic(&["run", "--json", &task]).expect(1).json();
    assert_eq!((missed["status"].as_str(), missed["reason"].as_str()), (Some("failed"), Some("expect-mismatch")));
    assert_eq!(missed["expectedExact"], "yes");
}

#[test]
fn what_validation_rejects_leaves_nothing() {
    let mosaic = installation();
    type Change = fn(&mut serde_json::Value);
    let wrong: [(Change, &str); 6] = [
        (|task| task["surprise"] = json!(1), "task.json: surprise: unknown field `surprise`"),
        (
            |task| task["capabilities"] = json!({ "tools": ["read", "write", "sudo"] }),
            "task.json: capabilities.tools[2]: unknown tool \"sudo\"; known: read write edit bash grep find ls",
        ),
        (|task| task["workspace"] = json!("../escape"), "task.json: workspace: `../escape` is not a name"),
        (|task| task["session"] = json!("a/b"), "task.json: session: `a/b` is not a name"),
        (|task| task["timeoutSeconds"] = json!(86_401), "task.json: timeoutSeconds: 86401 is outside of 1 to 86400"),
        (|task| task["prompt"] = json!(""), "task.json: prompt: must not be empty"),
    ];
    for (change, expected) in wrong {
        let task = mosaic.task("echo hi", change);
        for command in ["run", "validate"] {
            let rejected = mosaic.mosaic(&[command, &task]).expect(2);
            assert!(rejected.stderr.contains(expected), "{rejected:?}");
        }
    }
    let unknown = mosaic.mosaic(&["run", "--adapter", "pi", &mosaic.task("hi", |_| {})]).expect(2);
    assert!(unknown.stderr.contains("unknown adapter `pi`") && unknown.stderr.contains("hint: "), "{unknown:?}");
    assert_eq!(std::fs::read_dir(mosaic.data().join("runs")).expect("a directory").count(), 0, "no run directory");
    assert_eq!(mosaic.mosaic(&["list", "--json"]).expect(0).stdout, "");
}

#[test]
fn unknown_runs_files_and_commands_have_exit_status_4() {
    let mosaic = installation();
    for arguments in
        [&["show", "r-unknown"][..], &["watch", "r-unknown"], &["stop", "r-unknown"], &["run", "absent.json"]]
    {
        mosaic.mosaic(arguments).expect(4);
    }
    for arguments in [&["show", "../etc"][..], &["dance"], &["run"]] {
        mosaic.mosaic(arguments).expect(4);
    }
}

#[test]
fn a_prompt_that_looks_like_something_else_arrives_verbatim() {
    let mosaic = installation();
    let prompt = "--help\n$(id) `id` \"quoted\" 'single' \\ \u{1F980} % \r\n\ttail  ";
    let task = mosaic.task(prompt, |_| {});
    mosaic.write("mine.sh", "");
    let adapter = mosaic.data().join("adapters/echo");
    mosaic.mosaic(&["list"]).expect(0);
    std::fs::create_dir_all(&adapter).expect("a directory");
    let metadata = r#"{"adapterVersion": 1, "description": "echoes the request", "usesModel": false}"#;
    std::fs::write(adapter.join("adapter.json"), metadata).expect("written");
    std::fs::write(adapter.join("adapter.sh"), "cat \"$MOSAIC_REQUEST_FILE\"; printf . >&2").expect("written");
    let record = mosaic.record(&task, &["--adapter", "echo"]);
    assert_eq!(record["response"], prompt);
    assert_eq!(record["request"], prompt);
    assert_eq!(record["synthetic"], false);
}

#[test]
fn every_run_has_a_directory_of_its_own_and_files_that_say_what_the_ledger_says() {
    let mosaic = installation();
    let task = mosaic.task("echo $RANDOM; pwd", |task| task["workspace"] = json!(":run"));
    let children: Vec<_> = (0..4).map(|_| mosaic.start(&["run", "--json", &task])).collect();
    let mut ids = HashSet::new();
    for child in children {
        let output = child.wait_with_output().expect("ends");
        let record: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a record");
        let directory = mosaic.data().join("runs").join(record["runId"].as_str().expect("an id"));
        let result = std::fs::read_to_string(directory.join("result.json")).expect("written before `run` returns");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&result).expect("JSON"), record);
        let events = std::fs::read_to_string(directory.join("events.jsonl")).expect("written");
        assert!(events.lines().last().expect("a line").contains("\"run.ended\""));
        assert!(ids.insert(directory));
    }
    assert_eq!(ids.len(), 4);
    let intact = mosaic.mosaic(&["ledger", "verify", "--json"]).expect(0).json();
    assert_eq!((&intact["intact"], &intact["runs"]), (&json!(true), &json!(4)));
}

#[test]
fn the_start_up_task_accepts_the_exact_marker_only() {
    let mosaic = installation();
    let verify = |arguments: &[&str]| mosaic.mosaic(&[&["verify", "--adapter"], arguments].concat());
    verify(&["mock", "--mock-response", "MOSAIC_HELLO_OK"]).expect(0);
    verify(&["mock", "--mock-response", "MOSAIC_HELLO_OK."]).expect(1);
    verify(&["mock", "--mock-response", " MOSAIC_HELLO_OK"]).expect(1);
    let scripted = verify(&["scripted"]).expect(2);
    assert!(scripted.stderr.contains("can't answer"), "{scripted:?}");
}

#[test]
fn production_refuses_what_is_for_trying_things() {
    let mosaic = crate::installation_with(|config| {
        config["environment"] = json!("production");
        config["execution"]["adapter"] = json!("mock");
    });
    let refused = mosaic.mosaic(&["run", &mosaic.task("hi", |_| {})]).expect(2);
    assert!(refused.stderr.contains("backend-not-allowed"), "{refused:?}");
    let host = crate::installation_with(|config| {
        config["environment"] = json!("production");
        config["execution"]["backend"] = json!("host");
    });
    host.mosaic(&["config", "check"]).expect(2);
}

#[test]
fn a_retry_works_after_every_file_it_came_from_is_gone_and_says_what_is_different() {
    let mosaic = installation();
    mosaic.write(
        "mission.json",
        r#"{"missionVersion": 1, "id": "m", "objective": "o", "capabilities": {"tools": ["ls"]}}"#,
    );
    let task = mosaic.task("anything", |task| task["mission"] = json!("mission.json"));
    let first = mosaic.record(&task, &["--adapter", "mock", "--mock-response", "kept"]);
    for file in ["task.json", "mission.json"] {
        std::fs::remove_file(mosaic.path().join(file)).expect("removed");
    }
    let run = first["runId"].as_str().expect("an id");
    let again = mosaic.mosaic(&["retry", "--json", run]).expect(0).json();
    assert_eq!((&again["retriedFrom"], &again["response"]), (&first["runId"], &json!("kept")));
    for same in ["taskId", "missionId", "tools", "adapter", "model", "request"] {
        assert_eq!(again[same], first[same], "{same}");
    }
    assert_eq!(again["warnings"], json!([]));
    let other = mosaic.mosaic(&["retry", "--json", "--model", "other", "--mock-response", "new", run]).expect(0).json();
    assert_eq!(other["response"], "new");
    let expected = ["retried with model other instead of test-model", "retried with another mock response"];
    assert_eq!(other["warnings"], json!(expected));
    mosaic.mosaic(&["retry", "r-unknown"]).expect(4);
}

#[test]
fn a_step_that_fails_refuses_the_run_and_what_was_made_before_is_undone() {
    let mosaic = installation();
    mosaic.mosaic(&["list"]).expect(0);
    std::fs::write(mosaic.data().join("sessions/chat"), "no directory").expect("written");
    let task = mosaic.task("echo ran", |task| {
        task["workspace"] = json!("fresh");
        task["session"] = json!("chat");
    });
    let record = mosaic.mosaic(&["run", "--json", &task]).expect(5).json();
    assert_eq!((&record["status"], &record["reason"]), (&json!("refused"), &json!("session-missing")));
    assert_eq!((&record["step"], &record["response"]), (&json!("session"), &serde_json::Value::Null));
    assert!(record["warnings"][0].as_str().expect("a message").contains("hint: chown"), "{record}");
    assert!(!mosaic.data().join("workspaces/fresh").exists(), "undone");
    let run = record["runId"].as_str().expect("an id");
    let events = mosaic.mosaic(&["watch", "--json", run]).expect(0).json_lines();
    let steps: Vec<(&str, &str)> = events
        .iter()
        .filter(|event| event["kind"] == "run.step")
        .map(|event| {
            (event["payload"]["step"].as_str().expect("a step"), event["payload"]["state"].as_str().expect("a state"))
        })
        .collect();
    assert_eq!(steps, [("run-directory", "done"), ("workspace", "done"), ("workspace", "undone")]);
    let later = mosaic.mosaic(&["watch", "--json", "--from", &events[2]["sequence"].to_string(), run]).expect(0);
    assert_eq!(later.json_lines(), events[2..]);
}

#[test]
fn a_stopped_run_is_recorded_as_cancelled_and_stopping_again_changes_nothing() {
    let mosaic = installation();
    let child = mosaic.start(&["run", "--json", &mosaic.task("echo begun; sleep 60", |_| {})]);
    let run = mosaic_integration_tests::wait_for("the run", std::time::Duration::from_secs(20), || {
        let runs = mosaic.mosaic(&["list", "--json", "--status", "running"]).json_lines();
        Some(runs.first()?["runId"].as_str()?.to_owned())
    });
    mosaic.mosaic(&["stop", &run]).expect(0);
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(1));
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a record");
    assert_eq!((&record["status"], &record["reason"]), (&json!("cancelled"), &json!("cancelled")));
    assert_eq!(record["response"], "begun");
    mosaic.mosaic(&["stop", &run]).expect(0);
    assert_eq!(mosaic.mosaic(&["show", "--json", &run]).json(), record);
}

#[test]
fn a_first_ctrl_c_stops_the_run() {
    let mosaic = installation();
    let child = mosaic.start(&["run", "--json", &mosaic.task("sleep 60", |_| {})]);
    mosaic_integration_tests::wait_for("the run", std::time::Duration::from_secs(20), || {
        (!mosaic.mosaic(&["list", "--json", "--status", "running"]).stdout.is_empty()).then_some(())
    });
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("interrupted");
    let output = child.wait_with_output().expect("ends");
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a record");
    assert_eq!((output.status.code(), &record["status"]), (Some(1), &json!("cancelled")));
}

#[test]
fn files_of_a_run_that_are_gone_are_written_again_from_the_ledger() {
    let mosaic = installation();
    let record = mosaic.record(&mosaic.task("echo hi", |_| {}), &[]);
    let directory = mosaic.data().join("runs").join(record["runId"].as_str().expect("an id"));
    let events = std::fs::read(directory.join("events.jsonl")).expect("written");
    let repaired = |mosaic: &mosaic_integration_tests::Installation| {
        mosaic.mosaic(&["ledger", "verify", "--repair", "--json"]).expect(0).json()["repaired"].clone()
    };
    assert_eq!(repaired(&mosaic), json!([]), "nothing was missing");
    std::fs::remove_dir_all(&directory).expect("removed");
    assert_eq!(repaired(&mosaic), json!([record["runId"]]));
    let result: serde_json::Value =
        serde_json::from_slice(&std::fs::read(directory.join("result.json")).expect("written again")).expect("JSON");
    assert_eq!(result, record);
    assert_eq!(std::fs::read(directory.join("events.jsonl")).expect("written again"), events);
    std::fs::write(directory.join("result.json"), "{\"torn").expect("torn");
    assert_eq!(repaired(&mosaic), json!([record["runId"]]));
}
