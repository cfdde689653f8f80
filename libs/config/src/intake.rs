use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What is wrong with a document, where, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct IntakeError {
    /// Name of the document, as its reader knows it.
    pub document: String,
    /// Path of the key, for example `capabilities.tools[2]`; empty for the document as a whole.
    pub key: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl std::fmt::Display for IntakeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.key.is_empty() {
            write!(f, "{}: {}", self.document, self.problem)
        } else {
            write!(f, "{}: {}: {}", self.document, self.key, self.problem)
        }
    }
}

impl IntakeError {
    /// An error at `key` of `document`.
    pub fn new(document: &str, key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { document: document.to_owned(), key: key.into(), problem: problem.into() }
    }
}

/// Reads a JSON document as `T`, whole and strictly.
///
/// # Errors
/// When the text is not JSON, has something after its value, or is not what `T` takes.
pub fn parse<T: DeserializeOwned + Serialize>(document: &str, text: &str) -> Result<T, IntakeError> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let key = if path == "." || path == "?" { String::new() } else { readable(&path) };
        let error = error.into_inner();
        let mut problem = readable(&error.to_string());
        // The key says where a wrong value stands; only a text that is not JSON needs line and column.
        if error.is_data() && !key.is_empty() {
            problem.truncate(problem.rfind(" at line ").unwrap_or(problem.len()));
        }
        IntakeError::new(document, key, problem)
    })?;
    json.end().map_err(|error| IntakeError::new(document, "", readable(&error.to_string())))?;
    no_list_for_an_object(document, text, &value)?;
    Ok(value)
}

/// Refuses lists where `T` has objects: serde takes a list of values in the order of the fields for one.
fn no_list_for_an_object<T: Serialize>(document: &str, text: &str, value: &T) -> Result<(), IntakeError> {
    let malformed = |error: serde_json::Error| IntakeError::new(document, "", readable(&error.to_string()));
    let written: Value = serde_json::from_str(text).map_err(malformed)?;
    let meant = serde_json::to_value(value).map_err(malformed)?;
    match first_list_for_an_object(&written, &meant, String::new()) {
        Some(key) => Err(IntakeError::new(document, key, "invalid type: a list, expected an object with named keys")),
        None => Ok(()),
    }
}

fn first_list_for_an_object(written: &Value, meant: &Value, key: String) -> Option<String> {
    match (written, meant) {
        (Value::Array(_), Value::Object(_)) => Some(key),
        (Value::Object(written), Value::Object(meant)) => written.iter().find_map(|(name, value)| {
            let below = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            first_list_for_an_object(value, meant.get(name)?, below)
        }),
        _ => None,
    }
}

/// Control characters of a hostile document must not reach a terminal.
fn readable(message: &str) -> String {
    message
        .chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LimitsPatch, Text, Tools};

    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Sample {
        title: Text,
        capabilities: Capabilities,
        limits: Option<LimitsPatch>,
    }

    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Capabilities {
        tools: Tools,
    }

    fn refused(text: &str) -> String {
        parse::<Sample>("task.json", text).expect_err(text).to_string()
    }

    #[test]
    fn every_refusal_names_document_key_and_what_would_be_right() {
        let with_tools = |tools: &str| format!(r#"{{"title": "t", "capabilities": {{"tools": {tools}}}}}"#);
        assert_eq!(
            refused(&with_tools(r#"["read", "write", "sudo"]"#)),
            r#"task.json: capabilities.tools[2]: unknown tool "sudo"; known: read write edit bash grep find ls"#
        );
        assert!(
            refused(&with_tools(r#"["read", "read"]"#))
                .starts_with("task.json: capabilities.tools[1]: duplicate tool \"read\"")
        );
        assert!(refused(r#"{"title": ""}"#).starts_with("task.json: title: must not be empty"));
        assert!(refused(r#"{"titel": "t"}"#).starts_with("task.json: titel: unknown field `titel`, expected"));
        assert!(refused(r#"{"title": 3}"#).starts_with("task.json: title: invalid type: integer `3`, expected"));
        assert!(refused(r#"{"title": "a", "title": "b"}"#).contains("duplicate field `title`"));
        assert!(refused(&format!("{} x", with_tools("[]"))).contains("trailing characters"));
        assert!(refused("").starts_with("task.json: EOF"));
        let listed = r#"["t", {"tools": []}, null]"#;
        assert_eq!(refused(listed), "task.json: invalid type: a list, expected an object with named keys");
        let listed = r#"{"title": "t", "capabilities": [["read"]]}"#;
        assert!(refused(listed).starts_with("task.json: capabilities: invalid type: a list"));
        let limits = r#"{"title": "t", "capabilities": {"tools": []}, "limits": {"memory": 1}}"#;
        assert!(refused(limits).starts_with("task.json: limits.memory: unknown limit \"memory\"; known: "));
    }

    #[test]
    fn control_characters_never_reach_a_terminal() {
        assert!(!refused("{\"\\u001b[31mx\": 1}").contains('\u{1b}'));
    }

    #[test]
    fn a_document_nested_without_end_is_refused() {
        refused(&"[".repeat(100_000));
    }
}
