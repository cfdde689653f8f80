use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mosaic_ids::Name;

use crate::{IntakeError, LimitsPatch, Text, parse};

/// The only version of the business file that is known.
const VERSION: u32 = 1;
/// Most projects of a business.
const PROJECTS: usize = 256;
/// Most named checks of a business.
const CHECKS: usize = 32;
/// Time that a check has when nobody says otherwise, in seconds.
const CHECK_SECONDS: u64 = 600;
/// Longest time that a check may have, in seconds.
const CHECK_SECONDS_CAP: u64 = 3600;

/// `business.json` as it is written: what agents work on, and what their work is checked with.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BusinessFile {
    /// Version of this format: 1.
    #[schemars(extend("const" = VERSION))]
    pub business_version: u32,
    /// Id of the business.
    pub id: Name,
    /// Repositories that agents may be given clones of.
    pub projects: Vec<ProjectFile>,
    /// Checks by name: what integrated work is run through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<BTreeMap<Name, CheckFile>>,
}

/// A project as it is written.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProjectFile {
    /// Id of the project, and name of its clone's directory in a workspace.
    pub id: Name,
    /// Top directory of the repository: a work tree with a branch checked out; an absolute path. Never written to.
    #[schemars(extend("pattern" = "^/"))]
    pub root: PathBuf,
}

/// A check as it is written. It runs in a sandbox of its own, in a fresh checkout of the work.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckFile {
    /// Program: an absolute path, a path below the checkout that begins with `./`, or a name that is looked up in PATH.
    pub executable: Text,
    /// Its arguments, each as it is: no shell reads them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Vec<String>>,
    /// How long it may take, in seconds; 600 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = CHECK_SECONDS_CAP))]
    pub timeout_seconds: Option<u64>,
    /// Further limits; those of the configuration where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsPatch>,
}

/// A business, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Business {
    /// Its id.
    pub id: Name,
    /// Root of each project.
    pub projects: BTreeMap<Name, PathBuf>,
    /// Checks by name.
    pub checks: BTreeMap<Name, Check>,
}

/// A named check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Program.
    pub executable: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How long it may take, in seconds.
    pub timeout_seconds: u64,
    /// Further limits.
    pub limits: LimitsPatch,
}

impl Business {
    /// Reads the business file `document`, whose text is `text`.
    ///
    /// # Errors
    /// At the first thing that is wrong.
    pub fn parse(document: &str, text: &str) -> Result<Self, IntakeError> {
        let file: BusinessFile = parse(document, text)?;
        let wrong = |key: String, problem: &str| Err(IntakeError::new(document, key, problem));
        if file.business_version != VERSION {
            let problem = format!("{} is not a known version; write {VERSION}", file.business_version);
            return wrong("businessVersion".to_owned(), &problem);
        }
        if file.projects.len() > PROJECTS {
            return wrong("projects".to_owned(), &format!("has more than {PROJECTS} projects"));
        }
        let mut ids = BTreeSet::new();
        for (at, project) in file.projects.iter().enumerate() {
            if !ids.insert(&project.id) {
                return wrong(format!("projects[{at}].id"), "is the id of another project; each has one of its own");
            }
            if !is_plain_absolute(&project.root) {
                return wrong(format!("projects[{at}].root"), "is not an absolute path without `.` and `..`");
            }
        }
        let checks = file.checks.unwrap_or_default();
        if checks.len() > CHECKS {
            return wrong("checks".to_owned(), &format!("has more than {CHECKS} checks"));
        }
        let checks = checks.into_iter().map(|(name, check)| Ok((name.clone(), check.resolve(document, &name)?)));
        Ok(Self {
            checks: checks.collect::<Result<_, IntakeError>>()?,
            projects: file.projects.into_iter().map(|project| (project.id, project.root)).collect(),
            id: file.id,
        })
    }
}

impl CheckFile {
    fn resolve(self, document: &str, name: &Name) -> Result<Check, IntakeError> {
        let wrong = |key: &str, problem: &str| Err(IntakeError::new(document, format!("checks.{name}.{key}"), problem));
        let executable = self.executable.into_string();
        let below = executable.strip_prefix("./").is_some_and(|path| !path.is_empty());
        let named = !executable.contains('/') && executable != "." && executable != "..";
        if executable.contains('\0') || !(below || named || is_plain_absolute(Path::new(&executable))) {
            return wrong("executable", "is neither an absolute path, nor one that begins with `./`, nor a name");
        }
        let arguments = self.arguments.unwrap_or_default();
        if arguments.iter().any(|argument| argument.contains('\0')) {
            return wrong("arguments", "an argument has a NUL");
        }
        let timeout_seconds = self.timeout_seconds.unwrap_or(CHECK_SECONDS);
        if !(1..=CHECK_SECONDS_CAP).contains(&timeout_seconds) {
            return wrong("timeoutSeconds", &format!("is {timeout_seconds}; allowed is 1 to {CHECK_SECONDS_CAP}"));
        }
        let limits = self.limits.unwrap_or_default();
        if limits.names("timeoutSeconds") {
            return wrong("limits.timeoutSeconds", "write `timeoutSeconds` beside `limits`");
        }
        Ok(Check { executable, arguments, timeout_seconds, limits })
    }
}

/// An absolute path that names the same file however it is read.
fn is_plain_absolute(path: &Path) -> bool {
    use std::path::Component::{Normal, RootDir};
    let plain = path.components().all(|part| matches!(part, RootDir | Normal(_)));
    path.is_absolute() && plain && !path.as_os_str().as_encoded_bytes().contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(change: impl FnOnce(&mut serde_json::Value)) -> String {
        let mut json = serde_json::json!({
            "businessVersion": 1,
            "id": "acme",
            "projects": [{"id": "site", "root": "/srv/site"}],
            "checks": {"test": {"executable": "make", "arguments": ["test"]}},
        });
        change(&mut json);
        json.to_string()
    }

    #[test]
    fn a_small_file_gets_the_defaults() {
        let business = Business::parse("business.json", &text(|_| {})).expect("valid");
        assert_eq!(business.projects[&"site".parse::<Name>().expect("a name")], Path::new("/srv/site"));
        assert_eq!(business.checks[&"test".parse::<Name>().expect("a name")].timeout_seconds, 600);
    }

    #[test]
    fn every_wrong_value_is_refused_where_it_stands() {
        let cases: [(&str, &str, serde_json::Value); 9] = [
            ("businessVersion: 2 is not", "/businessVersion", 2.into()),
            ("projects[0].root: is not an absolute path", "/projects/0/root", "site".into()),
            ("projects[0].root: is not an absolute path", "/projects/0/root", "/srv/../etc".into()),
            ("projects[0].id: `Site` is not a name", "/projects/0/id", "Site".into()),
            ("checks.test.executable: must not be empty", "/checks/test/executable", "".into()),
            ("checks.test.executable: is neither", "/checks/test/executable", "bin/test".into()),
            ("checks.test.arguments: invalid type", "/checks/test/arguments", "test".into()),
            ("checks.test.executable: invalid type", "/checks/test/executable", 3.into()),
            ("id: `` is not a name", "/id", "".into()),
        ];
        for (expected, pointer, value) in cases {
            let text = text(|json| *json.pointer_mut(pointer).expect(pointer) = value);
            let message = Business::parse("business.json", &text).expect_err(expected).to_string();
            assert!(message.starts_with(&format!("business.json: {expected}")), "{message}");
        }
        for (expected, check) in [
            ("timeoutSeconds: is 4000; allowed", serde_json::json!({"executable": "a", "timeoutSeconds": 4000})),
            ("limits.timeoutSeconds: write", serde_json::json!({"executable": "a", "limits": {"timeoutSeconds": 3}})),
            ("shell: unknown field", serde_json::json!({"executable": "a", "shell": true})),
        ] {
            let text = text(|json| json["checks"]["test"] = check);
            let message = Business::parse("business.json", &text).expect_err(expected).to_string();
            assert!(message.starts_with(&format!("business.json: checks.test.{expected}")), "{message}");
        }
        let twice = text(|json| {
            let project = json["projects"][0].clone();
            json["projects"].as_array_mut().expect("a list").push(project);
        });
        let message = Business::parse("business.json", &twice).expect_err("refused").to_string();
        assert!(message.starts_with("business.json: projects[1].id: is the id of another project"), "{message}");
    }
}
