use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use mosaic_ids::Digest;
use sha2::Digest as _;

use crate::seal::VERSION;
use crate::{Launch, Manifest, file};

/// Largest manifest that is read, in bytes.
const MANIFEST_BYTES: u64 = 64 * 1024;
/// Largest file of a bundle, in bytes.
const FILE_BYTES: u64 = 80 * 1024 * 1024;

/// A bundle is not the one that was sealed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the bundle is not the one that was sealed: {name}: {problem}")]
pub struct Changed {
    /// Which file.
    pub name: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Changed {
    fn new(name: &str, problem: impl Into<String>) -> Self {
        Self { name: name.to_owned(), problem: problem.into() }
    }
}

/// Checks that the bundle in `directory` is the one whose digest is `digest`, file by file, and returns what it says.
///
/// # Errors
/// When a file is missing, added, or not the one that was sealed.
pub fn verify(directory: &Path, digest: &Digest) -> Result<Launch, Changed> {
    let manifest = read(directory, file::MANIFEST, MANIFEST_BYTES)?;
    if Digest::of(&manifest) != *digest {
        return Err(Changed::new(file::MANIFEST, format!("its digest is not {digest}")));
    }
    let manifest: Manifest = parse(file::MANIFEST, &manifest)?;
    if manifest.bundle_version != VERSION {
        return Err(Changed::new(file::MANIFEST, format!("version {} is not known", manifest.bundle_version)));
    }
    for (name, sealed) in &manifest.files {
        let found = digest_of(directory, name)?;
        if found != (sealed.bytes, sealed.sha256.clone()) {
            return Err(Changed::new(name, format!("it has {} bytes and digest {}", found.0, found.1)));
        }
    }
    nothing_else(directory, Path::new(""), &manifest)?;
    parse(file::LAUNCH, &read(directory, file::LAUNCH, FILE_BYTES)?)
}

fn parse<T: serde::de::DeserializeOwned>(name: &str, content: &[u8]) -> Result<T, Changed> {
    serde_json::from_slice(content).map_err(|error| Changed::new(name, error.to_string()))
}

fn open(directory: &Path, name: &str) -> Result<File, Changed> {
    let no_follow = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(no_follow).open(directory.join(name));
    let file = file.map_err(|error| Changed::new(name, error.to_string()))?;
    match file.metadata() {
        Ok(metadata) if metadata.is_file() => Ok(file),
        _ => Err(Changed::new(name, "it is not a regular file")),
    }
}

fn read(directory: &Path, name: &str, limit: u64) -> Result<Vec<u8>, Changed> {
    let mut content = Vec::new();
    let read = open(directory, name)?.take(limit + 1).read_to_end(&mut content);
    read.map_err(|error| Changed::new(name, error.to_string()))?;
    if content.len() as u64 > limit {
        return Err(Changed::new(name, format!("it has more than {limit} bytes")));
    }
    Ok(content)
}

fn digest_of(directory: &Path, name: &str) -> Result<(u64, Digest), Changed> {
    let mut file = open(directory, name)?.take(FILE_BYTES + 1);
    let mut hash = sha2::Sha256::new();
    let mut buffer = vec![0; 256 * 1024];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer).map_err(|error| Changed::new(name, error.to_string()))? {
            0 => return Ok((bytes, Digest::from_hash(&hash.finalize()))),
            read => {
                hash.update(&buffer[..read]);
                bytes += read as u64;
            }
        }
    }
}

/// Refuses files that the manifest does not list: the sandbox would see them.
fn nothing_else(directory: &Path, below: &Path, manifest: &Manifest) -> Result<(), Changed> {
    let unreadable = |error: std::io::Error| Changed::new(&below.display().to_string(), error.to_string());
    for entry in std::fs::read_dir(directory.join(below)).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = below.join(entry.file_name());
        let name = path.display().to_string();
        if entry.file_type().map_err(unreadable)?.is_dir() && name == file::ADAPTER {
            nothing_else(directory, &path, manifest)?;
        } else if name != file::MANIFEST && !manifest.files.contains_key(&name) {
            return Err(Changed::new(&name, "it was not sealed"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::{Contents, WorkspaceKind, seal};

    fn launch() -> Launch {
        Launch {
            run_id: "r-test".parse().expect("run id"),
            adapter: "mock".parse().expect("name"),
            provider: None,
            model: None,
            thinking: None,
            tools: vec!["read".into()],
            workspace: WorkspaceKind::Named { name: "site".parse().expect("name") },
            session: None,
            expect_exact: None,
            mock_response: None,
            backend: mosaic_record::Backend::Host,
            workspace_mode: mosaic_record::WorkspaceMode::Host,
            containment: false,
            mixed_wiring_allowed: false,
            workspace_root: None,
            warnings: vec![],
            limits: mosaic_record::Limits::default(),
        }
    }

    fn sealed(scratch: &Path) -> (PathBuf, Digest) {
        let directory = scratch.join("bundle");
        let contents = Contents {
            launch: &launch(),
            request: "do it",
            system_prompt: "# you",
            mission: "{}",
            policy: "{}",
            tools: "{}",
            adapter_script: b"echo",
            adapter_metadata: "{}",
        };
        let digest = seal(&directory, &contents).expect("sealed");
        (directory, digest)
    }

    #[test]
    fn a_bundle_is_what_was_sealed() {
        let scratch = tempfile::tempdir().expect("scratch");
        let (directory, digest) = sealed(scratch.path());
        assert_eq!(verify(&directory, &digest), Ok(launch()));
    }

    #[test]
    fn every_change_is_found() {
        type Change = fn(&Path) -> std::io::Result<()>;
        let rewrite = |path: PathBuf, text: &str| fs::remove_file(&path).and_then(|()| fs::write(path, text));
        let changes: [(&str, Change); 7] = [
            ("request.txt", |at| fs::remove_file(at.join("request.txt"))),
            ("request.txt", |at| {
                fs::remove_file(at.join("request.txt")).and_then(|()| fs::write(at.join("request.txt"), "do I"))
            }),
            ("adapter/adapter.sh", |at| {
                fs::remove_file(at.join("adapter/adapter.sh"))
                    .and_then(|()| fs::write(at.join("adapter/adapter.sh"), ""))
            }),
            ("adapter/more.sh", |at| fs::write(at.join("adapter/more.sh"), "")),
            ("extra", |at| fs::create_dir(at.join("extra"))),
            ("request.txt", |at| {
                fs::rename(at.join("request.txt"), at.join("../request"))?;
                std::os::unix::fs::symlink("../request", at.join("request.txt"))
            }),
            ("request.txt", |at| {
                fs::remove_file(at.join("request.txt"))?;
                nix::unistd::mkfifo(&at.join("request.txt"), nix::sys::stat::Mode::S_IRWXU).map_err(Into::into)
            }),
        ];
        for (name, change) in changes {
            let scratch = tempfile::tempdir().expect("scratch");
            let (directory, digest) = sealed(scratch.path());
            change(&directory).expect("changed");
            assert_eq!(verify(&directory, &digest).expect_err(name).name, name);
        }
        let scratch = tempfile::tempdir().expect("scratch");
        let (directory, digest) = sealed(scratch.path());
        rewrite(directory.join("manifest.json"), "{}").expect("changed");
        assert_eq!(verify(&directory, &digest).expect_err("manifest").name, "manifest.json");
    }
}
