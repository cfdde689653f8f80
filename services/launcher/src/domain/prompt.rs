//! The system prompt: the contracts, then what governs this run.

use std::fmt::Write as _;

use mosaic_ids::Name;
use mosaic_record::{Project, Tool};

use crate::intake::MissionFile;

/// What every agent is told, in this order.
const CONTRACTS: [&str; 4] = [
    include_str!("../../contracts/1-place.md"),
    include_str!("../../contracts/2-permissions.md"),
    include_str!("../../contracts/3-answering.md"),
    include_str!("../../contracts/4-start-up.md"),
];

/// Most that prompt and request may have together, in bytes.
const BUDGET_BYTES: usize = 32 * 1024 * 1024;
/// Most that prompt and request may have together, in tokens.
const BUDGET_TOKENS: usize = 2_000_000;
/// Bytes of a token, on average over prose and code; tokenizers differ, the budget is a bound and no bill.
const BYTES_PER_TOKEN: usize = 4;

/// Contracts and request don't fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "system prompt and request have {bytes} bytes together; the budget is {BUDGET_TOKENS} tokens of about \
     {BYTES_PER_TOKEN} bytes, and {BUDGET_BYTES} bytes at most. Shorten the prompt, or put the material into the workspace"
)]
pub struct OverBudget {
    /// Bytes of both.
    pub bytes: usize,
}

/// The system prompt of a run. `projects` are those that it has a clone of, and those of them that are not as the session
/// left them.
///
/// # Errors
/// When it and the request exceed the budget.
pub fn compose(
    mission: Option<&MissionFile>,
    tools: &[Tool],
    projects: (&[Project], &[Name]),
    request: &str,
) -> Result<String, OverBudget> {
    let mut prompt = CONTRACTS.join("\n");
    prompt.push('\n');
    prompt.push_str(&projects_section(projects));
    prompt.push_str(&mission_section(mission, tools));
    let bytes = prompt.len() + request.len();
    if bytes > BUDGET_BYTES || bytes / BYTES_PER_TOKEN > BUDGET_TOKENS {
        return Err(OverBudget { bytes });
    }
    Ok(prompt)
}

/// Where the clones are, for an agent that was given some.
fn projects_section((projects, changed): (&[Project], &[Name])) -> String {
    if projects.is_empty() {
        return String::new();
    }
    let mut section = "# PROJECTS (runtime)\n\nYour working directory has a git clone of each project:\n".to_owned();
    for Project { id, .. } in projects {
        writeln!(section, "- project {id}: ./{id}").expect("a string takes all");
    }
    if !changed.is_empty() {
        let names = changed.iter().map(Name::as_str).collect::<Vec<_>>().join(", ");
        let what = "somebody else has changed what is in";
        writeln!(section, "\nSince the last turn of this session {what} {names}; look again before you rely on it.")
            .expect("a string takes all");
    }
    section.push('\n');
    section
}

fn mission_section(mission: Option<&MissionFile>, tools: &[Tool]) -> String {
    let mut section = "# MISSION (runtime)\n\n".to_owned();
    match mission {
        None => section.push_str("No mission governs this request.\n"),
        Some(mission) => {
            writeln!(section, "Objective: {}", mission.objective.as_str()).expect("a string takes all");
            for directive in mission.directives.iter().flatten() {
                writeln!(section, "- {}", directive.as_str()).expect("a string takes all");
            }
        }
    }
    let names = tools.iter().map(|tool| tool.as_str()).collect::<Vec<_>>().join(", ");
    let names = if names.is_empty() { "none" } else { &names };
    writeln!(section, "\nTools: {names}").expect("a string takes all");
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_ends_with_the_mission_and_its_directives() {
        let text = r#"{"missionVersion": 1, "id": "m", "objective": "Keep the site up", "directives": ["No new dependencies"]}"#;
        let mission: MissionFile = serde_json::from_str(text).expect("valid");
        let prompt = compose(Some(&mission), &[Tool::Read, Tool::Ls], (&[], &[]), "hi").expect("fits");
        let section = prompt.rsplit("# MISSION (runtime)").next().expect("there");
        assert_eq!(section, "\n\nObjective: Keep the site up\n- No new dependencies\n\nTools: read, ls\n");
        assert!(prompt.contains("MOSAIC_HELLO_OK"));
    }

    #[test]
    fn the_prompt_names_the_path_of_every_clone() {
        let project = Project { id: "site".parse().expect("a name"), root: "/srv/secret-place".into() };
        let prompt = compose(None, &[], (std::slice::from_ref(&project), &[]), "hi").expect("fits");
        assert!(prompt.contains("- project site: ./site\n"), "{prompt}");
        assert!(!prompt.contains("secret-place"), "where the root is concerns no agent");
        assert!(!prompt.contains("last turn"), "{prompt}");
        let changed = ["site".parse().expect("a name")];
        let prompt = compose(None, &[], (&[project], &changed), "hi").expect("fits");
        assert!(prompt.contains("somebody else has changed what is in site; look again"), "{prompt}");
    }

    #[test]
    fn a_request_over_the_budget_is_refused() {
        compose(None, &[], (&[], &[]), &"x".repeat(7_900_000)).expect("fits");
        compose(None, &[], (&[], &[]), &"x".repeat(8_100_000)).expect_err("too many tokens");
    }
}
