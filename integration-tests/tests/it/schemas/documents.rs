//! Files that people write: whatever the intake says to a document, its schema says too.

use mosaic_adapters::Metadata;
use mosaic_config::Config;
use mosaic_launcher::intake::{MissionFile, TaskFile};
use mosaic_record::Document;
use serde_json::{Value, json};

use super::Validator;

/// Judges `base`, which is right, and `base` with each of `changes` laid over it; a change is refused or accepted by
/// intake and schema alike.
fn judge(file: &str, base: &Value, intake: impl Fn(&str) -> Result<(), String>, changes: &[(bool, Value)]) {
    let schema = Validator::of(file);
    for (accepted, change) in [(true, json!({}))].iter().chain(changes) {
        let mut document = base.clone();
        for (key, value) in change.as_object().expect("an object") {
            document[key] = value.clone();
        }
        for (who, verdict) in [("intake", intake(&document.to_string())), ("schema", schema.check(&document))] {
            assert_eq!(verdict.is_ok(), *accepted, "{who} of {document}: {verdict:?}");
        }
    }
}

fn document(name: &str, text: &str) -> Document {
    Document { name: name.to_owned(), content: text.to_owned() }
}

#[test]
fn the_schema_of_the_task_judges_as_the_intake_does() {
    judge(
        "task.json",
        &json!({"taskVersion": 1, "id": "t", "prompt": "p"}),
        |text| TaskFile::parse(&document("task.json", text)).map(drop).map_err(|error| error.to_string()),
        &[
            (true, json!({"mission": "../m.json", "expectExact": "4", "timeoutSeconds": 5, "session": "s.1"})),
            (true, json!({"workspace": ":run", "capabilities": {"tools": ["read", "bash"]}})),
            (
                true,
                json!({"workspace": "site", "capabilities": {}, "limits": {"cpus": 2, "memoryBytes": 1_073_741_824}}),
            ),
            (false, json!({"taskVersion": 2})),
            (false, json!({"prompt": ""})),
            (false, json!({"prompt": ["p"]})),
            (false, json!({"id": "T"})),
            (false, json!({"id": "../t"})),
            (false, json!({"workspace": "/etc"})),
            (false, json!({"workspace": ":other"})),
            (false, json!({"session": "a/b"})),
            (false, json!({"expectExact": ""})),
            (false, json!({"timeoutSeconds": "5"})),
            (false, json!({"timeoutSeconds": -5})),
            (false, json!({"capabilities": {"tools": ["sudo"]}})),
            (false, json!({"capabilities": {"tools": ["read", "read"]}})),
            (false, json!({"capabilities": {"network": true}})),
            (false, json!({"limits": {"moons": 1}})),
            (false, json!({"model": "m"})),
        ],
    );
}

#[test]
fn the_schema_of_the_mission_judges_as_the_intake_does() {
    judge(
        "mission.json",
        &json!({"missionVersion": 1, "id": "m", "objective": "o"}),
        |text| MissionFile::parse(&document("mission.json", text)).map(drop).map_err(|error| error.to_string()),
        &[
            (true, json!({"directives": ["d"], "capabilities": {"tools": []}})),
            (false, json!({"missionVersion": 0})),
            (false, json!({"objective": ""})),
            (false, json!({"directives": [""]})),
            (false, json!({"budget": 1})),
        ],
    );
}

#[test]
fn the_schema_of_the_configuration_judges_as_the_intake_does() {
    judge(
        "config.json",
        &json!({
            "configVersion": 1,
            "environment": "development",
            "dataRoot": "/srv/mosaic",
            "execution": {"backend": "bubblewrap", "provider": "anthropic", "model": "m"},
        }),
        |text| Config::parse("config.json", text).map(drop).map_err(|error| error.to_string()),
        &[
            (true, json!({"adapterDirs": ["/srv/adapters"], "sandboxUid": 1000})),
            (true, json!({"limits": {"cpus": 8}, "telemetry": {"otlpEndpoint": "http://127.0.0.1:4317"}})),
            (true, json!({"retention": {"diskLowBytes": 0}})),
            (true, json!({"retention": {"records": {"days": 1, "count": 2, "bytes": 3}, "sessions": {"days": 36500}}})),
            (false, json!({"retention": {"records": {}}})),
            (false, json!({"retention": {"output": {"days": 0}}})),
            (false, json!({"retention": {"output": {"days": 36501}}})),
            (false, json!({"retention": {"workspaces": {"weeks": 1}}})),
            (false, json!({"retention": {"everything": {"days": 1}}})),
            (false, json!({"configVersion": 2})),
            (false, json!({"environment": "prod"})),
            (false, json!({"dataRoot": "data"})),
            (false, json!({"adapterDirs": ["adapters"]})),
            (false, json!({"sandboxUid": 0})),
            (false, json!({"limits": {"cpus": 9}})),
            (false, json!({"limits": {"cpus": 0}})),
            (false, json!({"execution": {"backend": "vm", "provider": "anthropic", "model": "m"}})),
            (false, json!({"execution": {"backend": "host", "provider": "anthropic"}})),
            (false, json!({"telemetry": {}})),
            (false, json!({"webPort": 1})),
        ],
    );
}

#[test]
fn the_schema_of_an_adapter_judges_as_the_intake_does() {
    judge(
        "adapter.json",
        &json!({"adapterVersion": 1, "description": "d", "usesModel": true}),
        |text| Metadata::parse("adapter.json", text).map(drop).map_err(|error| error.to_string()),
        &[
            (true, json!({"allowsEmptyAnswer": true, "activity": "adapter", "turnMarker": "required"})),
            (true, json!({"tools": {"read": "Read"}})),
            (false, json!({"adapterVersion": 2})),
            (false, json!({"description": ""})),
            (false, json!({"activity": "gateway"})),
            (false, json!({"tools": {"sudo": "Sudo"}})),
            (false, json!({"tools": {"read": ""}})),
            (false, json!({"harness": "pi"})),
        ],
    );
}
