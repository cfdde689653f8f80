use mosaic_config::{IntakeError, Text, parse};
use mosaic_ids::Name;
use mosaic_record::Document;

use super::Capabilities;

/// The only version of the format that is known.
const VERSION: u32 = 1;

/// A mission: objective, directives and a tool ceiling that govern tasks.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MissionFile {
    /// Version of this format: 1.
    #[schemars(extend("const" = VERSION))]
    pub mission_version: u32,
    /// Its name.
    pub id: Name,
    /// What it is for.
    pub objective: Text,
    /// What its tasks must keep to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directives: Option<Vec<Text>>,
    /// What its tasks may use at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
}

impl MissionFile {
    /// Reads a mission.
    ///
    /// # Errors
    /// At the first thing that is wrong.
    pub fn parse(document: &Document) -> Result<Self, IntakeError> {
        super::check_envelope(document)?;
        let mission: Self = parse(&document.name, &document.content)?;
        if mission.mission_version != VERSION {
            let problem = format!("{} is not a known version; write {VERSION}", mission.mission_version);
            return Err(IntakeError::new(&document.name, "missionVersion", problem));
        }
        Ok(mission)
    }
}
