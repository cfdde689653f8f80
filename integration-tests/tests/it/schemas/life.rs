//! Documents that Mosaic writes: what the types write, the schemas take.

use std::collections::BTreeSet;

use mosaic_record::{Actor, EventMeta, LedgerEvent, Limits, RunEvent, RunRecord, RunSpec};
use serde_json::{Value, json};

use super::Validator;
use super::published::published;

fn spec() -> Value {
    json!({
        "taskId": "t", "missionId": "m",
        "task": {"name": "task.json", "content": "{}"}, "mission": {"name": "mission.json", "content": "{}"},
        "request": "2 + 2?", "expectExact": "4", "tools": ["read", "bash"], "workspace": ":run", "session": "s",
        "adapter": "mock", "provider": "anthropic", "model": "m", "mockResponse": "4", "synthetic": true,
        "backend": "bubblewrap", "limits": Limits::default(), "noWait": false, "retriedFrom": "r-1",
        "notes": ["tool-free-by-policy"], "warnings": ["w"],
        "projects": [{"id": "site", "root": "/srv/site"}],
        "check": {
            "name": "unit", "executable": "/usr/bin/make", "arguments": ["test"], "of": "r-1",
            "project": {"id": "site", "root": "/srv/site"}, "branch": "main", "commit": "2".repeat(40), "bundle": "b",
            "bundleDigest": "a".repeat(64),
        },
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    })
}

/// One event of every kind.
fn events() -> Vec<Value> {
    let digest = "0".repeat(64);
    vec![
        json!({"kind": "run.queued", "requestId": "demo-1", "spec": spec()}),
        json!({"kind": "run.claimed", "holder": "launcher-1", "epoch": 1}),
        json!({"kind": "run.preparing", "epoch": 1}),
        json!({
            "kind": "run.step", "epoch": 1, "step": "bundle", "state": "done",
            "facts": {
                "workspaceRoot": "/srv/w", "bundleDigest": digest, "waitsFor": "workspace:site",
                "notes": ["workspace-changed"],
                "checkouts": [{
                    "project": "site", "verdict": "checkout-kept", "reason": "dirty", "detail": "d", "branch": "main",
                    "base": "1".repeat(40), "tip": "2".repeat(40), "tree": "3".repeat(40),
                    "distrusted": [{"what": "hook", "at": "`.git/hooks/pre-commit`"}],
                }],
            },
        }),
        json!({
            "kind": "run.running", "sandbox": "r-1-0a",
            "containment": {
                "backend": "bubblewrap", "uid": 65532, "ownRoot": true, "noNetwork": true, "syscallFilter": true,
                "limits": {"memoryBytes": "cgroup-v2", "openFiles": "rlimit"},
            },
        }),
        json!({"kind": "run.activity", "at": "2026-01-02T03:04:05.678Z", "latencyMs": 7, "source": "stdout"}),
        json!({"kind": "run.cancel-requested"}),
        json!({"kind": "run.output", "stdoutBytes": 2, "stderrBytes": 0, "dropped": 0}),
        json!({"kind": "run.turn-done"}),
        json!({"kind": "run.ending", "reason": "cancelled"}),
        json!({
            "kind": "run.ended", "status": "failed", "reason": "expect-mismatch", "notes": ["lingered"],
            "warnings": ["w"], "exitCode": 0, "signal": 9, "response": "5", "responseTruncated": false,
            "output": {"stdoutBytes": 2, "stderrBytes": 0, "dropped": 0, "stdoutDigest": digest, "stderrDigest": digest},
            "durationMs": 12,
        }),
        json!({"kind": "run.harvested", "epoch": 1, "harvest": {"state": "failed", "projects": [harvested(), {
            "project": "shop", "failure": "workspace-missing", "detail": "gone",
        }]}}),
        json!({"kind": "run.integrated", "integration": {
            "project": "site", "branch": "main", "onto": "1".repeat(40), "tip": "2".repeat(40), "tree": "3".repeat(40),
            "checks": [{"name": "unit", "runId": "r-2", "passed": true}],
        }}),
        json!({"kind": "run.refused", "reason": "disk-low", "step": "workspace", "message": "full"}),
        json!({"kind": "run.cancelled"}),
        json!({"kind": "run.lost"}),
        json!({
            "kind": "run.pruned", "part": "workspace", "freedBytes": 4096,
            "archive": {"name": "workspace.tar.gz", "digest": "a".repeat(64), "sizeBytes": 99},
        }),
        json!({"kind": "run.kept", "kept": true}),
    ]
}

/// Work that was taken out of one project.
fn harvested() -> Value {
    let file = |name: &str| json!({"name": format!("harvest/site/{name}"), "digest": "a".repeat(64), "sizeBytes": 9});
    json!({
        "project": "site",
        "work": {
            "base": "1".repeat(40), "commit": "2".repeat(40), "tree": "3".repeat(40), "files": 1, "added": 2, "removed": 3,
            "flags": 4, "patch": file("work.patch"), "bundle": file("work.bundle"), "handoff": file("handoff.json"),
            "leftOut": [{"reason": "over-limit", "count": 5, "first": "large"}],
        },
        "distrusted": [{"what": "config", "at": "core.fsmonitor"}],
    })
}

/// One of each that happens to the ledger.
fn ledger_events() -> [Value; 2] {
    [
        json!({"kind": "session.pruned", "session": "talk", "freedBytes": 4096}),
        json!({
            "kind": "ledger.checkpoint", "sequence": 9, "hash": "a".repeat(64), "retainedEvents": 4,
            "retainedDigest": "b".repeat(64), "removedEvents": 5, "removedRuns": 1, "previous": "c".repeat(64),
            "publicKey": "d".repeat(64), "signature": "e".repeat(128),
        }),
    ]
}

#[test]
fn every_event_that_is_written_fits_its_schema() {
    let schema = Validator::of("event.json");
    for sample in events() {
        let event: RunEvent = serde_json::from_value(sample.clone()).expect("an event");
        let written = serde_json::to_value(&event).expect("an event serializes");
        assert_eq!(written, sample);
        schema.check(&written).unwrap_or_else(|error| panic!("{written}: {error}"));
    }
    for sample in ledger_events() {
        let event: LedgerEvent = serde_json::from_value(sample.clone()).expect("an event");
        let written = serde_json::to_value(&event).expect("an event serializes");
        assert_eq!(written, sample);
        schema.check(&written).unwrap_or_else(|error| panic!("{written}: {error}"));
    }
    for wrong in [json!({"kind": "run.paused"}), json!({"kind": "run.claimed"}), json!({"epoch": 1})] {
        schema.check(&wrong).expect_err("refused");
    }
}

#[test]
fn the_samples_have_every_kind_of_event() {
    let schema = published().into_iter().find(|schema| schema.file == "event.json").expect("published").schema;
    let kinds = |of: &str| schema.as_value()["$defs"][of]["oneOf"].as_array().expect("a choice of events");
    let known: BTreeSet<_> = [kinds("RunEvent"), kinds("LedgerEvent")]
        .into_iter()
        .flatten()
        .map(|event| event["properties"]["kind"]["const"].to_string())
        .collect();
    let sampled: BTreeSet<_> = events().iter().chain(&ledger_events()).map(|event| event["kind"].to_string()).collect();
    assert_eq!(sampled, known);
}

#[test]
fn every_state_of_a_record_fits_its_schema() {
    let schema = Validator::of("record.json");
    let meta = EventMeta {
        time: "2026-01-02T03:04:05.678Z".parse().expect("a time"),
        actor: Actor::Operator,
        trace_id: Some("0af7651916cd43dd8448eb211c80319c".to_owned()),
    };
    let run_id = "r-20260102T030405678Z-4f9a0c1b2d".parse().expect("an id");
    let mut record: Option<RunRecord> = None;
    for sample in events() {
        let event: RunEvent = serde_json::from_value(sample).expect("an event");
        let over = record.as_ref().is_some_and(|record| record.status.is_terminal());
        use RunEvent::{Harvested, Integrated, Kept, Pruned};
        if over && !matches!(event, Kept { .. } | Pruned(_) | Harvested { .. } | Integrated { .. }) {
            continue;
        }
        let next = RunRecord::fold(record, &run_id, &meta, &event).expect("allowed");
        let written = serde_json::to_value(&next).expect("a record serializes");
        schema.check(&written).unwrap_or_else(|error| panic!("after {}: {error}", event.kind()));
        record = Some(next);
    }
    assert!(record.expect("a record").status.is_terminal());
}

#[test]
fn a_spec_that_is_written_fits_its_schema() {
    let schema = Validator::of("run-spec.json");
    let spec: RunSpec = serde_json::from_value(spec()).expect("a spec");
    schema.check(&serde_json::to_value(&spec).expect("a spec serializes")).expect("fits");
    schema.check(&json!({"taskId": "t"})).expect_err("refused");
}
