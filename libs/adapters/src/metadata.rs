use std::collections::BTreeMap;

use mosaic_config::{IntakeError, Text};
use mosaic_record::Tool;

/// The only version of the metadata that is known.
const VERSION: u32 = 1;

/// How an adapter tells that the model has produced something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ActivityDeclared {
    /// By the activity file or its first byte on standard output, whichever is seen first.
    #[default]
    Stdout,
    /// By the activity file alone: it is written from the model's own events.
    Adapter,
}

/// Whether an adapter writes a turn marker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TurnMarker {
    /// Never: only its exit ends the turn.
    #[default]
    None,
    /// It may: the marker ends the turn, and so does its exit.
    Optional,
    /// Always: an exit with status 0 and without the marker is a failure.
    Required,
}

/// `adapter.json`: what Mosaic must know of an adapter.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// Version of this format: 1.
    #[schemars(extend("const" = VERSION))]
    pub adapter_version: u32,
    /// One line for people.
    pub description: Text,
    /// True when it needs a provider and a model.
    pub uses_model: bool,
    /// True when an empty answer with exit status 0 is a success.
    #[serde(default)]
    pub allows_empty_answer: bool,
    /// How it tells that the model has produced something.
    #[serde(default)]
    pub activity: ActivityDeclared,
    /// Whether it writes a turn marker.
    #[serde(default)]
    pub turn_marker: TurnMarker,
    /// The harness's own names of Mosaic's tools; a tool that is not named keeps its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = {"enum": Tool::ALL}))]
    pub tools: BTreeMap<Tool, Text>,
}

impl Metadata {
    /// Reads the metadata `document`, whose text is `text`.
    ///
    /// # Errors
    /// At the first thing that is wrong.
    pub fn parse(document: &str, text: &str) -> Result<Self, IntakeError> {
        let metadata: Self = mosaic_config::parse(document, text)?;
        if metadata.adapter_version != VERSION {
            let problem = format!("{} is not a known version; write {VERSION}", metadata.adapter_version);
            return Err(IntakeError::new(document, "adapterVersion", problem));
        }
        for (tool, name) in &metadata.tools {
            // The names travel as one comma-separated variable.
            if name.as_str().contains([',', '\n', '\0']) {
                return Err(IntakeError::new(document, format!("tools.{tool}"), "must have no comma, newline or NUL"));
            }
        }
        Ok(metadata)
    }

    /// The harness's own names of `tools`.
    #[must_use]
    pub fn harness_names(&self, tools: &[Tool]) -> Vec<String> {
        let name = |tool: &Tool| self.tools.get(tool).map_or_else(|| tool.to_string(), |name| name.as_str().to_owned());
        tools.iter().map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_get_the_names_of_the_harness() {
        let text = r#"{"adapterVersion": 1, "description": "d", "usesModel": true, "tools": {"read": "Read", "bash": "Bash"}}"#;
        let metadata = Metadata::parse("adapter.json", text).expect("valid");
        assert_eq!(metadata.harness_names(&[Tool::Bash, Tool::Ls]), ["Bash", "ls"]);
    }

    #[test]
    fn malformed_metadata_is_refused_where_it_stands() {
        for (text, expected) in [
            (
                r#"{"adapterVersion": 2, "description": "d", "usesModel": true}"#,
                "adapter.json: adapterVersion: 2 is not",
            ),
            (
                r#"{"adapterVersion": 1, "description": "", "usesModel": true}"#,
                "adapter.json: description: must not be",
            ),
            (
                r#"{"adapterVersion": 1, "description": "d", "usesModel": true, "tools": {"sudo": "x"}}"#,
                "adapter.json: tools",
            ),
            (
                r#"{"adapterVersion": 1, "description": "d", "usesModel": true, "tools": {"ls": "a,b"}}"#,
                "adapter.json: tools.ls: must",
            ),
        ] {
            let message = Metadata::parse("adapter.json", text).expect_err(text).to_string();
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
