//! The documents say what the code does.

use mosaic_record::{
    CheckoutVerdict, Distrust, EndReason, HarvestFailure, HarvestState, KeptReason, LIMITS, LeftOutReason, Note,
    Refusal, ReviewFlag, RunStatus, Tool,
};

fn document(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    std::fs::read_to_string(&path).expect(name)
}

#[test]
fn every_status_reason_refusal_and_note_is_documented() {
    let records = document("docs/records.md");
    let statuses = RunStatus::ALL.iter().map(|value| value.as_str());
    let reasons = EndReason::ALL.iter().map(|value| value.as_str());
    let refusals = Refusal::ALL.iter().map(|value| value.as_str());
    let notes = Note::ALL.iter().map(|value| value.as_str());
    let checkouts = document("docs/checkouts.md");
    let verdicts = CheckoutVerdict::ALL.iter().map(|value| value.as_str());
    for value in verdicts.chain(KeptReason::ALL.iter().map(|value| value.as_str())) {
        assert!(checkouts.contains(&format!("| `{value}` |")), "{value}");
    }
    let harvests = document("docs/harvest.md");
    let failures = HarvestFailure::ALL.iter().map(|value| value.as_str());
    for value in failures.chain(LeftOutReason::ALL.iter().map(|value| value.as_str())) {
        assert!(harvests.contains(&format!("| `{value}` |")), "{value}");
    }
    for value in ReviewFlag::ALL.iter().map(|value| value.as_str()).chain(["poisoned-object"]) {
        assert!(harvests.contains(&format!("`{value}`")), "{value}");
    }
    for value in Distrust::ALL.iter().filter(|value| **value != Distrust::PoisonedObject) {
        assert!(checkouts.contains(&format!("| `{value}` |")), "{value}");
    }
    for value in HarvestState::ALL {
        assert!(records.contains(&format!("| `{value}` |")), "{value}");
    }
    for value in statuses.chain(reasons).chain(refusals).chain(notes) {
        assert!(records.contains(&format!("| `{value}` |")), "{value}");
    }
}

#[test]
fn every_limit_and_tool_is_documented() {
    let tasks = document("docs/tasks.md");
    for limit in LIMITS {
        assert!(tasks.contains(&format!("`{}`", limit.key)), "{}", limit.key);
    }
    let tools = Tool::ALL.iter().map(|tool| tool.as_str()).collect::<Vec<_>>().join(" ");
    assert!(tasks.contains(&format!("`{tools}`")), "{tools}");
}

#[test]
fn links_between_the_documents_lead_somewhere() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let names = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "docs/adapters.md",
        "docs/benchmarks.md",
        "docs/checkouts.md",
        "docs/configuration.md",
        "docs/containment.md",
        "docs/grpc.md",
        "docs/harvest.md",
        "docs/security.md",
        "docs/hosting.md",
        "docs/records.md",
        "docs/tasks.md",
    ];
    for name in names {
        let text = document(name);
        let directory = root.join(name).parent().expect("a directory").to_owned();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
        for link in links.filter(|link| !link.contains("://")) {
            let file = link.split('#').next().unwrap_or_default();
            assert!(file.is_empty() || directory.join(file).exists(), "{name} links to {link}");
        }
    }
}
