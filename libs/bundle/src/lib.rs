//! The sealed bundle a run is started with: layout, seal and verification.
//!
//! The launcher writes `runs/<runId>/bundle/` and seals it: the manifest lists every file with its size and SHA-256, and the
//! digest of the manifest is the bundle's. The runner trusts nothing but that digest. Inside a sandbox the bundle is
//! read-only.

mod launch;
mod seal;
mod verify;

pub use launch::{Launch, WorkspaceKind};
pub use seal::{Contents, Manifest, SealError, SealedFile, seal};
pub use verify::{Changed, verify};

/// Names of the files in a bundle.
pub mod file {
    /// The list of all others; its digest is the bundle's.
    pub const MANIFEST: &str = "manifest.json";
    /// What the runner needs to know ([`Launch`](crate::Launch)).
    pub const LAUNCH: &str = "launch.json";
    /// The request, verbatim.
    pub const REQUEST: &str = "request.txt";
    /// The generated system prompt.
    pub const SYSTEM_PROMPT: &str = "system-prompt.md";
    /// The run's mission snapshot; an empty object without a mission.
    pub const MISSION: &str = "mission.json";
    /// The gate policy: what the agent may use.
    pub const POLICY: &str = "policy.json";
    /// The typed tools.
    pub const TOOLS: &str = "tools.json";
    /// Directory of the adapter.
    pub const ADAPTER: &str = "adapter";
    /// The adapter's script.
    pub const ADAPTER_SCRIPT: &str = "adapter/adapter.sh";
    /// The adapter's metadata.
    pub const ADAPTER_METADATA: &str = "adapter/adapter.json";
}
