//! What an adapter is told: tools by policy, the mission in the prompt, and snapshots that no later change reaches.

use serde_json::json;

use crate::installation;

const MISSION: &str = r#"{
    "missionVersion": 1, "id": "keep-up", "objective": "Keep the site up",
    "directives": ["Add no dependency"],
    "capabilities": { "tools": ["read", "edit", "ls"] }
}"#;

#[test]
fn tools_are_narrowed_and_never_widened() {
    let mosaic = installation();
    mosaic.write("mission.json", MISSION);
    mosaic.write("bare.json", r#"{"missionVersion": 1, "id": "bare", "objective": "o"}"#);
    for (mission, tools, expected, note) in [
        (None, None, "", false),
        (None, Some(json!(["bash"])), "bash", false),
        (Some("mission.json"), None, "read,edit,ls", false),
        (Some("mission.json"), Some(json!(["bash", "ls", "read"])), "ls,read", false),
        (Some("mission.json"), Some(json!(["bash"])), "", true),
        (Some("bare.json"), Some(json!(["grep"])), "grep", false),
    ] {
        let task = mosaic.task("printf '%s' \"$MOSAIC_TOOLS\"", |task| {
            if let Some(mission) = mission {
                task["mission"] = json!(mission);
            }
            if let Some(tools) = &tools {
                task["capabilities"] = json!({ "tools": tools });
            }
        });
        let record = mosaic.record(&task, &[]);
        assert_eq!(record["response"], expected, "{mission:?} {tools:?}");
        assert_eq!(record["notes"] == json!(["tool-free-by-policy"]), note, "{record}");
    }
}

#[test]
fn the_mission_is_in_the_prompt_and_a_later_change_is_not_in_the_record() {
    let mosaic = installation();
    let mission = mosaic.write("mission.json", MISSION);
    let task = mosaic.task("cat \"$MOSAIC_SYSTEM_PROMPT_FILE\"", |task| task["mission"] = json!("mission.json"));
    let record = mosaic.record(&task, &[]);
    let prompt = record["response"].as_str().expect("a response");
    assert!(
        prompt.ends_with(
            "# MISSION (runtime)\n\nObjective: Keep the site up\n- Add no dependency\n\nTools: read, edit, ls"
        ),
        "{prompt}"
    );
    assert!(prompt.contains("MOSAIC_HELLO_OK"));

    std::fs::write(mission, "gone").expect("written");
    mosaic.write("task.json", "gone");
    let run = record["runId"].as_str().expect("an id");
    assert_eq!(mosaic.mosaic(&["show", "--json", run]).expect(0).json(), record);
    let directory = mosaic.data().join("runs").join(run);
    assert_eq!(std::fs::read_to_string(directory.join("mission.json")).expect("kept"), MISSION);
}

#[test]
fn a_mission_that_is_named_and_missing_or_wrong_is_rejected_by_its_own_name() {
    let mosaic = installation();
    let task = mosaic.task("true", |task| task["mission"] = json!("absent.json"));
    mosaic.mosaic(&["run", &task]).expect(4);
    mosaic.write("mission.json", r#"{"missionVersion": 1, "id": "m", "objective": "o", "tools": []}"#);
    let task = mosaic.task("true", |task| task["mission"] = json!("mission.json"));
    let rejected = mosaic.mosaic(&["run", &task]).expect(2);
    assert!(rejected.stderr.contains("mission.json: tools: unknown field `tools`"), "{rejected:?}");
}

#[test]
fn the_environment_of_an_adapter_is_the_contract_and_nothing_else() {
    let mosaic = installation();
    let task = mosaic.task("env | sort", |task| {
        task["workspace"] = json!("site");
        task["session"] = json!("chat");
    });
    let record = mosaic.record(&task, &["--model", "other-model"]);
    let response = record["response"].as_str().expect("a response");
    let mut names: Vec<&str> = response.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.retain(|name| !matches!(*name, "PWD" | "OLDPWD" | "_" | "SHLVL"));
    let contract = [
        "HOME",
        "LANG",
        "MOSAIC_ADAPTER",
        "MOSAIC_MISSION_FILE",
        "MOSAIC_MODEL",
        "MOSAIC_MODEL_ACTIVITY_DIR",
        "MOSAIC_POLICY_FILE",
        "MOSAIC_PROVIDER",
        "MOSAIC_REQUEST",
        "MOSAIC_REQUEST_FILE",
        "MOSAIC_SESSION_DIR",
        "MOSAIC_SYSTEM_PROMPT_FILE",
        "MOSAIC_THINKING",
        "MOSAIC_TOOLS",
        "MOSAIC_TOOLS_FILE",
        "MOSAIC_TOOL_SOCKET",
        "MOSAIC_TURN_MARKER",
        "MOSAIC_WORKSPACE",
        "PATH",
        "PI_MODEL",
        "PI_PROVIDER",
        "TMPDIR",
        "TRACEPARENT",
    ];
    assert_eq!(names, contract);
    assert!(response.contains("MOSAIC_MODEL=other-model\n"), "{response}");
    assert!(response.contains("MOSAIC_WORKSPACE=/var/lib/mosaic/workspace\n"), "{response}");
    assert!(response.contains("MOSAIC_SESSION_DIR=/var/lib/mosaic/session\n"), "{response}");
}
