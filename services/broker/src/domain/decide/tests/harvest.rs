use mosaic_record::{CheckoutVerdict, Harvest, HarvestFailure, ProjectCheckout, ProjectHarvest, Pruned, RunPart};

use super::*;

/// A run that is prepared and has a clone.
fn with_clone() -> Desk {
    let mut desk = Desk::prepared();
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
    let facts = StepFacts { checkouts: vec![checkout], ..StepFacts::default() };
    let step = Change::Step { epoch: 1, step: "checkouts".to_owned(), state: StepState::Done, facts };
    desk.change(step).expect("checked out");
    desk
}

/// A run that has ended, and whose work is still in its clone.
fn ended_run() -> Desk {
    let mut desk = with_clone();
    desk.report(1, &[(1, ended())]).expect("ended");
    desk.actor = "service:launcher".parse().expect("actor");
    desk
}

fn harvested(epoch: i64, projects: &[&str], detail: &str) -> Change {
    let project = |name: &&str| ProjectHarvest {
        project: name.parse().expect("name"),
        work: None,
        failure: Some(HarvestFailure::WorkspaceMissing),
        detail: Some(detail.to_owned()),
        distrusted: vec![],
    };
    let harvest = Harvest::of(projects.iter().map(project).collect());
    Change::Harvested { epoch, harvest, bytes: 0 }
}

#[test]
fn a_harvest_is_recorded_once_and_the_same_again_is_acknowledged() {
    let mut desk = ended_run();
    let first = desk.change(harvested(1, &["site"], "gone")).expect("recorded");
    assert_eq!((kinds(&first), first.run.summary().harvest_pending), (vec!["run.harvested"], false));
    assert_eq!(kinds(&desk.change(harvested(1, &["site"], "gone")).expect("again")), Vec::<&str>::new());
    assert_eq!(refusal(desk.change(harvested(1, &["site"], "other"))), Refusal::InvalidRequest);
    desk.change(Change::Release { epoch: 1 }).expect("given back");
    assert_eq!(kinds(&desk.change(harvested(1, &["site"], "gone")).expect("again")), Vec::<&str>::new());
}

#[test]
fn a_harvest_names_the_projects_of_its_run() {
    let mut desk = ended_run();
    for projects in [&[][..], &["other"], &["site", "site"], &["site", "other"]] {
        assert_eq!(refusal(desk.change(harvested(1, projects, ""))), Refusal::InvalidRequest, "{projects:?}");
    }
    desk.change(harvested(1, &["site"], "")).expect("recorded");
}

#[test]
fn a_run_that_is_not_over_or_has_no_clone_is_not_harvested() {
    let mut without = Desk::prepared();
    without.report(1, &[(1, ended())]).expect("ended");
    for mut desk in [with_clone(), without] {
        assert_eq!(refusal(desk.change(harvested(1, &["site"], ""))), Refusal::InvalidRequest);
        assert_eq!(refusal(desk.change(harvested(1, &[], ""))), Refusal::InvalidRequest);
    }
}

#[test]
fn whoever_takes_a_run_over_that_awaits_its_harvest_fences_whoever_had_it() {
    let mut desk = ended_run();
    assert_eq!(refusal(desk.change(Change::Claim { holder: holder("b") })), Refusal::Superseded);
    desk.live = false;
    let claimed = desk.change(Change::Claim { holder: holder("b") }).expect("its lease has expired");
    assert_eq!((kinds(&claimed), claimed.run.epoch), (vec!["run.claimed"], 2));
    assert_eq!(refusal(desk.change(harvested(1, &["site"], ""))), Refusal::StaleLease);
    assert_eq!(refusal(desk.change(harvested(3, &["site"], ""))), Refusal::StaleLease);
    desk.change(harvested(2, &["site"], "")).expect("recorded");
    assert_eq!(kinds(&desk.change(Change::Claim { holder: holder("c") }).expect("it is over")), Vec::<&str>::new());
}

#[test]
fn a_lease_that_was_given_back_harvests_nothing() {
    let mut desk = ended_run();
    desk.change(Change::Release { epoch: 1 }).expect("given back");
    assert_eq!(refusal(desk.change(harvested(1, &["site"], ""))), Refusal::StaleLease);
    desk.change(Change::Claim { holder: holder("a") }).expect("free");
    desk.change(harvested(2, &["site"], "")).expect("recorded");
}

#[test]
fn nothing_of_a_run_is_removed_before_its_harvest() {
    let mut desk = ended_run();
    let prune = || Change::Prune(Pruned { part: RunPart::Workspace, freed_bytes: 7, archive: None });
    let denial = desk.change(prune()).expect_err("its work is in there");
    assert!(matches!(denial, Denial::HarvestPending { .. }), "{denial}");
    assert_eq!(denial.kind(), DenialKind::Refused(Refusal::InvalidRequest));
    assert_eq!(kinds(&desk.change(Change::Cancel).expect("it is over")), Vec::<&str>::new());
    desk.change(Change::Keep { kept: true }).expect("kept");
    desk.change(Change::Keep { kept: false }).expect("no longer");
    desk.change(harvested(1, &["site"], "")).expect("recorded");
    desk.change(prune()).expect("removed");
}

#[test]
fn a_run_ends_with_its_harvest() {
    let mut desk = ended_run();
    assert_eq!(desk.run.as_ref().expect("a run").end_sequence, None);
    desk.change(Change::Keep { kept: true }).expect("kept");
    let run = desk.change(harvested(1, &["site"], "")).expect("recorded").run;
    assert_eq!(run.end_sequence, Some(run.last_sequence));
}
