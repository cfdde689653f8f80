use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mosaic_ids::Name;

use crate::{IntakeError, parse};

/// The only version of the business file that is known.
const VERSION: u32 = 1;
/// Most projects of a business.
const PROJECTS: usize = 256;

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
        Ok(Self {
            projects: file.projects.into_iter().map(|project| (project.id, project.root)).collect(),
            id: file.id,
        })
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
        });
        change(&mut json);
        json.to_string()
    }

    #[test]
    fn a_small_file_is_read() {
        let business = Business::parse("business.json", &text(|_| {})).expect("valid");
        assert_eq!(business.projects[&"site".parse::<Name>().expect("a name")], Path::new("/srv/site"));
    }

    #[test]
    fn every_wrong_value_is_refused_where_it_stands() {
        let cases: [(&str, &str, serde_json::Value); 5] = [
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
