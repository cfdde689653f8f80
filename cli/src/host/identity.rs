//! What a host is: build, configuration, kind, process.

use std::path::Path;

use mosaic_config::Config;
use mosaic_data_root::DataRoot;
use mosaic_ids::Digest;

/// What must be the same for a command and the host that it uses.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Identity {
    /// Version and fingerprint of the executable.
    pub build: String,
    /// Digest of the configuration.
    pub config_digest: Digest,
    /// The configuration, to say what differs.
    pub config: serde_json::Value,
}

/// Whose host it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// `mosaic up`.
    Foreground,
    /// Started by a command; ends when idle.
    Background,
}

/// `run/host.json`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostFile {
    /// Process id.
    pub pid: u32,
    /// Whose host it is.
    pub kind: Kind,
    /// Build and configuration.
    #[serde(flatten)]
    pub identity: Identity,
}

impl Identity {
    /// What this process is, with `config`.
    #[must_use]
    pub(crate) fn of_this_process(config: &Config) -> Self {
        let file = serde_json::to_value(config.file()).expect("a configuration serializes");
        Self { build: build(), config_digest: config.digest(), config: file }
    }

    /// What sets `other` apart, in words; `None` when nothing does.
    #[must_use]
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let build = (self.build != other.build).then(|| "another build".to_owned());
        let config = (self.config_digest != other.config_digest).then(|| {
            let mut keys = Vec::new();
            differing_keys(&self.config, &other.config, "", &mut keys);
            format!("another configuration ({})", keys.join(", "))
        });
        match (build, config) {
            (Some(build), Some(config)) => Some(format!("{build} and {config}")),
            (build, config) => build.or(config),
        }
    }
}

/// Keys whose values differ, for example `execution.model`.
fn differing_keys(ours: &serde_json::Value, theirs: &serde_json::Value, path: &str, keys: &mut Vec<String>) {
    match (ours.as_object(), theirs.as_object()) {
        (Some(ours), Some(theirs)) => {
            let all: std::collections::BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            for key in all {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let value = |map: &serde_json::Map<_, _>| map.get(key).cloned().unwrap_or_default();
                differing_keys(&value(ours), &value(theirs), &below, keys);
            }
        }
        _ if ours != theirs => keys.push(path.to_owned()),
        _ => {}
    }
}

/// Version, and size and time of the executable: a replaced file is another build, at no cost of reading it.
fn build() -> String {
    use std::os::unix::fs::MetadataExt as _;
    let version = env!("CARGO_PKG_VERSION");
    match std::fs::metadata("/proc/self/exe") {
        Ok(file) => format!("{version}+{:x}.{:x}.{:x}", file.size(), file.mtime(), file.mtime_nsec()),
        Err(_unreadable) => version.to_owned(),
    }
}

impl HostFile {
    /// What the host of a data root says of itself; `None` when there is none or its file can't be read.
    #[must_use]
    pub(crate) fn read(root: &DataRoot) -> Option<Self> {
        serde_json::from_str(&std::fs::read_to_string(root.host_file()).ok()?).ok()
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// When the file can't be written.
    pub(crate) fn write(&self, root: &DataRoot) -> std::io::Result<()> {
        let path = root.host_file();
        let temporary = path.with_extension("tmp");
        std::fs::write(&temporary, serde_json::to_vec_pretty(self)?)?;
        std::fs::rename(&temporary, &path)
    }

    /// Removes it.
    pub(crate) fn remove(path: &Path) {
        if let Err(error) = std::fs::remove_file(path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::debug!(%error, "Could not remove the host's file");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_named() {
        let identity = |model: &str| Identity {
            build: "1".into(),
            config_digest: Digest::of(model.as_bytes()),
            config: serde_json::json!({ "execution": { "model": model } }),
        };
        assert_eq!(identity("a").difference(&identity("a")), None);
        let difference = identity("a").difference(&identity("b"));
        assert_eq!(difference.as_deref(), Some("another configuration (execution.model)"));
    }
}
