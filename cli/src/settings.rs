//! Where the configuration comes from, and the few settings that are not in it.

use std::path::{Path, PathBuf};

use mosaic_config::Config;

use crate::exit::Failure;

/// Largest configuration that is read, in bytes.
const CONFIG_BYTES: u64 = 1024 * 1024;
/// Names a configuration file.
const CONFIG_VARIABLE: &str = "MOSAIC_CONFIG";
/// OTLP/gRPC endpoint; precedes the configuration's, an empty value switches the export off.
const OTLP_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Which log lines a process writes.
const LOG_VARIABLE: &str = "MOSAIC_LOG";

/// Response of the adapter `mock`, when no flag names one.
const MOCK_VARIABLE: &str = "MOSAIC_MOCK_RESPONSE";

/// Variables that a background host is given of ours.
pub(crate) const SERVICE_VARIABLES: [&str; 2] = [OTLP_VARIABLE, LOG_VARIABLE];

/// How the configuration was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// `--config`.
    Flag,
    /// `MOSAIC_CONFIG`.
    Environment,
    /// `./config.json`.
    WorkingDirectory,
    /// The user's configuration directory.
    UserDirectory,
}

impl Source {
    /// In words.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "--config",
            Self::Environment => "MOSAIC_CONFIG",
            Self::WorkingDirectory => "working directory",
            Self::UserDirectory => "user's configuration directory",
        }
    }
}

/// The configuration in force.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Its file, absolute.
    pub path: PathBuf,
    /// How it was found.
    pub source: Source,
    /// What it says.
    pub config: Config,
}

impl Settings {
    /// Finds and reads the configuration.
    ///
    /// # Errors
    /// When there is none, or it is not valid.
    pub(crate) fn load(flag: Option<&Path>) -> Result<Self, Failure> {
        let (path, source) = locate(flag)?;
        let document = path.display().to_string();
        let text = read_bounded(&path).map_err(|error| {
            let failure = Failure::rejected(format!("can't read the configuration `{document}`: {error}"));
            failure.hint("`mosaic config init` writes one")
        })?;
        let config = Config::parse(&document, &text).map_err(|error| Failure::rejected(error.to_string()))?;
        Ok(Self { path, source, config })
    }

    /// OTLP/gRPC endpoint in force: the environment's, else the configuration's; none when empty.
    #[must_use]
    pub(crate) fn otlp_endpoint(&self) -> Option<String> {
        let endpoint = std::env::var(OTLP_VARIABLE).ok().or_else(|| self.config.otlp_endpoint.clone());
        endpoint.filter(|endpoint| !endpoint.is_empty())
    }
}

fn read_bounded(path: &Path) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(path)?.take(CONFIG_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > CONFIG_BYTES {
        return Err(std::io::Error::other(format!("it has more than {CONFIG_BYTES} bytes")));
    }
    Ok(text)
}

/// Which log lines this process writes, when anybody wants some.
#[must_use]
pub(crate) fn log_filter() -> Option<String> {
    std::env::var(LOG_VARIABLE).ok().filter(|filter| !filter.is_empty())
}

/// The file that holds the configuration, and how it was found.
///
/// # Errors
/// When there is none.
fn locate(flag: Option<&Path>) -> Result<(PathBuf, Source), Failure> {
    let named = match flag {
        Some(path) => Some((path.to_owned(), Source::Flag)),
        None => std::env::var_os(CONFIG_VARIABLE)
            .filter(|path| !path.is_empty())
            .map(|path| (PathBuf::from(path), Source::Environment)),
    };
    let (path, source) = match named {
        Some(named) => named,
        None => {
            let user = user_config()?;
            let candidates = [(PathBuf::from("config.json"), Source::WorkingDirectory), (user, Source::UserDirectory)];
            candidates.into_iter().find(|(path, _)| path.exists()).ok_or_else(|| {
                Failure::rejected("there is no configuration").hint("`mosaic config init` writes one for this machine")
            })?
        }
    };
    let path = std::path::absolute(&path).map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))?;
    Ok((path, source))
}

/// Where `config init` writes when nobody says otherwise.
///
/// # Errors
/// When the user has no home directory.
pub(crate) fn init_target(flag: Option<&Path>) -> Result<PathBuf, Failure> {
    let named = flag
        .map(Path::to_owned)
        .or_else(|| std::env::var_os(CONFIG_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from));
    let path = named.map_or_else(user_config, Ok)?;
    std::path::absolute(&path).map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))
}

fn user_config() -> Result<PathBuf, Failure> {
    Ok(xdg("XDG_CONFIG_HOME", ".config")?.join("mosaic/config.json"))
}

/// The user's data root when nobody names one.
///
/// # Errors
/// When the user has no home directory.
pub(crate) fn user_data_root() -> Result<PathBuf, Failure> {
    Ok(xdg("XDG_DATA_HOME", ".local/share")?.join("mosaic"))
}

/// A directory of the XDG Base Directory Specification: the variable when it is absolute, else below the home directory.
fn xdg(variable: &str, below_home: &str) -> Result<PathBuf, Failure> {
    let named = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| home().map(|home| home.join(below_home))).ok_or_else(|| {
        Failure::usage(format!("neither {variable} nor HOME names a directory")).hint("name a file with `--config`")
    })
}

impl Settings {
    /// Adds the caller's `MOSAIC_MOCK_RESPONSE` where the adapter is `mock` and no flag names a response.
    #[must_use]
    pub(crate) fn with_mock_response(&self, mut overrides: crate::args::Overrides) -> crate::args::Overrides {
        let adapter = overrides.adapter.as_ref().unwrap_or(&self.config.execution.adapter);
        if adapter.as_str() == "mock" && overrides.mock_response.is_none() {
            overrides.mock_response = std::env::var(MOCK_VARIABLE).ok();
        }
        overrides
    }
}
