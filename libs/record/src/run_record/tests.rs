use super::*;
use crate::{Document, EndReason, Outcome, Refusal, StepFacts};

fn meta() -> EventMeta {
    EventMeta { time: Timestamp::UNIX_EPOCH, actor: Actor::Operator, trace_id: None }
}

fn run_id() -> RunId {
    "r-test".parse().expect("run id")
}

fn spec() -> RunSpec {
    RunSpec {
        task_id: "t".parse().expect("name"),
        mission_id: None,
        task: Document { name: "task.json".into(), content: "{}".into() },
        mission: None,
        request: "do it".into(),
        expect_exact: None,
        tools: vec![],
        workspace: None,
        session: None,
        adapter: "mock".parse().expect("name"),
        provider: None,
        model: None,
        mock_response: None,
        synthetic: true,
        backend: Backend::Host,
        limits: Limits::default(),
        no_wait: false,
        retried_from: None,
        notes: vec![],
        warnings: vec![],
        traceparent: None,
    }
}

fn one_of_each() -> Vec<RunEvent> {
    let containment = Containment {
        backend: Backend::Host,
        uid: 1,
        own_root: false,
        no_network: false,
        syscall_filter: false,
        limits: BTreeMap::new(),
    };
    let outcome = Outcome {
        status: RunStatus::Failed,
        reason: Some(EndReason::TimedOut),
        notes: vec![],
        warnings: vec![],
        exit_code: None,
        signal: Some(9),
        response: None,
        response_truncated: false,
        output: Output::default(),
        duration_ms: Some(1),
    };
    vec![
        RunEvent::Queued { request_id: "q".parse().expect("id"), spec: Box::new(spec()) },
        RunEvent::Claimed { holder: "h".parse().expect("id"), epoch: 1 },
        RunEvent::Preparing { epoch: 1 },
        RunEvent::Step { epoch: 1, step: "bundle".into(), state: StepState::Done, facts: StepFacts::default() },
        RunEvent::Refused { reason: Refusal::DiskLow, step: "workspace".into(), message: "m".into() },
        RunEvent::CancelRequested {},
        RunEvent::Cancelled {},
        RunEvent::Running { sandbox: "r-test-1".into(), containment },
        RunEvent::Activity(Activity { at: Timestamp::UNIX_EPOCH, latency_ms: 1, source: ActivitySource::Stdout }),
        RunEvent::Output(Output::default()),
        RunEvent::TurnDone {},
        RunEvent::Ending { reason: EndReason::TimedOut },
        RunEvent::Ended(Box::new(outcome)),
        RunEvent::Lost {},
    ]
}

fn after(events: &[RunEvent]) -> RunRecord {
    let folded =
        events.iter().try_fold(None, |record, event| RunRecord::fold(record, &run_id(), &meta(), event).map(Some));
    folded.expect("legal").expect("at least one event")
}

#[test]
fn a_terminal_record_takes_nothing_more() {
    let all = one_of_each();
    for last in [4, 6] {
        let terminal = after(&[all[0].clone(), all[last].clone()]);
        assert!(terminal.status.is_terminal());
        for event in &all {
            RunRecord::fold(Some(terminal.clone()), &run_id(), &meta(), event).expect_err(event.kind());
        }
    }
    let lost = after(&[all[0].clone(), all[2].clone(), all[13].clone()]);
    assert_eq!((lost.status, lost.reason.as_deref()), (RunStatus::Lost, Some("runner-lost")));
    let ended = after(&[all[0].clone(), all[2].clone(), all[7].clone(), all[12].clone()]);
    assert_eq!(ended.reason.as_deref(), Some("timed-out"));
    for event in &all {
        RunRecord::fold(Some(lost.clone()), &run_id(), &meta(), event).expect_err(event.kind());
        RunRecord::fold(Some(ended.clone()), &run_id(), &meta(), event).expect_err(event.kind());
    }
}

#[test]
fn only_the_first_event_makes_a_run() {
    for event in one_of_each().iter().skip(1) {
        RunRecord::fold(None, &run_id(), &meta(), event).expect_err(event.kind());
    }
}

#[test]
fn a_queued_run_can_not_run_before_it_was_prepared() {
    let all = one_of_each();
    RunRecord::fold(Some(after(&all[..1])), &run_id(), &meta(), &all[7]).expect_err("not prepared");
}

#[test]
fn every_event_survives_json_and_names_its_kind() {
    for event in one_of_each() {
        let json = serde_json::to_value(&event).expect("serializes");
        assert_eq!(json["kind"], event.kind());
        assert_eq!(serde_json::from_value::<RunEvent>(json).expect("parses"), event);
    }
}
