use super::*;

fn metadata(extra: &str) -> Metadata {
    let text = format!(r#"{{"adapterVersion": 1, "description": "d", "usesModel": false{extra}}}"#);
    Metadata::parse("adapter.json", &text).expect("valid")
}

fn limits() -> Limits {
    Limits {
        timeout_seconds: 100,
        no_activity_seconds: 20,
        stop_grace_seconds: 5,
        linger_seconds: 10,
        ..Limits::default()
    }
}

fn turn(extra: &str) -> Turn {
    Turn::new(&metadata(extra), &limits())
}

const MARKED: &str = r#", "turnMarker": "optional""#;

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn the_wall_limit_asks_first_and_kills_when_the_grace_is_over() {
    let mut turn = turn("");
    assert_eq!(turn.take(Happening::Time, at(99)), []);
    let ending = [Act::ReportEnding(EndReason::TimedOut), Act::Terminate];
    assert_eq!(turn.take(Happening::Time, at(100)), ending);
    assert_eq!(turn.deadline(), Some(at(105)));
    assert_eq!(turn.take(Happening::Time, at(104)), []);
    assert_eq!(turn.take(Happening::Time, at(105)), [Act::Kill]);
    assert_eq!(turn.deadline(), None);
    assert_eq!(turn.result(), TurnResult { cause: Some(EndReason::TimedOut), ..TurnResult::default() });
}

#[test]
fn a_stop_is_heard_once_and_an_exit_within_the_grace_keeps_its_status() {
    let mut turn = turn("");
    let ending = [Act::ReportEnding(EndReason::Cancelled), Act::Terminate];
    assert_eq!(turn.take(Happening::StopAsked, at(3)), ending);
    assert_eq!(turn.take(Happening::StopAsked, at(4)), []);
    assert_eq!(turn.take(Happening::Exited(Exit::Code(0)), at(6)), []);
    assert_eq!(turn.take(Happening::Time, at(8)), [Act::Kill], "the shim took too long to tidy up");
    let result = turn.result();
    assert_eq!((result.exit, result.cause), (Some(Exit::Code(0)), Some(EndReason::Cancelled)));
}

#[test]
fn after_its_marker_an_adapter_lingers_and_never_times_out() {
    let mut turn = turn(MARKED);
    assert_eq!(turn.take(Happening::TurnDone, at(95)), [Act::ReportTurnDone]);
    assert_eq!(turn.take(Happening::TurnDone, at(96)), []);
    assert_eq!(turn.take(Happening::Time, at(101)), [], "the wall limit is for the turn");
    assert_eq!(turn.take(Happening::Time, at(105)), [Act::Kill]);
    assert_eq!(turn.result(), TurnResult { has_marker: true, lingered: true, ..TurnResult::default() });
}

#[test]
fn a_stop_while_it_lingers_only_ends_the_lingering() {
    let mut turn = turn(MARKED);
    turn.take(Happening::TurnDone, at(1));
    assert_eq!(turn.take(Happening::StopAsked, at(2)), [Act::Kill]);
    assert_eq!(turn.result().cause, None);
}

#[test]
fn a_marker_counts_only_where_the_adapter_declares_one_and_does_not_undo_a_stop() {
    let mut undeclared = turn("");
    assert_eq!(undeclared.take(Happening::TurnDone, at(1)), []);
    assert!(!undeclared.result().has_marker);

    let mut stopped = turn(MARKED);
    stopped.take(Happening::StopAsked, at(1));
    assert_eq!(stopped.take(Happening::TurnDone, at(2)), [Act::ReportTurnDone]);
    assert_eq!(stopped.take(Happening::Time, at(6)), [Act::Kill]);
    assert_eq!(stopped.result().cause, Some(EndReason::Cancelled));
}

#[test]
fn the_first_activity_counts_once_with_its_source() {
    let reported = |source, seconds| [Act::ReportActivity { latency: at(seconds), source }];
    let mut plain = turn("");
    assert_eq!(plain.take(Happening::FirstByte, at(2)), reported(ActivitySource::Stdout, 2));
    assert_eq!(plain.take(Happening::Activity, at(3)), []);

    let mut declared = turn(r#", "activity": "adapter""#);
    assert_eq!(declared.take(Happening::FirstByte, at(2)), [], "only the token counts");
    assert_eq!(declared.take(Happening::Activity, at(3)), reported(ActivitySource::Adapter, 3));
}

#[test]
fn silence_of_the_model_is_a_limit_only_where_a_source_is_declared() {
    assert_eq!(turn("").deadline(), Some(at(100)));
    let mut declared = turn(r#", "activity": "adapter""#);
    assert_eq!(declared.deadline(), Some(at(20)));
    assert_eq!(declared.take(Happening::Time, at(20))[0], Act::ReportEnding(EndReason::NoActivity));

    let mut active = turn(r#", "activity": "adapter""#);
    active.take(Happening::Activity, at(19));
    assert_eq!(active.take(Happening::Time, at(20)), []);
    assert_eq!(active.deadline(), Some(at(100)));
}

#[test]
fn an_end_that_is_heard_late_is_judged_by_when_it_was() {
    let mut in_time = turn("");
    assert_eq!(in_time.take(Happening::Exited(Exit::Code(0)), at(99)), []);
    assert_eq!(in_time.take(Happening::Time, at(300)), [Act::Kill], "only what the shim tidies up is late");
    assert_eq!((in_time.result().exit, in_time.result().cause), (Some(Exit::Code(0)), None));

    let mut late = turn("");
    let ending = [Act::ReportEnding(EndReason::TimedOut), Act::Terminate];
    assert_eq!(late.take(Happening::Exited(Exit::Code(0)), at(101)), ending);
    assert_eq!(late.result().cause, Some(EndReason::TimedOut));

    let mut marked = turn(MARKED);
    assert_eq!(marked.take(Happening::TurnDone, at(101)), [&ending[..], &[Act::ReportTurnDone]].concat());
    assert_eq!(marked.result().cause, Some(EndReason::TimedOut));
}

#[test]
fn a_fork_bomb_gets_no_grace() {
    let mut turn = turn("");
    let acts = turn.take(Happening::ProcessLimit, at(1));
    assert_eq!(acts, [Act::ReportEnding(EndReason::ProcessLimit), Act::Kill]);
    assert_eq!(turn.take(Happening::ProcessLimit, at(2)), []);
    assert_eq!(turn.take(Happening::Exited(Exit::Code(0)), at(2)), [], "what is told after the kill does not count");
    assert_eq!(turn.result().exit, None);
}

#[test]
fn a_sandbox_that_says_nothing_more_is_killed() {
    let mut turn = turn("");
    assert_eq!(turn.take(Happening::Silence, at(1)), [Act::Kill]);
    assert_eq!(turn.result(), TurnResult::default());
}
