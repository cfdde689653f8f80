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
        Self { build: build(), config_digest: config.digest() }
    }

    /// What sets `other` apart, in words; `None` when nothing does.
    #[must_use]
    pub(crate) fn difference(&self, other: &Self) -> Option<&'static str> {
        match (self.build == other.build, self.config_digest == other.config_digest) {
            (true, true) => None,
            (false, true) => Some("another build"),
            (true, false) => Some("another configuration"),
            (false, false) => Some("another build and another configuration"),
        }
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
        let one = Identity { build: "1".into(), config_digest: Digest::of(b"1") };
        let other = Identity { config_digest: Digest::of(b"2"), ..one.clone() };
        assert_eq!(one.difference(&one), None);
        assert_eq!(one.difference(&other), Some("another configuration"));
    }
}
