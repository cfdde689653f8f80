use mosaic_config::{IntakeError, LimitsPatch, Text, Tools, parse};
use mosaic_ids::Name;
use mosaic_record::{Document, Workspace};

/// The only version of the format that is known.
const VERSION: u32 = 1;
/// Most projects of one task.
const PROJECTS: usize = 16;

/// What an agent may use.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Capabilities {
    /// Tools, each at most once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Tools>,
}

/// A task file: one piece of work for one adapter call.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskFile {
    /// Version of this format: 1.
    #[schemars(extend("const" = VERSION))]
    pub task_version: u32,
    /// Its name.
    pub id: Name,
    /// The request to the agent, verbatim.
    pub prompt: Text,
    /// Path of the mission that governs it, relative to this file or absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mission: Option<Text>,
    /// The answer that alone counts as success: standard output without its trailing newlines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_exact: Option<Text>,
    /// Wall time of the adapter, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// Where the adapter works: a name, or `:run` for a directory that is the run's own. Without it: an empty private one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    /// Projects of the business file to have a clone of, in the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = PROJECTS), extend("uniqueItems" = true))]
    pub projects: Option<Vec<Name>>,
    /// The conversation that the adapter begins or resumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Name>,
    /// What the agent may use; it can narrow what the mission allows, never widen it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// Limits that differ from the configuration's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsPatch>,
}

impl TaskFile {
    /// Reads a task file.
    ///
    /// # Errors
    /// At the first thing that is wrong.
    pub fn parse(document: &Document) -> Result<Self, IntakeError> {
        super::check_envelope(document)?;
        let task: Self = parse(&document.name, &document.content)?;
        let wrong = |key: &str, problem: &str| IntakeError::new(&document.name, key, problem);
        if task.task_version != VERSION {
            let problem = format!("{} is not a known version; write {VERSION}", task.task_version);
            return Err(wrong("taskVersion", &problem));
        }
        if task.limits.as_ref().is_some_and(|limits| limits.names("timeoutSeconds")) {
            return Err(wrong("limits.timeoutSeconds", "write `timeoutSeconds` beside `limits` instead"));
        }
        task.check_projects().map_err(|(key, problem)| wrong(&key, &problem))?;
        Ok(task)
    }

    fn check_projects(&self) -> Result<(), (String, String)> {
        let Some(projects) = &self.projects else { return Ok(()) };
        let wrong = |key: &str, problem: String| Err((key.to_owned(), problem));
        if projects.is_empty() || projects.len() > PROJECTS {
            return wrong(
                "projects",
                format!("names {} projects; write 1 to {PROJECTS}, or leave it out", projects.len()),
            );
        }
        if self.workspace.is_none() {
            return wrong("projects", "needs a `workspace` to put the clones into".to_owned());
        }
        let repeated = (1..projects.len()).find(|&at| projects[..at].contains(&projects[at]));
        repeated
            .map_or(Ok(()), |at| wrong(&format!("projects[{at}]"), format!("duplicate project \"{}\"", projects[at])))
    }

    /// The tools that it names.
    #[must_use]
    pub fn tools(&self) -> Option<&[mosaic_record::Tool]> {
        self.capabilities.as_ref()?.tools.as_ref().map(Tools::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let document = Document { name: "task.json".into(), content: text.into() };
        TaskFile::parse(&document).expect_err(text).to_string()
    }

    #[test]
    fn every_wrong_key_is_refused_where_it_stands() {
        let task = |rest: &str| format!(r#"{{"taskVersion": 1, "id": "t", "prompt": "p"{rest}}}"#);
        for (text, expected) in [
            (
                task(r#", "capabilities": {"tools": ["read", "write", "sudo"]}"#),
                "task.json: capabilities.tools[2]: unknown tool \"sudo\"; known: read write edit bash grep find ls",
            ),
            (task(r#", "workspace": "../../etc""#), "task.json: workspace: `../../etc` is not a name"),
            (task(r#", "session": "a/b""#), "task.json: session: `a/b` is not a name"),
            (task(r#", "workspace": "/etc""#), "task.json: workspace: `/etc` is not a name"),
            (task(r#", "workspace": "w", "projects": []"#), "task.json: projects: names 0 projects"),
            (task(r#", "projects": ["a"]"#), "task.json: projects: needs a `workspace`"),
            (
                task(r#", "workspace": "w", "projects": ["a", "b", "a"]"#),
                "task.json: projects[2]: duplicate project \"a\"",
            ),
            (task(r#", "workspace": "w", "projects": ["A"]"#), "task.json: projects[0]: `A` is not a name"),
            (task(r#", "verify": {}"#), "task.json: verify: unknown field `verify`"),
            (
                task(r#", "limits": {"timeoutSeconds": 5}"#),
                "task.json: limits.timeoutSeconds: write `timeoutSeconds` beside",
            ),
            (task(r#", "expectExact": """#), "task.json: expectExact: must not be empty"),
            (task(r#", "timeoutSeconds": "5""#), "task.json: timeoutSeconds: invalid type: string"),
            (task(r#", "timeoutSeconds": -5"#), "task.json: timeoutSeconds: invalid value: integer `-5`"),
            (
                r#"{"taskVersion": 2, "id": "t", "prompt": "p"}"#.into(),
                "task.json: taskVersion: 2 is not a known version; write 1",
            ),
            (r#"{"taskVersion": 1, "id": "t"}"#.into(), "task.json: missing field `prompt`"),
            (r#"{"taskVersion": 1, "id": "T", "prompt": "p"}"#.into(), "task.json: id: `T` is not a name"),
            ("[]".into(), "task.json: invalid"),
        ] {
            let message = refused(&text);
            assert!(message.starts_with(expected), "{message}");
        }
    }

    #[test]
    fn a_document_name_that_could_forge_a_message_is_refused() {
        let document = Document { name: "a\nb".into(), content: "{}".into() };
        assert!(TaskFile::parse(&document).expect_err("refused").to_string().starts_with("document: name: "));
    }
}
