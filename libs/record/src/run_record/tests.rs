mod harvest;

use super::*;
use crate::{Document, EndReason, Outcome, Refusal, RunPart, StepFacts};

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
        projects: vec![],
        check: None,
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
        RunEvent::Harvested { epoch: 1, harvest: Harvest::of(vec![]) },
        RunEvent::Kept { kept: true },
        pruned(RunPart::Output),
    ]
}

fn pruned(part: RunPart) -> RunEvent {
    RunEvent::Pruned(Pruned { part, freed_bytes: 7, archive: None })
}

fn then(record: &RunRecord, event: &RunEvent) -> Result<RunRecord, IllegalEvent> {
    RunRecord::fold(Some(record.clone()), &run_id(), &meta(), event)
}

/// A run that was refused.
fn refused() -> RunRecord {
    let all = one_of_each();
    after(&[all[0].clone(), all[4].clone()])
}

fn after(events: &[RunEvent]) -> RunRecord {
    let folded =
        events.iter().try_fold(None, |record, event| RunRecord::fold(record, &run_id(), &meta(), event).map(Some));
    folded.expect("legal").expect("at least one event")
}

#[test]
fn a_terminal_record_takes_nothing_more_except_what_is_kept_and_removed_of_it() {
    let all = one_of_each();
    let ends: [&[usize]; 4] = [&[0, 4], &[0, 6], &[0, 2, 13], &[0, 2, 7, 12]];
    for end in ends {
        let terminal = after(&end.iter().map(|&at| all[at].clone()).collect::<Vec<_>>());
        assert!(terminal.status.is_terminal());
        for event in &all {
            let taken = then(&terminal, event).is_ok();
            assert_eq!(taken, matches!(event, RunEvent::Kept { .. } | RunEvent::Pruned(_)), "{}", event.kind());
        }
    }
}

#[test]
fn the_end_of_a_run_says_why() {
    let all = one_of_each();
    let lost = after(&[all[0].clone(), all[2].clone(), all[13].clone()]);
    assert_eq!((lost.status, lost.reason.as_deref()), (RunStatus::Lost, Some("runner-lost")));
    let ended = after(&[all[0].clone(), all[2].clone(), all[7].clone(), all[12].clone()]);
    assert_eq!(ended.reason.as_deref(), Some("timed-out"));
}

#[test]
fn a_run_is_kept_in_every_state_and_nothing_of_it_is_removed_meanwhile() {
    for record in [after(&one_of_each()[..1]), refused()] {
        let kept = then(&record, &RunEvent::Kept { kept: true }).expect("kept");
        assert!(kept.kept);
        for &part in RunPart::ALL {
            then(&kept, &pruned(part)).expect_err("it is kept");
        }
        assert!(!then(&kept, &RunEvent::Kept { kept: false }).expect("no longer").kept);
    }
}

#[test]
fn a_part_is_removed_once_and_of_a_terminal_run() {
    then(&after(&one_of_each()[..1]), &pruned(RunPart::Output)).expect_err("it lives");
    let output = then(&refused(), &pruned(RunPart::Output)).expect("removed");
    assert!(output.is_pruned(RunPart::Output) && !output.is_pruned(RunPart::Workspace));
    then(&output, &pruned(RunPart::Output)).expect_err("it is gone");
    let all = then(&output, &pruned(RunPart::Record)).expect("removed");
    for &part in RunPart::ALL {
        assert!(all.is_pruned(part));
        then(&all, &pruned(part)).expect_err("everything is gone");
    }
    then(&all, &RunEvent::Kept { kept: true }).expect_err("nothing is left to keep");
    assert_eq!(all.pruned.len(), 2);
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
