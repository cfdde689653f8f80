use super::*;
use crate::{HarvestFailure, ProjectHarvest};

fn checked_out() -> RunEvent {
    let checkout = ProjectCheckout {
        project: "site".parse().expect("name"),
        verdict: CheckoutVerdict::Cloned,
        reason: None,
        detail: None,
        branch: None,
        base: None,
        tip: None,
        tree: None,
        distrusted: vec![],
    };
    let facts = StepFacts { checkouts: vec![checkout], notes: vec![Note::WorkspaceChanged], ..StepFacts::default() };
    RunEvent::Step { epoch: 1, step: "checkouts".into(), state: StepState::Done, facts }
}

/// A run with a clone, after these more of [`one_of_each`].
fn with_clone(more: &[usize]) -> RunRecord {
    let all = one_of_each();
    let mut events = vec![all[0].clone(), all[2].clone(), checked_out()];
    events.extend(more.iter().map(|&at| all[at].clone()));
    after(&events)
}

fn harvested() -> RunEvent {
    let project = ProjectHarvest {
        project: "site".parse().expect("name"),
        work: None,
        failure: Some(HarvestFailure::WorkspaceMissing),
        detail: None,
        distrusted: vec![],
    };
    RunEvent::Harvested { epoch: 2, harvest: Harvest::of(vec![project]) }
}

fn states() -> [(&'static str, RunRecord, bool); 7] {
    let ended_without = after(&[0, 2, 7, 12].map(|at| one_of_each()[at].clone()));
    [
        ("queued", after(&one_of_each()[..1]), false),
        ("preparing", with_clone(&[]), false),
        ("running", with_clone(&[7]), false),
        ("refused", with_clone(&[4]), false),
        ("cancelled before it ran", with_clone(&[5, 6]), false),
        ("ended without a clone", ended_without, false),
        ("ended", with_clone(&[7, 12]), true),
    ]
}

#[test]
fn a_run_that_ran_in_clones_awaits_its_harvest_and_no_other_does() {
    for (name, record, awaits) in states() {
        assert_eq!(record.awaits_harvest(), awaits, "{name}");
        assert_eq!(record.harvest.is_some(), awaits, "{name}");
        assert_eq!(then(&record, &harvested()).is_ok(), awaits, "{name}");
    }
    // What became of it is not known; it may have worked all the same.
    for lost in [with_clone(&[13]), with_clone(&[7, 13])] {
        assert_eq!((lost.status, lost.awaits_harvest()), (RunStatus::Lost, true));
    }
}

#[test]
fn what_a_step_has_noted_is_in_the_record() {
    assert_eq!(with_clone(&[7, 12]).notes, [Note::WorkspaceChanged]);
}

#[test]
fn a_run_is_harvested_once_and_never_as_pending() {
    let ended = with_clone(&[7, 12]);
    let pending = RunEvent::Harvested { epoch: 1, harvest: Harvest::pending() };
    then(&ended, &pending).expect_err("that is no result");
    let record = then(&ended, &harvested()).expect("harvested");
    assert_eq!(record.harvest.as_ref().map(|harvest| harvest.state), Some(HarvestState::Failed));
    assert_eq!((record.status, record.finished_at), (ended.status, ended.finished_at));
    then(&record, &harvested()).expect_err("it is done");
}

#[test]
fn a_run_that_awaits_its_harvest_is_claimed_and_kept_and_neither_stopped_nor_removed() {
    let all = one_of_each();
    let ended = with_clone(&[7, 12]);
    for event in &all {
        // The harvest among them names no project; which it has to name is the broker's to say.
        let allowed = matches!(event, RunEvent::Claimed { .. } | RunEvent::Kept { .. } | RunEvent::Harvested { .. });
        assert_eq!(then(&ended, event).is_ok(), allowed, "{}", event.kind());
    }
    let record = then(&ended, &harvested()).expect("harvested");
    for event in &all {
        let allowed = matches!(event, RunEvent::Kept { .. } | RunEvent::Pruned(_));
        assert_eq!(then(&record, event).is_ok(), allowed, "{}", event.kind());
    }
}

#[test]
fn a_harvest_is_done_when_every_project_has_its_work() {
    let RunEvent::Harvested { harvest, .. } = harvested() else { unreachable!("it is one") };
    assert_eq!(harvest.state, HarvestState::Failed);
    assert_eq!(Harvest::of(vec![]).state, HarvestState::Done);
}
