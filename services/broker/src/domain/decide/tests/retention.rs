use mosaic_record::{Pruned, RunPart};

use super::*;

const NOTHING: [&str; 0] = [];

fn pruned(part: RunPart) -> Change {
    Change::Prune(Pruned { part, freed_bytes: 7, archive: None })
}

/// A run that has ended.
fn ended_run() -> Desk {
    let mut desk = Desk::prepared();
    desk.report(1, &[(1, ended())]).expect("ended");
    desk.actor = Actor::Operator;
    desk
}

#[test]
fn a_run_is_kept_in_every_state_and_once() {
    for mut desk in [Desk::with_run(), Desk::prepared(), ended_run()] {
        assert_eq!(kinds(&desk.change(Change::Keep { kept: false }).expect("it is not")), NOTHING);
        assert_eq!(kinds(&desk.change(Change::Keep { kept: true }).expect("kept")), ["run.kept"]);
        assert_eq!(kinds(&desk.change(Change::Keep { kept: true }).expect("again")), NOTHING);
        assert_eq!(kinds(&desk.change(Change::Keep { kept: false }).expect("no longer")), ["run.kept"]);
    }
}

#[test]
fn a_part_of_a_terminal_run_is_removed_once_and_everything_includes_it() {
    for mut desk in [Desk::with_run(), Desk::prepared()] {
        assert_eq!(refusal(desk.change(pruned(RunPart::Output))), Refusal::InvalidRequest);
    }
    let mut desk = ended_run();
    assert_eq!(kinds(&desk.change(pruned(RunPart::Output)).expect("removed")), ["run.pruned"]);
    assert_eq!(kinds(&desk.change(pruned(RunPart::Output)).expect("again")), NOTHING);
    let all = desk.change(pruned(RunPart::Record)).expect("removed");
    assert_eq!((kinds(&all), all.run.summary().record_pruned), (vec!["run.pruned"], true));
    for &part in RunPart::ALL {
        assert_eq!(kinds(&desk.change(pruned(part)).expect("it is gone")), NOTHING, "{part}");
    }
}

#[test]
fn nothing_of_a_kept_run_is_removed_and_the_answer_says_how_it_could_be() {
    let mut desk = ended_run();
    desk.change(pruned(RunPart::Output)).expect("removed");
    desk.change(Change::Keep { kept: true }).expect("kept");
    assert_eq!(kinds(&desk.change(pruned(RunPart::Output)).expect("it was gone before")), NOTHING);
    let denial = desk.change(pruned(RunPart::Record)).expect_err("kept");
    assert_eq!(denial.kind(), DenialKind::Refused(Refusal::NotPermitted));
    let run_id = desk.run.as_ref().expect("a run").id().clone();
    assert!(denial.to_string().contains(&format!("`mosaic keep --undo {run_id}`")), "{denial}");
    desk.change(Change::Keep { kept: false }).expect("no longer");
    desk.change(pruned(RunPart::Record)).expect("removed");
}

#[test]
fn a_run_that_is_removed_can_not_be_kept() {
    let mut desk = ended_run();
    desk.change(pruned(RunPart::Record)).expect("removed");
    assert_eq!(refusal(desk.change(Change::Keep { kept: true })), Refusal::InvalidRequest);
    assert_eq!(kinds(&desk.change(Change::Keep { kept: false }).expect("it is not")), NOTHING);
}

#[test]
fn where_a_run_ended_does_not_move_with_what_is_kept_and_removed_afterwards() {
    let mut desk = ended_run();
    let end = desk.run.as_ref().expect("a run").end_sequence;
    desk.change(Change::Keep { kept: true }).expect("kept");
    let run = desk.change(Change::Keep { kept: false }).expect("no longer").run;
    assert_eq!((run.end_sequence, run.last_sequence), (end, end.expect("ended") + 2));
}

#[test]
fn a_clock_that_is_set_back_makes_no_time_negative() {
    let two_hours = std::time::Duration::from_secs(7200);
    for back_at in 0..4 {
        let mut desk = Desk::with_run();
        let turn = |at, desk: &mut Desk| {
            if at == back_at {
                desk.now = desk.now.checked_sub(two_hours).expect("within range");
            }
        };
        turn(0, &mut desk);
        desk.change(Change::Claim { holder: holder("a") }).expect("claimed");
        turn(1, &mut desk);
        desk.change(Change::Prepare { epoch: 1 }).expect("prepared");
        turn(2, &mut desk);
        desk.report(1, &[(1, running())]).expect("running");
        turn(3, &mut desk);
        let record = desk.report(1, &[(2, ended())]).expect("ended").run.record;
        assert!(record.started_at >= Some(record.created_at), "{back_at}");
        assert!(record.finished_at >= record.started_at, "{back_at}");
    }
}
