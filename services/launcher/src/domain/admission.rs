//! Admission: from documents, configuration and the operator's wishes to a spec, or a refusal.

use mosaic_adapters::Adapter;
use mosaic_config::{Business, Config};
use mosaic_ids::Name;
use mosaic_record::{Backend, Document, Environment, Limits, Project, Refusal, RunSpec};

use crate::domain::policy::effective_tools;
use crate::domain::prompt;
use crate::intake::{MissionFile, TaskFile};

/// Longest response of the adapter `mock`: it travels as one environment variable.
const MOCK_RESPONSE_BYTES: usize = 96 * 1024;
/// Longest name of a model, in bytes.
const MODEL_BYTES: usize = 255;

/// What an operator may set for one launch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Adapter instead of the configured one.
    pub adapter: Option<Name>,
    /// Model instead of the configured one.
    pub model: Option<String>,
    /// Response of the adapter `mock`.
    pub mock_response: Option<String>,
}

/// What is to be launched.
#[derive(Debug)]
pub struct Wish {
    /// The task file.
    pub task: Document,
    /// The mission file.
    pub mission: Option<Document>,
    /// What the operator sets for this launch.
    pub overrides: Overrides,
    /// Refuse instead of waiting.
    pub no_wait: bool,
    /// Projects as an earlier run had them; those of the business file when absent.
    pub projects: Option<Vec<Project>>,
}

/// A refusal before anything was recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// Which.
    pub refusal: Refusal,
    /// What, why and what to do.
    pub message: String,
}

impl Refused {
    pub(crate) fn new(refusal: Refusal, message: impl Into<String>) -> Self {
        Self { refusal, message: message.into() }
    }
}

/// Documents that were read, and the adapter that was found.
#[derive(Debug)]
pub struct Application {
    /// The task file as it was written.
    pub task: Document,
    /// The mission file as it was written.
    pub mission: Option<Document>,
    /// The task.
    pub task_file: TaskFile,
    /// The mission.
    pub mission_file: Option<MissionFile>,
    /// The adapter.
    pub adapter: Adapter,
    /// What the operator sets for this launch.
    pub overrides: Overrides,
    /// Refuse instead of waiting.
    pub no_wait: bool,
    /// W3C `traceparent` of the launch.
    pub traceparent: Option<String>,
    /// Projects that the task names.
    pub projects: Vec<Project>,
}

/// The projects that a task names, with their roots.
///
/// # Errors
/// When one of them is not known.
pub fn projects(task: &TaskFile, document: &str, business: Option<&Business>) -> Result<Vec<Project>, Refused> {
    let invalid = |message: String| Refused::new(Refusal::InvalidRequest, message);
    let Some(named) = &task.projects else { return Ok(Vec::new()) };
    let Some(business) = business else {
        return Err(invalid(format!(
            "{document}: projects: the configuration names no business file\n\
             hint: write one with `projects`, and its path as `business` into the configuration"
        )));
    };
    let find = |id: &Name| match business.projects.get(id) {
        Some(root) => Ok(Project { id: id.clone(), root: root.display().to_string() }),
        None => {
            let known = business.projects.keys().map(Name::as_str).collect::<Vec<_>>().join(" ");
            Err(invalid(format!("{document}: projects: unknown project \"{id}\"; known: {known}")))
        }
    };
    named.iter().map(find).collect()
}

/// The spec of the run.
///
/// # Errors
/// When something is not allowed here or does not fit.
pub fn admit(application: Application, config: &Config) -> Result<RunSpec, Refused> {
    let Application { task_file, mission_file, adapter, overrides, .. } = &application;
    check_backend(config, adapter)?;
    check_overrides(overrides, adapter)?;
    let limits = limits(task_file, &application.task.name, config)?;
    let mission_tools = mission_file.as_ref().and_then(|mission| mission.capabilities.as_ref()?.tools.as_ref());
    let effective = effective_tools(mission_tools.map(mosaic_config::Tools::as_slice), task_file.tools());
    let request = task_file.prompt.as_str();
    prompt::compose(mission_file.as_ref(), &effective.tools, (&application.projects, &[]), request).map_err(
        |over| Refused::new(Refusal::PromptOverBudget, format!("{}: prompt: {over}", application.task.name)),
    )?;
    Ok(RunSpec {
        task_id: task_file.id.clone(),
        mission_id: mission_file.as_ref().map(|mission| mission.id.clone()),
        request: request.to_owned(),
        expect_exact: task_file.expect_exact.as_ref().map(|text| text.as_str().to_owned()),
        tools: effective.tools,
        workspace: task_file.workspace.clone(),
        projects: application.projects.clone(),
        check: None,
        session: task_file.session.clone(),
        adapter: adapter.name.clone(),
        provider: Some(config.execution.provider.clone()),
        model: Some(overrides.model.clone().unwrap_or_else(|| config.execution.model.clone())),
        mock_response: overrides.mock_response.clone(),
        synthetic: mosaic_adapters::is_synthetic(&adapter.name),
        backend: config.execution.backend,
        limits,
        no_wait: application.no_wait,
        retried_from: None,
        notes: effective.note.into_iter().collect(),
        warnings: Vec::new(),
        traceparent: application.traceparent,
        task: application.task,
        mission: application.mission,
    })
}

fn check_backend(config: &Config, adapter: &Adapter) -> Result<(), Refused> {
    let production = config.environment == Environment::Production;
    if production && config.execution.backend == Backend::Host {
        let message =
            "the backend `host` contains nothing and is refused in production; set `execution.backend` to `bubblewrap`";
        return Err(Refused::new(Refusal::BackendNotAllowed, message));
    }
    if production && mosaic_adapters::is_synthetic(&adapter.name) {
        let message =
            format!("the adapter `{}` is for tests and demonstrations and is refused in production", adapter.name);
        return Err(Refused::new(Refusal::BackendNotAllowed, message));
    }
    if config.execution.backend == Backend::Docker {
        let message = "this build makes no docker sandboxes; set `execution.backend` to `bubblewrap`";
        return Err(Refused::new(Refusal::SandboxUnavailable, message));
    }
    Ok(())
}

fn check_overrides(overrides: &Overrides, adapter: &Adapter) -> Result<(), Refused> {
    let invalid = |message: String| Err(Refused::new(Refusal::InvalidRequest, message));
    if let Some(response) = &overrides.mock_response {
        if adapter.name.as_str() != "mock" {
            return invalid(format!("a mock response goes with the adapter `mock` only, not with `{}`", adapter.name));
        }
        if response.len() > MOCK_RESPONSE_BYTES || response.contains('\0') {
            return invalid(format!("a mock response has at most {MOCK_RESPONSE_BYTES} bytes and no NUL"));
        }
    }
    if let Some(model) = &overrides.model
        && (model.is_empty() || model.len() > MODEL_BYTES || model.chars().any(char::is_control))
    {
        return invalid(format!("a model's name has 1 to {MODEL_BYTES} bytes and no control characters"));
    }
    Ok(())
}

fn limits(task: &TaskFile, document: &str, config: &Config) -> Result<Limits, Refused> {
    let mut limits = config.limits;
    let over = |key: &str, error: mosaic_record::OverCap| {
        let message = format!("{document}: {key}: {} is outside of {} to {}", error.value, error.floor, error.cap);
        Refused::new(Refusal::LimitOverCap, message)
    };
    if let Some(seconds) = task.timeout_seconds {
        limits.set("timeoutSeconds", seconds).map_err(|error| over("timeoutSeconds", error))?;
    }
    if let Some(patch) = &task.limits {
        patch.apply(&mut limits).map_err(|error| over(&format!("limits.{}", error.key), error))?;
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(environment: &str, backend: &str) -> Config {
        let json = serde_json::json!({
            "configVersion": 1, "environment": environment, "dataRoot": "/srv/mosaic",
            "execution": {"backend": backend, "provider": "anthropic", "model": "m"},
        });
        Config::parse("config.json", &json.to_string()).expect("valid")
    }

    fn application(task: &str, adapter: &str, overrides: Overrides) -> Application {
        let task = Document { name: "task.json".into(), content: task.into() };
        Application {
            task_file: TaskFile::parse(&task).expect("valid"),
            task,
            mission: None,
            mission_file: None,
            adapter: mosaic_adapters::find(&adapter.parse().expect("name"), &[]).expect("known"),
            overrides,
            no_wait: false,
            traceparent: None,
            projects: Vec::new(),
        }
    }

    const TASK: &str = r#"{"taskVersion": 1, "id": "t", "prompt": "p"}"#;

    #[test]
    fn what_is_not_allowed_here_is_refused_with_its_reason() {
        let mock = Overrides { mock_response: Some("x".into()), ..Overrides::default() };
        let huge = Overrides { mock_response: Some("x".repeat(MOCK_RESPONSE_BYTES + 1)), ..Overrides::default() };
        let long = r#"{"taskVersion": 1, "id": "t", "prompt": "p", "timeoutSeconds": 86401}"#;
        let heavy = r#"{"taskVersion": 1, "id": "t", "prompt": "p", "limits": {"cpus": 9}}"#;
        for (environment, backend, task, adapter, overrides, expected) in [
            ("production", "host", TASK, "mock", Overrides::default(), Refusal::BackendNotAllowed),
            ("production", "bubblewrap", TASK, "mock", Overrides::default(), Refusal::BackendNotAllowed),
            ("development", "docker", TASK, "mock", Overrides::default(), Refusal::SandboxUnavailable),
            ("development", "host", TASK, "scripted", mock, Refusal::InvalidRequest),
            ("development", "host", TASK, "mock", huge, Refusal::InvalidRequest),
            ("development", "host", long, "mock", Overrides::default(), Refusal::LimitOverCap),
            ("development", "host", heavy, "mock", Overrides::default(), Refusal::LimitOverCap),
        ] {
            let refused = admit(application(task, adapter, overrides), &config(environment, backend));
            assert_eq!(refused.expect_err("refused").refusal, expected);
        }
    }

    #[test]
    fn a_spec_keeps_snapshots_and_resolved_settings() {
        let overrides = Overrides { model: Some("other".into()), ..Overrides::default() };
        let spec =
            admit(application(TASK, "scripted", overrides), &config("development", "bubblewrap")).expect("admitted");
        assert_eq!(spec.task.content, TASK);
        assert_eq!(spec.model.as_deref(), Some("other"));
        assert!(spec.synthetic);
        assert_eq!(spec.limits.timeout_seconds, 120);
    }
}
