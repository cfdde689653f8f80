use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use mosaic_config::IntakeError;
use mosaic_ids::Name;
use mosaic_record::Refusal;

use crate::Metadata;
use crate::builtin::{BUILTIN, CHECK, RESERVED};

/// Largest file of an adapter, in bytes.
const FILE_BYTES: u64 = 1024 * 1024;

/// An adapter: the script that drives one harness, and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// Its name.
    pub name: Name,
    /// What is known of it.
    pub metadata: Metadata,
    /// `adapter.sh`, byte for byte.
    pub script: Vec<u8>,
    /// `adapter.json`, byte for byte.
    pub metadata_text: String,
}

/// Why an adapter can't be used.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// There is none of that name.
    #[error("unknown adapter `{name}`; known: {known}\nhint: {hint}")]
    Unknown {
        /// The name.
        name: Name,
        /// The known ones, separated by spaces.
        known: String,
        /// What to do.
        hint: String,
    },
    /// One's own adapter is named like one that comes with Mosaic.
    #[error("`{}` has the name of an adapter that comes with Mosaic; rename the directory", path.display())]
    NamedLikeBuiltin {
        /// Its directory.
        path: PathBuf,
    },
    /// A file of it can't be read.
    #[error("can't read `{}` of the adapter", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Its metadata is not what it should be.
    #[error(transparent)]
    Metadata(#[from] IntakeError),
}

impl AdapterError {
    /// The refusal that it is.
    #[must_use]
    pub const fn refusal(&self) -> Refusal {
        match self {
            Self::Unknown { .. } => Refusal::UnknownAdapter,
            Self::NamedLikeBuiltin { .. } | Self::Unreadable { .. } | Self::Metadata(_) => Refusal::InvalidConfig,
        }
    }
}

/// Finds an adapter: one that comes with Mosaic, or the first of that name in `directories`.
///
/// # Errors
/// When there is none, when one of one's own has a name that Mosaic keeps, or when a file of it is not usable.
pub fn find(name: &Name, directories: &[PathBuf]) -> Result<Adapter, AdapterError> {
    let own = directories.iter().map(|directory| directory.join(name)).find(|path| path.join("adapter.sh").exists());
    if let Some(builtin) = BUILTIN.iter().find(|builtin| builtin.name == name.as_str()) {
        if let Some(path) = own {
            return Err(AdapterError::NamedLikeBuiltin { path });
        }
        let metadata = Metadata::parse(builtin.name, builtin.metadata)?;
        let metadata_text = builtin.metadata.to_owned();
        return Ok(Adapter { name: name.clone(), metadata, script: builtin.script.into(), metadata_text });
    }
    match own {
        Some(path) if RESERVED.contains(&name.as_str()) => Err(AdapterError::NamedLikeBuiltin { path }),
        Some(path) => load(name, &path),
        None => Err(unknown(name, directories)),
    }
}

fn load(name: &Name, path: &Path) -> Result<Adapter, AdapterError> {
    let metadata_path = path.join("adapter.json");
    let metadata_text = String::from_utf8_lossy(&read(&metadata_path)?).into_owned();
    let metadata = Metadata::parse(&metadata_path.display().to_string(), &metadata_text)?;
    Ok(Adapter { name: name.clone(), metadata, script: read(&path.join("adapter.sh"))?, metadata_text })
}

fn read(path: &Path) -> Result<Vec<u8>, AdapterError> {
    let unreadable = |source| AdapterError::Unreadable { path: path.into(), source };
    let mut content = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES + 1).read_to_end(&mut content).map_err(unreadable)?;
    if content.len() as u64 > FILE_BYTES {
        return Err(unreadable(std::io::Error::other(format!("it has more than {FILE_BYTES} bytes"))));
    }
    Ok(content)
}

fn unknown(name: &Name, directories: &[PathBuf]) -> AdapterError {
    let mut known: Vec<String> = BUILTIN.iter().map(|builtin| builtin.name.to_owned()).collect();
    for directory in directories {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let names = entries.filter(|entry| entry.path().join("adapter.sh").exists());
        known.extend(names.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    }
    known.sort();
    let hint = if name.as_str() == CHECK {
        "it is no adapter: a named check is run by `mosaic apply --check`".to_owned()
    } else if RESERVED.contains(&name.as_str()) {
        format!("this build has no `{name}` yet; use `--adapter scripted`, or set `execution.adapter`")
    } else {
        let place = directories.first().map_or_else(String::new, |path| path.join(name).display().to_string());
        format!("an adapter of your own is a directory `{place}` with adapter.sh and adapter.json")
    };
    AdapterError::Unknown { name: name.clone(), known: known.join(" "), hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("name")
    }

    #[test]
    fn an_adapter_of_ones_own_is_found_and_one_named_like_a_builtin_is_refused() {
        let scratch = tempfile::tempdir().expect("scratch");
        for adapter in ["mine", "mock", "pi"] {
            let directory = scratch.path().join(adapter);
            std::fs::create_dir(&directory).expect("directory");
            std::fs::write(directory.join("adapter.sh"), "echo hi\n").expect("script");
            let metadata = r#"{"adapterVersion": 1, "description": "mine", "usesModel": false}"#;
            std::fs::write(directory.join("adapter.json"), metadata).expect("metadata");
        }
        let directories = [scratch.path().to_owned()];
        assert_eq!(find(&name("mine"), &directories).expect("found").script, b"echo hi\n");
        for kept in ["mock", "pi"] {
            let error = find(&name(kept), &directories).expect_err("refused");
            assert!(matches!(error, AdapterError::NamedLikeBuiltin { .. }), "{error}");
        }
    }

    #[test]
    fn an_unknown_adapter_is_refused_with_the_known_ones_and_a_hint() {
        let message = find(&name("pi"), &[]).expect_err("not yet").to_string();
        assert!(
            message.starts_with("unknown adapter `pi`; known: mock scripted\nhint: this build has no `pi` yet"),
            "{message}"
        );
        let message = find(&name("other"), &["/srv/a".into()]).expect_err("unknown").to_string();
        assert!(message.contains("hint: an adapter of your own is a directory `/srv/a/other`"), "{message}");
    }
}
