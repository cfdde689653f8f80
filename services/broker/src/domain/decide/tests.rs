mod harvest;
mod retention;

use mosaic_ids::{RequestId, RunId};
use mosaic_record::{EndReason, Outcome, Output, Refusal, RunSpec, RunStatus, StepFacts, StepState};

use super::super::{DenialKind, NewRun, Report, request_digest};
use super::*;

/// One run and who works on it, without a store.
struct Desk {
    run: Option<Run>,
    live: bool,
    actor: Actor,
    now: Timestamp,
    next_sequence: i64,
}

fn spec(task: &str) -> Box<RunSpec> {
    let json = serde_json::json!({
        "taskId": task, "task": {"name": "task.json", "content": "{}"}, "request": "do it", "expectExact": "done",
        "tools": [], "adapter": "mock", "synthetic": true, "backend": "host",
        "limits": mosaic_record::Limits::default(), "noWait": false,
    });
    Box::new(serde_json::from_value(json).expect("a spec"))
}

fn creation(task: &str) -> Order {
    let request_id: RequestId = "q-1".parse().expect("id");
    let spec = spec(task);
    let digest = request_digest(&spec);
    let event = RunEvent::Queued { request_id: request_id.clone(), spec };
    let payload = serde_json::to_string(&event).expect("serializes");
    Order::Create(Box::new(NewRun { request_id, event, payload, digest, trace_id: Some("a".repeat(32)) }))
}

fn holder(name: &str) -> RequestId {
    name.parse().expect("id")
}

fn ended() -> RunEvent {
    RunEvent::Ended(Box::new(Outcome {
        status: RunStatus::Failed,
        reason: Some(EndReason::TimedOut),
        notes: vec![],
        warnings: vec![],
        exit_code: None,
        signal: None,
        response: None,
        response_truncated: false,
        output: Output::default(),
        duration_ms: None,
    }))
}

impl Desk {
    fn with_run() -> Self {
        let now = "2026-01-02T03:04:05Z".parse().expect("timestamp");
        let mut desk = Self { run: None, live: true, actor: Actor::Operator, now, next_sequence: 1 };
        desk.order(creation("t")).expect("created");
        desk
    }

    fn prepared() -> Self {
        let mut desk = Self::with_run();
        desk.change(Change::Claim { holder: holder("a") }).expect("claimed");
        desk.change(Change::Prepare { epoch: 1 }).expect("prepared");
        desk
    }

    fn order(&mut self, order: Order) -> Result<Decision, Denial> {
        let situation = Situation {
            run: self.run.clone(),
            lease_live: self.live,
            recorded_step: None,
            next_sequence: self.next_sequence,
            now: self.now,
            random: 7,
        };
        let decision = decide(situation, &Command { actor: self.actor.clone(), order })?;
        self.next_sequence += i64::try_from(decision.drafts.len()).expect("few");
        self.run = Some(decision.run.clone());
        Ok(decision)
    }

    fn change(&mut self, change: Change) -> Result<Decision, Denial> {
        let run_id = self.run.as_ref().expect("a run").id().clone();
        self.order(Order::Change { run_id, change })
    }

    fn report(&mut self, epoch: i64, numbered: &[(i64, RunEvent)]) -> Result<Decision, Denial> {
        self.actor = "service:runner".parse().expect("actor");
        let now = self.now;
        let reports =
            numbered.iter().map(|(number, event)| Report { number: *number, time: now, event: event.clone() });
        self.change(Change::Report { epoch, reports: reports.collect() })
    }

    fn status(&self) -> RunStatus {
        self.run.as_ref().expect("a run").record.status
    }
}

fn kinds(decision: &Decision) -> Vec<&'static str> {
    decision.drafts.iter().map(|draft| draft.kind).collect()
}

fn refusal(result: Result<Decision, Denial>) -> Refusal {
    match result.expect_err("refused").kind() {
        DenialKind::Refused(refusal) => refusal,
        DenialKind::NotFound => panic!("not found"),
    }
}

#[test]
fn a_repeated_creation_returns_the_run_and_a_different_one_is_refused() {
    let mut desk = Desk::with_run();
    let again = desk.order(creation("t")).expect("the same");
    assert_eq!((kinds(&again), again.sequence), (vec![], 1));
    assert_eq!(refusal(desk.order(creation("other"))), Refusal::InvalidRequest);
}

#[test]
fn what_may_be_megabytes_is_not_in_the_stored_record() {
    let run = Desk::with_run().run.expect("a run");
    assert_eq!((run.record.request.as_str(), run.record.expected_exact), ("", None));
}

#[test]
fn a_change_of_an_unknown_run_is_not_found() {
    let mut desk = Desk::with_run();
    desk.run = None;
    let run_id: RunId = "r-nobody".parse().expect("run id");
    let denial = desk.order(Order::Change { run_id, change: Change::Cancel }).expect_err("unknown");
    assert_eq!(denial.kind(), DenialKind::NotFound);
}

#[test]
fn a_live_lease_is_its_holders_and_an_expired_one_anybodys() {
    let mut desk = Desk::with_run();
    let claim = |name| Change::Claim { holder: holder(name) };
    assert_eq!(desk.change(claim("a")).expect("free").run.epoch, 1);
    assert_eq!(refusal(desk.change(claim("b"))), Refusal::Superseded);
    assert_eq!(desk.change(claim("a")).expect("its own").run.epoch, 2);
    desk.live = false;
    assert_eq!(desk.change(claim("b")).expect("expired").run.epoch, 3);
    for epoch in [0, 1, 2, 4] {
        assert_eq!(refusal(desk.change(Change::Renew { epoch })), Refusal::StaleLease, "epoch {epoch}");
        assert_eq!(refusal(desk.change(Change::Prepare { epoch })), Refusal::StaleLease, "epoch {epoch}");
        assert_eq!(refusal(desk.report(epoch, &[(1, ended())])), Refusal::StaleLease, "epoch {epoch}");
    }
}

#[test]
fn an_expired_lease_that_nobody_claimed_can_be_renewed_and_used() {
    let mut desk = Desk::with_run();
    desk.change(Change::Claim { holder: holder("a") }).expect("free");
    desk.live = false;
    assert_eq!(desk.change(Change::Renew { epoch: 1 }).expect("its own").lease, LeaseChange::Renew);
    desk.change(Change::Prepare { epoch: 1 }).expect("its own");
}

#[test]
fn a_lease_that_was_given_back_writes_nothing_and_is_free() {
    let mut desk = Desk::with_run();
    desk.change(Change::Claim { holder: holder("a") }).expect("free");
    assert!(desk.change(Change::Release { epoch: 1 }).expect("given back").save);
    assert!(!desk.change(Change::Release { epoch: 1 }).expect("again").save);
    assert_eq!(refusal(desk.change(Change::Prepare { epoch: 1 })), Refusal::StaleLease);
    assert_eq!(refusal(desk.change(Change::Renew { epoch: 1 })), Refusal::StaleLease);
    assert_eq!(desk.change(Change::Claim { holder: holder("b") }).expect("free").run.epoch, 2);
}

#[test]
fn a_terminal_run_is_not_granted_and_its_lease_can_be_kept_and_given_back() {
    let mut desk = Desk::prepared();
    desk.report(1, &[(1, ended())]).expect("ended");
    assert_eq!(kinds(&desk.change(Change::Claim { holder: holder("a") }).expect("answered")), Vec::<&str>::new());
    desk.change(Change::Renew { epoch: 1 }).expect("kept");
    desk.change(Change::Release { epoch: 1 }).expect("given back");
}

#[test]
fn a_preparation_is_begun_once_and_only_undone_under_another_epoch() {
    let mut desk = Desk::prepared();
    assert_eq!(kinds(&desk.change(Change::Prepare { epoch: 1 }).expect("again")), Vec::<&str>::new());
    desk.change(Change::Claim { holder: holder("a") }).expect("claimed again");
    assert_eq!(refusal(desk.change(Change::Prepare { epoch: 2 })), Refusal::InvalidRequest);
    let refuse = Change::Refuse {
        epoch: 2,
        reason: Refusal::Interrupted,
        step: "bundle".to_owned(),
        message: "the launcher was restarted".to_owned(),
    };
    assert_eq!(kinds(&desk.change(refuse.clone()).expect("refused")), ["run.refused"]);
    assert_eq!(kinds(&desk.change(refuse).expect("again")), Vec::<&str>::new());
}

#[test]
fn a_step_that_was_recorded_keeps_its_sequence() {
    let mut desk = Desk::prepared();
    let run = desk.run.take().expect("a run");
    let change =
        Change::Step { epoch: 1, step: "bundle".to_owned(), state: StepState::Done, facts: StepFacts::default() };
    let run_id = run.id().clone();
    let situation = Situation {
        run: Some(run),
        lease_live: true,
        recorded_step: Some(9),
        next_sequence: 20,
        now: desk.now,
        random: 0,
    };
    let command = Command { actor: Actor::Operator, order: Order::Change { run_id, change } };
    let decision = decide(situation, &command).expect("known");
    assert_eq!((decision.sequence, decision.drafts.len()), (9, 0));
}

#[test]
fn a_stop_ends_what_nobody_works_on_and_is_a_wish_otherwise() {
    let mut free = Desk::with_run();
    assert_eq!(kinds(&free.change(Change::Cancel).expect("free")), ["run.cancel-requested", "run.cancelled"]);
    assert_eq!(kinds(&free.change(Change::Cancel).expect("terminal")), Vec::<&str>::new());

    let mut held = Desk::with_run();
    held.change(Change::Claim { holder: holder("a") }).expect("claimed");
    assert_eq!(kinds(&held.change(Change::Cancel).expect("held")), ["run.cancel-requested"]);
    assert_eq!(kinds(&held.change(Change::Cancel).expect("again")), Vec::<&str>::new());
    held.live = false;
    assert_eq!(kinds(&held.change(Change::Cancel).expect("the holder is gone")), ["run.cancelled"]);

    let mut prepared = Desk::prepared();
    prepared.live = false;
    assert_eq!(kinds(&prepared.change(Change::Cancel).expect("prepared")), ["run.cancel-requested"]);
}

#[test]
fn a_cancellation_is_confirmed_by_the_holder_after_somebody_asked() {
    let mut desk = Desk::prepared();
    assert_eq!(refusal(desk.change(Change::ConfirmCancel { epoch: 1 })), Refusal::InvalidRequest);
    desk.change(Change::Cancel).expect("asked");
    assert_eq!(kinds(&desk.change(Change::ConfirmCancel { epoch: 1 }).expect("confirmed")), ["run.cancelled"]);
    assert_eq!(kinds(&desk.change(Change::ConfirmCancel { epoch: 1 }).expect("again")), Vec::<&str>::new());
}

#[test]
fn a_run_is_lost_once_and_only_after_its_preparation_began() {
    let mut queued = Desk::with_run();
    queued.change(Change::Claim { holder: holder("a") }).expect("claimed");
    assert_eq!(refusal(queued.change(Change::Lose { epoch: 1 })), Refusal::InvalidRequest);
    let mut desk = Desk::prepared();
    assert_eq!(kinds(&desk.change(Change::Lose { epoch: 1 }).expect("lost")), ["run.lost"]);
    assert_eq!(kinds(&desk.change(Change::Lose { epoch: 1 }).expect("again")), Vec::<&str>::new());
    assert_eq!(refusal(desk.report(1, &[(1, ended())])), Refusal::InvalidRequest);
}

#[test]
fn reports_are_taken_once_in_order_and_all_or_none() {
    let mut desk = Desk::prepared();
    let turn_done = RunEvent::TurnDone {};
    let running = running();
    assert_eq!(refusal(desk.report(1, &[(2, running.clone())])), Refusal::InvalidRequest, "a gap at the start");
    assert_eq!(refusal(desk.report(1, &[(0, running.clone())])), Refusal::InvalidRequest, "number zero");
    assert_eq!(refusal(desk.report(1, &[(1, running.clone()), (3, turn_done.clone())])), Refusal::InvalidRequest);
    assert_eq!(desk.status(), RunStatus::Preparing, "nothing of a refused call was taken");

    assert_eq!(kinds(&desk.report(1, &[(1, running.clone())]).expect("first")), ["run.running"]);
    let both = desk.report(1, &[(1, running), (2, turn_done.clone())]).expect("one known, one new");
    assert_eq!((kinds(&both), both.run.reported), (vec!["run.turn-done"], 2));
    let end = desk.report(1, &[(3, ended())]).expect("end");
    assert_eq!((kinds(&end), end.run.record.status), (vec!["run.ended"], RunStatus::Failed));
    assert_eq!(kinds(&desk.report(1, &[(3, ended())]).expect("known")), Vec::<&str>::new());
    assert_eq!(refusal(desk.report(1, &[(4, turn_done)])), Refusal::InvalidRequest);
}

#[test]
fn only_what_a_runner_sees_is_a_report() {
    let mut desk = Desk::prepared();
    for event in [RunEvent::Preparing { epoch: 1 }, RunEvent::Cancelled {}, RunEvent::Lost {}] {
        assert_eq!(refusal(desk.report(1, &[(1, event)])), Refusal::InvalidRequest);
    }
}

#[test]
fn a_runner_speaks_for_itself_or_for_the_session_of_its_run() {
    for (actor, allowed) in [
        ("service:runner", true),
        ("service:launcher", false),
        ("session:talk", true),
        ("session:other", false),
        ("operator", false),
    ] {
        let mut desk = Desk::prepared();
        desk.run.as_mut().expect("a run").record.session = Some("talk".parse().expect("name"));
        desk.actor = actor.parse().expect("actor");
        let reports = vec![Report { number: 1, time: desk.now, event: ended() }];
        let reported = desk.change(Change::Report { epoch: 1, reports });
        if allowed {
            reported.expect(actor);
        } else {
            assert_eq!(refusal(reported), Refusal::NotPermitted, "{actor}");
        }
    }
}

#[test]
fn a_runner_reports_on_after_its_launcher_gave_the_lease_back() {
    let mut desk = Desk::prepared();
    desk.change(Change::Release { epoch: 1 }).expect("given back");
    desk.report(1, &[(1, ended())]).expect("its epoch is in force");
}

#[test]
fn a_runners_clock_dates_nothing_before_its_run_or_after_its_acceptance() {
    let created: Timestamp = "2026-01-02T03:04:05Z".parse().expect("timestamp");
    for (reported, now, recorded) in [
        ("2026-01-02T03:04:06Z", "2026-01-02T03:04:07Z", "2026-01-02T03:04:06Z"),
        ("1970-01-01T00:00:00Z", "2026-01-02T03:04:07Z", "2026-01-02T03:04:05Z"),
        ("2099-01-01T00:00:00Z", "2026-01-02T03:04:07Z", "2026-01-02T03:04:07Z"),
        ("2026-01-02T03:04:06Z", "2001-01-01T00:00:00Z", "2026-01-02T03:04:05Z"),
    ] {
        let mut desk = Desk::prepared();
        desk.now = now.parse().expect("timestamp");
        desk.actor = "service:runner".parse().expect("actor");
        let time = reported.parse().expect("timestamp");
        let reports = vec![Report { number: 1, time, event: ended() }];
        let decision = desk.change(Change::Report { epoch: 1, reports }).expect("taken");
        assert_eq!(decision.run.record.created_at, created);
        assert_eq!(decision.drafts[0].time, recorded.parse().expect("timestamp"), "{reported} at {now}");
    }
}

fn running() -> RunEvent {
    let containment = serde_json::json!({
        "backend": "host", "uid": 1, "ownRoot": false, "noNetwork": false, "syscallFilter": false, "limits": {},
    });
    RunEvent::Running {
        sandbox: "s".to_owned(),
        containment: serde_json::from_value(containment).expect("a containment"),
    }
}
