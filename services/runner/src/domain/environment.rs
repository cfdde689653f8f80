//! The environment of an adapter: exactly what the contract says, and nothing of the host's.

use std::collections::BTreeMap;

use mosaic_adapters::{ActivityDeclared, Metadata, TurnMarker};
use mosaic_bundle::{Launch, file};

/// Longest request that is given as a variable too, in bytes; the file is always there.
const REQUEST_BYTES: usize = 96 * 1024;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where the adapter finds things.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Paths {
    /// The bundle's documents.
    pub(crate) bundle: String,
    /// The workspace.
    pub(crate) workspace: Option<String>,
    /// The session.
    pub(crate) session: Option<String>,
    /// The adapter's home.
    pub(crate) home: String,
    /// Temporary files.
    pub(crate) temporary: String,
    /// The directory of the activity token.
    pub(crate) activity: String,
    /// The turn marker.
    pub(crate) turn_marker: String,
}

/// The whole environment.
pub(crate) fn environment(
    launch: &Launch,
    metadata: &Metadata,
    request: &str,
    paths: &Paths,
    traceparent: Option<&str>,
) -> BTreeMap<String, String> {
    let document = |name: &str| format!("{}/{name}", paths.bundle);
    let provider = launch.provider.as_ref().map_or("", |name| name.as_str());
    let model = launch.model.as_deref().unwrap_or_default();
    let optional = |value: &Option<String>| value.clone().unwrap_or_default();
    let mut environment: BTreeMap<String, String> = [
        ("PATH", PATH.to_owned()),
        ("HOME", paths.home.clone()),
        ("TMPDIR", paths.temporary.clone()),
        ("LANG", "C.UTF-8".to_owned()),
        ("MOSAIC_SYSTEM_PROMPT_FILE", document(file::SYSTEM_PROMPT)),
        ("MOSAIC_REQUEST_FILE", document(file::REQUEST)),
        ("MOSAIC_ADAPTER", launch.adapter.to_string()),
        ("MOSAIC_PROVIDER", provider.to_owned()),
        ("MOSAIC_MODEL", model.to_owned()),
        ("MOSAIC_THINKING", optional(&launch.thinking)),
        ("PI_PROVIDER", provider.to_owned()),
        ("PI_MODEL", model.to_owned()),
        ("MOSAIC_WORKSPACE", optional(&paths.workspace)),
        ("MOSAIC_SESSION_DIR", optional(&paths.session)),
        ("MOSAIC_TOOLS", launch.tools.join(",")),
        ("MOSAIC_MISSION_FILE", document(file::MISSION)),
        ("MOSAIC_POLICY_FILE", document(file::POLICY)),
        ("MOSAIC_TOOLS_FILE", document(file::TOOLS)),
        ("MOSAIC_TOOL_SOCKET", String::new()),
        ("MOSAIC_MODEL_ACTIVITY_DIR", paths.activity.clone()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let mut add = |name: &str, value: &str| drop(environment.insert(name.to_owned(), value.to_owned()));
    // No variable can hold a NUL; the file does.
    if request.len() <= REQUEST_BYTES && !request.contains('\0') {
        add("MOSAIC_REQUEST", request);
    }
    if metadata.activity == ActivityDeclared::Adapter {
        add("MOSAIC_MODEL_ACTIVITY_SOURCE", "adapter");
    }
    if metadata.turn_marker != TurnMarker::None {
        add("MOSAIC_TURN_MARKER", &paths.turn_marker);
    }
    if let Some(response) = launch.mock_response.as_deref().filter(|response| !response.contains('\0')) {
        add("MOSAIC_MOCK_RESPONSE", response);
    }
    if let Some(traceparent) = traceparent {
        add("TRACEPARENT", traceparent);
    }
    environment
}

#[cfg(test)]
mod tests {
    use mosaic_bundle::WorkspaceKind;
    use mosaic_record::{Backend, Limits};

    use super::*;

    fn launch() -> Launch {
        Launch {
            run_id: "r-1".parse().expect("run id"),
            adapter: "mine".parse().expect("name"),
            provider: Some("anthropic".parse().expect("name")),
            model: Some("m".to_owned()),
            thinking: None,
            tools: vec!["Read".to_owned(), "Bash".to_owned()],
            workspace: WorkspaceKind::Run,
            session: None,
            expect_exact: Some("secret answer".to_owned()),
            mock_response: None,
            backend: Backend::Bubblewrap,
            workspace_mode: mosaic_record::WorkspaceMode::Sandbox,
            containment: true,
            mixed_wiring_allowed: false,
            workspace_root: None,
            warnings: vec![],
            limits: Limits::default(),
        }
    }

    fn metadata(extra: &str) -> Metadata {
        let text = format!(r#"{{"adapterVersion": 1, "description": "d", "usesModel": true{extra}}}"#);
        Metadata::parse("adapter.json", &text).expect("valid")
    }

    fn paths() -> Paths {
        Paths {
            bundle: "/b".to_owned(),
            workspace: Some("/w".to_owned()),
            home: "/s/home".to_owned(),
            ..Paths::default()
        }
    }

    #[test]
    fn an_adapter_gets_every_variable_of_the_contract_and_no_other() {
        let environment = environment(&launch(), &metadata(""), "do it", &paths(), Some("00-a-b-01"));
        let names: Vec<&str> = environment.keys().map(String::as_str).collect();
        let expected = "HOME LANG MOSAIC_ADAPTER MOSAIC_MISSION_FILE MOSAIC_MODEL MOSAIC_MODEL_ACTIVITY_DIR \
                        MOSAIC_POLICY_FILE MOSAIC_PROVIDER MOSAIC_REQUEST MOSAIC_REQUEST_FILE MOSAIC_SESSION_DIR \
                        MOSAIC_SYSTEM_PROMPT_FILE MOSAIC_THINKING MOSAIC_TOOLS MOSAIC_TOOLS_FILE MOSAIC_TOOL_SOCKET \
                        MOSAIC_WORKSPACE PATH PI_MODEL PI_PROVIDER TMPDIR TRACEPARENT";
        assert_eq!(names.join(" "), expected);
        assert_eq!(environment["MOSAIC_TOOLS"], "Read,Bash");
        assert_eq!(environment["MOSAIC_SESSION_DIR"], "", "absent is empty");
        assert_eq!(environment["MOSAIC_REQUEST_FILE"], "/b/request.txt");
        assert!(!environment.values().any(|value| value.contains("secret answer")));
    }

    #[test]
    fn what_an_adapter_declares_adds_its_variables() {
        let declared = metadata(r#", "activity": "adapter", "turnMarker": "required""#);
        let paths = Paths { turn_marker: "/s/turn/done".to_owned(), ..paths() };
        let environment = environment(&launch(), &declared, "do it", &paths, None);
        assert_eq!(environment["MOSAIC_MODEL_ACTIVITY_SOURCE"], "adapter");
        assert_eq!(environment["MOSAIC_TURN_MARKER"], "/s/turn/done");
    }

    #[test]
    fn a_request_that_no_variable_can_hold_is_in_its_file_only() {
        for (request, is_there) in
            [("x".repeat(REQUEST_BYTES), true), ("x".repeat(REQUEST_BYTES + 1), false), ("a\0b".to_owned(), false)]
        {
            let environment = environment(&launch(), &metadata(""), &request, &paths(), None);
            assert_eq!(environment.contains_key("MOSAIC_REQUEST"), is_there);
        }
    }
}
