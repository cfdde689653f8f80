use std::path::PathBuf;

use mosaic_ids::{Digest, Name};
use mosaic_record::{Backend, Environment, Limits, OverCap, Refusal};

use crate::{IntakeError, LimitsPatch, Retention, RetentionFile, Text, parse};

/// The only version of the configuration that is known.
const VERSION: u32 = 1;
/// Uid of sandboxes where the services run as root: `nonroot` of the images that people build on.
const DEFAULT_SANDBOX_UID: u32 = 65532;

/// `config.json` as it is written.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigFile {
    /// Version of this format: 1.
    #[schemars(extend("const" = VERSION))]
    pub config_version: u32,
    /// How careful the installation is.
    pub environment: Environment,
    /// Where everything is kept; an absolute path.
    #[schemars(extend("pattern" = "^/"))]
    pub data_root: PathBuf,
    /// What runs when nobody says otherwise.
    pub execution: ExecutionFile,
    /// Limits that a run has when its task names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsPatch>,
    /// Further directories with adapters; absolute paths. The data root's own `adapters/` always counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(inner(regex(pattern = r"^/")))]
    pub adapter_dirs: Option<Vec<PathBuf>>,
    /// What agents work on: a business file; an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^/"))]
    pub business: Option<PathBuf>,
    /// Git of the host, an absolute path; the one in PATH when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^/"))]
    pub git_path: Option<PathBuf>,
    /// Uid that sandboxes run under where the services run as root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub sandbox_uid: Option<u32>,
    /// What is removed in time, and how much disk stays free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<RetentionFile>,
    /// Where spans go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<TelemetryFile>,
}

/// `execution` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecutionFile {
    /// What sandboxes are made of.
    pub backend: Backend,
    /// Provider of the model, as adapters are told it.
    pub provider: Name,
    /// Model, as adapters are told it.
    pub model: Text,
    /// Adapter; `pi` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<Name>,
}

/// `telemetry` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TelemetryFile {
    /// OTLP/gRPC endpoint, for example `http://127.0.0.1:4317`.
    pub otlp_endpoint: Text,
}

/// The configuration, resolved and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// How careful the installation is.
    pub environment: Environment,
    /// Where everything is kept.
    pub data_root: PathBuf,
    /// What runs when nobody says otherwise.
    pub execution: Execution,
    /// Limits that a run has when its task names none.
    pub limits: Limits,
    /// Further directories with adapters.
    pub adapter_dirs: Vec<PathBuf>,
    /// The business file.
    pub business: Option<PathBuf>,
    /// Git of the host.
    pub git_path: Option<PathBuf>,
    configured_sandbox_uid: Option<u32>,
    /// What is removed in time, and how much disk stays free.
    pub retention: Retention,
    /// OTLP/gRPC endpoint.
    pub otlp_endpoint: Option<String>,
    file: ConfigFile,
}

/// What runs when nobody says otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// What sandboxes are made of.
    pub backend: Backend,
    /// Provider of the model.
    pub provider: Name,
    /// Model.
    pub model: String,
    /// Adapter.
    pub adapter: Name,
}

/// Why a configuration can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A key is missing, unknown or wrong.
    #[error(transparent)]
    Intake(#[from] IntakeError),
    /// A limit is outside of what the table allows.
    #[error("{document}: limits.{}: {source}", source.key)]
    Limit {
        /// Name of the document.
        document: String,
        /// Which limit.
        source: OverCap,
    },
}

impl ConfigError {
    /// The refusal that it is. A limit over its cap is an invalid configuration too.
    #[must_use]
    pub const fn refusal(&self) -> Refusal {
        Refusal::InvalidConfig
    }
}

impl Config {
    /// Reads the configuration `document`, whose text is `text`.
    ///
    /// # Errors
    /// At the first thing that is wrong.
    pub fn parse(document: &str, text: &str) -> Result<Self, ConfigError> {
        Self::resolve(document, parse(document, text)?)
    }

    /// Resolves a configuration that was made, not read.
    ///
    /// # Errors
    /// At the first thing that is wrong.
    pub fn resolve(document: &str, file: ConfigFile) -> Result<Self, ConfigError> {
        let wrong = |key: &str, problem: String| IntakeError::new(document, key, problem);
        if file.config_version != VERSION {
            let problem = format!("{} is not a known version; write {VERSION}", file.config_version);
            return Err(wrong("configVersion", problem).into());
        }
        if !file.data_root.is_absolute() {
            let problem = format!("\"{}\" is not an absolute path", file.data_root.display());
            return Err(wrong("dataRoot", problem).into());
        }
        let adapter_dirs = file.adapter_dirs.clone().unwrap_or_default();
        if let Some(at) = adapter_dirs.iter().position(|directory| !directory.is_absolute()) {
            let problem = format!("\"{}\" is not an absolute path", adapter_dirs[at].display());
            return Err(wrong(&format!("adapterDirs[{at}]"), problem).into());
        }
        for (key, path) in [("business", &file.business), ("gitPath", &file.git_path)] {
            if let Some(path) = path.as_ref().filter(|path| !path.is_absolute()) {
                return Err(wrong(key, format!("\"{}\" is not an absolute path", path.display())).into());
            }
        }
        if file.sandbox_uid == Some(0) {
            return Err(wrong("sandboxUid", "0 is root; name the uid of an unprivileged user".to_owned()).into());
        }
        if let Some(telemetry) = &file.telemetry
            && !["http://", "https://"].iter().any(|scheme| telemetry.otlp_endpoint.as_str().starts_with(scheme))
        {
            let problem = "is not a URL; write for example http://127.0.0.1:4317".to_owned();
            return Err(wrong("telemetry.otlpEndpoint", problem).into());
        }
        let mut limits = Limits::default();
        if let Some(patch) = &file.limits {
            patch.apply(&mut limits).map_err(|source| ConfigError::Limit { document: document.to_owned(), source })?;
        }
        Ok(Self {
            environment: file.environment,
            data_root: file.data_root.clone(),
            execution: Execution {
                backend: file.execution.backend,
                provider: file.execution.provider.clone(),
                model: file.execution.model.as_str().to_owned(),
                adapter: file.execution.adapter.clone().unwrap_or_else(default_adapter),
            },
            limits,
            adapter_dirs,
            business: file.business.clone(),
            git_path: file.git_path.clone(),
            configured_sandbox_uid: file.sandbox_uid,
            retention: Retention::resolve(document, &file.retention.clone().unwrap_or_default())?,
            otlp_endpoint: file.telemetry.as_ref().map(|telemetry| telemetry.otlp_endpoint.as_str().to_owned()),
            file,
        })
    }

    /// Uid that sandboxes run under, and that owns workspaces and sessions: this process's own, or where that is root the
    /// configured one, 65532 if none is.
    #[must_use]
    pub fn sandbox_uid(&self) -> u32 {
        let uid = nix::unistd::geteuid();
        if uid.is_root() { self.configured_sandbox_uid.unwrap_or(DEFAULT_SANDBOX_UID) } else { uid.as_raw() }
    }

    /// The configuration as it was written.
    #[must_use]
    pub const fn file(&self) -> &ConfigFile {
        &self.file
    }

    /// Tells configurations apart: the digest of what it resolved to, whatever its text looked like.
    ///
    /// # Panics
    /// Never: the file's types all serialize.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&serde_json::to_vec(&self.file).expect("the configuration serializes"))
    }
}

fn default_adapter() -> Name {
    "pi".parse().expect("a name")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(change: impl FnOnce(&mut serde_json::Value)) -> String {
        let mut json = serde_json::json!({
            "configVersion": 1,
            "environment": "development",
            "dataRoot": "/srv/mosaic",
            "execution": {"backend": "bubblewrap", "provider": "anthropic", "model": "m"},
        });
        change(&mut json);
        json.to_string()
    }

    fn refused(change: impl FnOnce(&mut serde_json::Value)) -> String {
        Config::parse("config.json", &text(change)).expect_err("refused").to_string()
    }

    #[test]
    fn a_small_configuration_gets_the_defaults() {
        let config = Config::parse("config.json", &text(|_| {})).expect("valid");
        assert_eq!(config.execution.adapter.as_str(), "pi");
        assert_eq!(config.limits, Limits::default());
    }

    #[test]
    fn every_wrong_value_is_refused_where_it_stands() {
        for (expected, change) in [
            ("config.json: configVersion: 2 is not a known version; write 1", serde_json::json!({"configVersion": 2})),
            ("config.json: dataRoot: \"data\" is not an absolute path", serde_json::json!({"dataRoot": "data"})),
            ("config.json: adapterDirs[0]: \"a\" is not", serde_json::json!({"adapterDirs": ["a"]})),
            ("config.json: business: \"b.json\" is not", serde_json::json!({"business": "b.json"})),
            ("config.json: gitPath: \"git\" is not", serde_json::json!({"gitPath": "git"})),
            ("config.json: sandboxUid: 0 is root", serde_json::json!({"sandboxUid": 0})),
            (
                "config.json: environment: unknown environment \"prod\"; known: development production",
                serde_json::json!({"environment": "prod"}),
            ),
            ("config.json: limits.cpus: cpus is 99; allowed is 1 to 8", serde_json::json!({"limits": {"cpus": 99}})),
            ("config.json: webPort: unknown field `webPort`", serde_json::json!({"webPort": 1})),
        ] {
            let message = refused(|json| {
                for (key, value) in change.as_object().expect("an object") {
                    json[key] = value.clone();
                }
            });
            assert!(message.starts_with(expected), "{message}");
        }
    }

    #[test]
    fn the_digest_follows_the_content_not_the_text() {
        let one = Config::parse("config.json", &text(|_| {})).expect("valid");
        let spaced = text(|_| {}).replace(':', ": ");
        assert_eq!(one.digest(), Config::parse("other.json", &spaced).expect("valid").digest());
        let other = text(|json| json["sandboxUid"] = 1000.into());
        assert_ne!(one.digest(), Config::parse("config.json", &other).expect("valid").digest());
    }
}
