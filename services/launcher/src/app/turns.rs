//! Turns of a session: what the last one left in the workspace that the next one finds.

use mosaic_ids::{Name, RunId};
use mosaic_record::{HarvestFailure, HarvestState, ProjectCheckout, Refusal, RunRecord, Workspace};
use mosaic_rpc::{Reason, RpcError};

use super::App;
use super::prepare::{Places, Step, StepFailed};
use crate::peers::persist;

/// Most turns whose records are read.
const TURNS: usize = 16;

/// What the last harvested run of a session left in its workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    run: RunId,
    session: Name,
    workspace: Name,
    /// Projects whose clones were there at its end, with the identity of the tree, where that is known.
    clones: Vec<(Name, Option<String>)>,
}

impl Left {
    /// What `record` says; `None` when it was not harvested. With `then_unknown`, what is in the clones is not known any more.
    fn of(record: &RunRecord, (session, workspace): (&Name, &Name), then_unknown: bool) -> Option<Self> {
        let harvest = record.harvest.as_ref().filter(|harvest| harvest.state != HarvestState::Pending)?;
        let there = harvest.projects.iter().filter(|of| of.failure != Some(HarvestFailure::WorkspaceMissing));
        let clones = there.map(|of| {
            let tree = of.work.as_ref().map(|work| work.tree.clone());
            (of.project.clone(), tree.filter(|_| !then_unknown))
        });
        let (session, workspace) = (session.clone(), workspace.clone());
        Some(Self { run: record.run_id.clone(), session, workspace, clones: clones.collect() })
    }

    /// Projects that a run finds otherwise than they were left.
    pub(super) fn changed(&self, found: &[ProjectCheckout]) -> Vec<Name> {
        let differs = |checkout: &&ProjectCheckout| {
            let left = self.clones.iter().find(|(project, _)| *project == checkout.project);
            let left = left.and_then(|(_, tree)| tree.as_ref());
            // What can't be told on one side is no change.
            left.zip(checkout.tree.as_ref()).is_some_and(|(left, found)| left != found)
        };
        found.iter().filter(differs).map(|checkout| checkout.project.clone()).collect()
    }

    /// The refusal when the workspace is gone.
    pub(super) fn workspace_missing(&self) -> StepFailed {
        self.missing(&format!("the workspace `{}` is gone", self.workspace))
    }

    /// Checks that every clone which was left is there.
    ///
    /// # Errors
    /// When one of them is missing: the session remembers work that is not there.
    pub(super) fn check_clones(&self, is_missing: impl Fn(&Name) -> bool) -> Result<(), StepFailed> {
        match self.clones.iter().find(|(project, _)| is_missing(project)) {
            None => Ok(()),
            Some((project, _)) => {
                let workspace = &self.workspace;
                Err(self.missing(&format!("the clone of project `{project}` in the workspace `{workspace}` is gone")))
            }
        }
    }

    fn missing(&self, what: &str) -> StepFailed {
        let message = format!(
            "{what}; session `{}` has worked in it, last by run `{}`\n\
             hint: put it back, or use another session name to begin anew",
            self.session, self.run
        );
        StepFailed::new(Refusal::WorkspaceMissing, message)
    }
}

impl App {
    /// What the session of a run left in the named workspace of that run; `None` for a run without either, and for a session
    /// that is new.
    ///
    /// # Errors
    /// What the broker answers.
    pub(super) async fn left_by_session(&self, places: &Places) -> Result<Option<Left>, RpcError> {
        let (Some(session), Some(Workspace::Named(workspace))) = (&places.spec.session, &places.spec.workspace) else {
            return Ok(None);
        };
        if places.is_missing(Step::Session) {
            return Ok(None);
        }
        let mut later = false;
        let turns = persist(|| self.inner.broker.newest_turns(session)).await?;
        let in_it = turns.into_iter().filter(|turn| turn.ran && turn.run_id != places.run_id);
        for turn in in_it.filter(|turn| turn.workspace == workspace.as_str()).take(TURNS) {
            let record = match persist(|| self.inner.broker.get(&turn.run_id)).await {
                Ok((_, record, _)) => record,
                // It was pruned meanwhile.
                Err(error) if error.reason == Reason::NotFound => continue,
                Err(error) => return Err(error),
            };
            if let Some(left) = Left::of(&record, (session, workspace), later) {
                return Ok(Some(left));
            }
            later = true;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(project: &str, tree: Option<&str>) -> ProjectCheckout {
        let json = serde_json::json!({ "project": project, "verdict": "checkout-kept" });
        let checkout: ProjectCheckout = serde_json::from_value(json).expect("a checkout");
        ProjectCheckout { tree: tree.map(str::to_owned), ..checkout }
    }

    fn left() -> Left {
        let name = |text: &str| -> Name { text.parse().expect("a name") };
        Left {
            run: "r-1".parse().expect("a run id"),
            session: name("talk"),
            workspace: name("w"),
            clones: vec![(name("site"), Some("1".to_owned())), (name("shop"), None)],
        }
    }

    #[test]
    fn a_project_has_changed_when_both_trees_are_known_and_differ() {
        for (project, tree, changed) in [
            ("site", Some("1"), false),
            ("site", Some("2"), true),
            ("site", None, false),
            ("shop", Some("2"), false),
            ("other", Some("2"), false),
        ] {
            assert_eq!(!left().changed(&[found(project, tree)]).is_empty(), changed, "{project} {tree:?}");
        }
    }

    #[test]
    fn a_clone_that_was_left_and_is_gone_is_a_refusal_with_what_to_do() {
        left().check_clones(|_| false).expect("all are there");
        let refused = left().check_clones(|project| project.as_str() == "shop").expect_err("it is gone");
        assert_eq!(refused.refusal, Refusal::WorkspaceMissing);
        for part in ["`shop`", "`w`", "`talk`", "`r-1`", "hint: put it back, or use another session name"] {
            assert!(refused.message.contains(part), "{}", refused.message);
        }
    }
}
