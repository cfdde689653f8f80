use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mosaic_ids::Name;

use crate::{IntakeError, LimitsPatch, parse};

/// The only version of the business file that is known.
const VERSION: u32 = 1;
/// Most projects of a business.
const PROJECTS: usize = 256;
/// Most checks of a business.
const CHECKS: usize = 32;
/// How long a check may take when nobody says otherwise, and at most, in seconds.
const CHECK_SECONDS: u64 = 600;
const CHECK_SECONDS_CAP: u64 = 3600;
/// Most arguments of a check, and their bytes.
const ARGUMENTS: usize = 256;
const ARGUMENTS_BYTES: usize = 64 * 1024;

/// `business.json` as it is written: what agents work on.
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
    /// Programs that say whether work is good, by name.
    #[serde(default)]
    pub checks: BTreeMap<Name, CheckFile>,
}

/// A check as it is written.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckFile {
    /// The program: an absolute path, as the sandbox sees it. It runs in the top directory of a fresh clone.
    #[schemars(extend("pattern" = "^/"))]
    pub executable: PathBuf,
    /// Its arguments, as they are: no shell reads them.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// How long it may take, in seconds; 600 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: Option<u64>,
    /// Limits that are not the configuration's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsPatch>,
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

/// A business, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Business {
    /// Its id.
    pub id: Name,
    /// Root of each project.
    pub projects: BTreeMap<Name, PathBuf>,
    /// Its checks.
    pub checks: BTreeMap<Name, Check>,
}

/// A check, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The program.
    pub executable: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How long it may take, in seconds.
    pub timeout_seconds: u64,
    /// Limits that are not the configuration's.
    pub limits: Option<LimitsPatch>,
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
        if file.checks.len() > CHECKS {
            return wrong("checks".to_owned(), &format!("has more than {CHECKS} checks"));
        }
        let checks = file.checks.into_iter().map(|(name, check)| Ok((name.clone(), check.read(document, &name)?)));
        let checks: BTreeMap<Name, Check> = checks.collect::<Result<_, IntakeError>>()?;
        Ok(Self {
            checks,
            projects: file.projects.into_iter().map(|project| (project.id, project.root)).collect(),
            id: file.id,
        })
    }
}

impl CheckFile {
    fn read(self, document: &str, name: &Name) -> Result<Check, IntakeError> {
        let wrong = |key: &str, problem: &str| Err(IntakeError::new(document, format!("checks.{name}.{key}"), problem));
        let executable = match self.executable.to_str() {
            Some(text) if is_plain_absolute(&self.executable) => text.to_owned(),
            _ => return wrong("executable", "is not an absolute path without `.` and `..`"),
        };
        let bytes: usize = self.arguments.iter().map(String::len).sum();
        if self.arguments.len() > ARGUMENTS || bytes > ARGUMENTS_BYTES {
            return wrong("arguments", &format!("are more than {ARGUMENTS} or have more than {ARGUMENTS_BYTES} bytes"));
        }
        if self.arguments.iter().any(|argument| argument.contains('\0')) {
            return wrong("arguments", "must have no NUL");
        }
        let timeout_seconds = self.timeout_seconds.unwrap_or(CHECK_SECONDS);
        if !(1..=CHECK_SECONDS_CAP).contains(&timeout_seconds) {
            return wrong("timeoutSeconds", &format!("is {timeout_seconds}; allowed is 1 to {CHECK_SECONDS_CAP}"));
        }
        if let Some(limits) = &self.limits
            && let Err(over) = limits.apply(&mut mosaic_record::Limits::default())
        {
            return wrong("limits", &over.to_string());
        }
        if self.limits.as_ref().is_some_and(|limits| limits.names("timeoutSeconds")) {
            return wrong("limits.timeoutSeconds", "is `timeoutSeconds` of the check itself");
        }
        Ok(Check { executable, arguments: self.arguments, timeout_seconds, limits: self.limits })
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
            "checks": {"unit": {"executable": "/usr/bin/make", "arguments": ["test"]}},
        });
        change(&mut json);
        json.to_string()
    }

    #[test]
    fn a_small_file_is_read() {
        let business = Business::parse("business.json", &text(|_| {})).expect("valid");
        assert_eq!(business.projects[&"site".parse::<Name>().expect("a name")], Path::new("/srv/site"));
        let check = &business.checks[&"unit".parse::<Name>().expect("a name")];
        assert_eq!((check.executable.as_str(), check.timeout_seconds), ("/usr/bin/make", 600));
    }

    #[test]
    fn every_wrong_value_is_refused_where_it_stands() {
        let cases: [(&str, &str, serde_json::Value); 9] = [
            ("checks.unit.executable: is not an absolute", "/checks/unit/executable", "make".into()),
            ("checks.unit.arguments: must have no NUL", "/checks/unit/arguments", vec!["\0"].into()),
            ("checks.unit.arguments: are more than 256", "/checks/unit/arguments", vec!["x"; 257].into()),
            (
                "checks.unit.timeoutSeconds: is 3601; allowed is 1 to 3600",
                "/checks/unit",
                serde_json::json!({"executable": "/bin/true", "timeoutSeconds": 3601}),
            ),
            ("businessVersion: 2 is not", "/businessVersion", 2.into()),
            ("projects[0].root: is not an absolute path", "/projects/0/root", "site".into()),
            ("projects[0].root: is not an absolute path", "/projects/0/root", "/srv/../etc".into()),
            ("projects[0].id: `Site` is not a name", "/projects/0/id", "Site".into()),
            ("id: `` is not a name", "/id", "".into()),
        ];
        for (expected, pointer, value) in cases {
            let text = text(|json| *json.pointer_mut(pointer).expect(pointer) = value);
            let message = Business::parse("business.json", &text).expect_err(expected).to_string();
            assert!(message.starts_with(&format!("business.json: {expected}")), "{message}");
        }
        let twice = text(|json| {
            let project = json["projects"][0].clone();
            json["projects"].as_array_mut().expect("a list").push(project);
        });
        let message = Business::parse("business.json", &twice).expect_err("refused").to_string();
        assert!(message.starts_with("business.json: projects[1].id: is the id of another project"), "{message}");
    }
}
