use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use mosaic_ids::Digest;

use crate::{Launch, file};

/// What goes into a bundle.
#[derive(Debug)]
pub struct Contents<'a> {
    /// What the runner needs to know.
    pub launch: &'a Launch,
    /// The request, verbatim.
    pub request: &'a str,
    /// The generated system prompt.
    pub system_prompt: &'a str,
    /// The run's mission snapshot.
    pub mission: &'a str,
    /// The gate policy.
    pub policy: &'a str,
    /// The typed tools.
    pub tools: &'a str,
    /// The adapter's script.
    pub adapter_script: &'a [u8],
    /// The adapter's metadata.
    pub adapter_metadata: &'a str,
}

/// One file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SealedFile {
    /// Its size in bytes.
    pub bytes: u64,
    /// Its digest.
    pub sha256: Digest,
}

/// `manifest.json`: every other file of a bundle by its path.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// Version of this format: 1.
    pub bundle_version: u32,
    /// The files.
    pub files: BTreeMap<String, SealedFile>,
}

/// The version of the manifest that is written and read.
pub(crate) const VERSION: u32 = 1;

/// A bundle could not be written.
#[derive(Debug, thiserror::Error)]
#[error("can't write `{}` of the bundle", path.display())]
pub struct SealError {
    /// Which file.
    pub path: PathBuf,
    /// Why not.
    #[source]
    pub source: std::io::Error,
}

/// Writes the bundle into the new directory `directory` and returns its digest. Files are readable by everybody, since the
/// sandbox's uid reads them; the directories around the bundle keep everybody else out.
///
/// # Errors
/// When `directory` exists already or can't be written.
///
/// # Panics
/// Never: the documents' types all serialize.
pub fn seal(directory: &Path, contents: &Contents<'_>) -> Result<Digest, SealError> {
    let launch = serde_json::to_vec_pretty(contents.launch).expect("the launch serializes");
    let files: [(&str, &[u8]); 8] = [
        (file::LAUNCH, &launch),
        (file::REQUEST, contents.request.as_bytes()),
        (file::SYSTEM_PROMPT, contents.system_prompt.as_bytes()),
        (file::MISSION, contents.mission.as_bytes()),
        (file::POLICY, contents.policy.as_bytes()),
        (file::TOOLS, contents.tools.as_bytes()),
        (file::ADAPTER_SCRIPT, contents.adapter_script),
        (file::ADAPTER_METADATA, contents.adapter_metadata.as_bytes()),
    ];
    for path in [directory.to_owned(), directory.join(file::ADAPTER)] {
        make_directory(&path).map_err(|source| SealError { path, source })?;
    }
    let mut manifest = Manifest { bundle_version: VERSION, files: BTreeMap::new() };
    for (name, content) in files {
        write(&directory.join(name), content)?;
        let sealed = SealedFile { bytes: content.len() as u64, sha256: Digest::of(content) };
        manifest.files.insert(name.to_owned(), sealed);
    }
    let manifest = serde_json::to_vec_pretty(&manifest).expect("the manifest serializes");
    write(&directory.join(file::MANIFEST), &manifest)?;
    Ok(Digest::of(&manifest))
}

// The umask of whoever started us must not decide what the sandbox can read.
fn make_directory(path: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().mode(0o755).create(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

fn write(path: &Path, content: &[u8]) -> Result<(), SealError> {
    let write = || -> std::io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
        file.write_all(content)?;
        file.set_permissions(fs::Permissions::from_mode(0o444))
    };
    write().map_err(|source| SealError { path: path.into(), source })
}
