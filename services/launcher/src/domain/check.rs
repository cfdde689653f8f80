//! Named checks: runs whose adapter is one fixed program.

use mosaic_adapters::{Adapter, CHECK, Metadata};
use mosaic_config::{Check, Config, IntakeError};
use mosaic_ids::Name;
use mosaic_record::{CheckSpec, Document, OverCap, RunSpec, Workspace};

/// What a check's metadata says: it may have nothing to say.
const METADATA: &str = r#"{
  "adapterVersion": 1,
  "description": "Runs a named check",
  "usesModel": false,
  "allowsEmptyAnswer": true
}
"#;

/// The adapter that runs a check: the program with its arguments, in the fresh clone.
///
/// # Errors
/// Never: the metadata is well formed.
pub fn adapter(check: &CheckSpec) -> Result<Adapter, IntakeError> {
    let mut script = format!("cd -- {} || exit 125\nexec", quoted(check.project.id.as_str()));
    for word in std::iter::once(&check.executable).chain(&check.arguments) {
        script.push(' ');
        script.push_str(&quoted(word));
    }
    script.push('\n');
    let name: Name = CHECK.parse().map_err(|_never| IntakeError::new(CHECK, "name", "is no name"))?;
    let metadata = Metadata::parse(CHECK, METADATA)?;
    Ok(Adapter { name, metadata, script: script.into_bytes(), metadata_text: METADATA.to_owned() })
}

/// A word that sh(1) reads as it is: within single quotes nothing else has a meaning.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// What is to run.
///
/// # Errors
/// When a limit is over its cap.
///
/// # Panics
/// Never: `check` is a name.
pub fn spec(spec: CheckSpec, check: &Check, config: &Config, traceparent: Option<String>) -> Result<RunSpec, OverCap> {
    let mut limits = config.limits;
    if let Some(patch) = &check.limits {
        patch.apply(&mut limits)?;
    }
    limits.set("timeoutSeconds", check.timeout_seconds)?;
    let request = format!("check `{}` of the work of {} at {}", spec.name, spec.of, spec.commit);
    let content = serde_json::json!({ "executable": spec.executable, "arguments": spec.arguments }).to_string();
    Ok(RunSpec {
        task_id: spec.name.clone(),
        mission_id: None,
        task: Document { name: format!("checks.{}", spec.name), content },
        mission: None,
        request,
        expect_exact: None,
        tools: Vec::new(),
        workspace: Some(Workspace::Run),
        projects: Vec::new(),
        session: None,
        adapter: CHECK.parse().expect("a name"),
        provider: None,
        model: None,
        mock_response: None,
        synthetic: false,
        backend: config.execution.backend,
        limits,
        no_wait: false,
        retried_from: None,
        notes: Vec::new(),
        warnings: Vec::new(),
        traceparent,
        check: Some(Box::new(spec)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_has_a_meaning_for_the_shell() {
        let words = ["/usr/bin/printf", "%s\\n", "$(touch x)", "it's", "a b", "", "-x", "`y`", "new\nline", "\\"];
        let check = CheckSpec {
            name: "unit".parse().expect("a name"),
            executable: words[0].to_owned(),
            arguments: words[1..].iter().map(|word| (*word).to_owned()).collect(),
            of: "r-1".parse().expect("a run id"),
            project: mosaic_record::Project { id: "site".parse().expect("a name"), root: "/srv/site".to_owned() },
            branch: "main".to_owned(),
            commit: "1".repeat(40),
            bundle: "x".to_owned(),
            bundle_digest: mosaic_ids::Digest::of(b""),
        };
        let script = adapter(&check).expect("an adapter").script;
        let place = tempfile::tempdir().expect("scratch");
        std::fs::create_dir(place.path().join("site")).expect("made");
        let path = place.path().join("adapter.sh");
        std::fs::write(&path, script).expect("written");
        let output = std::process::Command::new("/bin/sh").arg(&path).current_dir(place.path()).output().expect("ran");
        let expected: String = words[2..].iter().map(|word| format!("{word}\n")).collect();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
}
