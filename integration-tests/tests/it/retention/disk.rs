//! With too little free disk nothing is launched, and it is said what would help.

use nix::sys::statvfs::statvfs;
use serde_json::json;

use crate::installation_with;

/// Bytes that are free where the tests work.
fn free() -> u64 {
    let there = statvfs("/tmp").expect("a file system");
    there.blocks_available() * there.fragment_size()
}

#[test]
fn a_run_is_refused_below_the_mark_and_says_what_is_free() {
    let mosaic = installation_with(|config| config["retention"] = json!({ "diskLowBytes": free() * 2 }));
    let task = mosaic.task("echo hi", |task| task["workspace"] = json!(":run"));
    let refused = mosaic.mosaic(&["run", "--json", &task]).expect(5).json();
    let of = |key: &str| refused[key].as_str().unwrap_or_default().to_owned();
    assert_eq!((of("status"), of("reason"), of("step")), ("refused".into(), "disk-low".into(), "disk".into()));
    let message = refused["warnings"][0].as_str().expect("a message");
    for part in [" are free where the data root is", "`retention.diskLowBytes`", "no retention rule is configured: see"]
    {
        assert!(message.contains(part), "{message}");
    }
    let run = mosaic.data().join("runs").join(of("runId"));
    assert!(!run.join("workspace").exists() && !run.join("bundle").exists(), "nothing was made");
    assert!(run.join("result.json").exists(), "but it is on the record");
}

#[test]
fn a_refusal_says_what_a_prune_would_free() {
    let rules = json!({ "diskLowBytes": free() * 2, "records": { "count": 1 } });
    let mosaic = installation_with(|config| config["retention"] = rules);
    let task = mosaic.task("echo hi", |_| {});
    let refused = || mosaic.mosaic(&["run", &task]).expect(5).stderr;
    assert!(refused().contains("by the rules in `retention` nothing can go yet"));
    mosaic.end_host();
    refused();
    mosaic.end_host();
    // The host that starts now prunes by itself; either it has or it would.
    let said = refused();
    assert!(said.contains("`mosaic prune` would free ") || said.contains("nothing can go yet"), "{said}");
}

#[test]
fn far_below_the_mark_nothing_is_recorded_either() {
    let mosaic = installation_with(|config| config["retention"] = json!({ "diskLowBytes": free() * 100 }));
    let refused = mosaic.mosaic(&["run", &mosaic.task("echo hi", |_| {})]).expect(2);
    assert!(refused.stderr.contains("(disk-low)") && refused.stderr.contains("hint: "), "{refused:?}");
    assert_eq!(mosaic.mosaic(&["list", "--json"]).expect(0).stdout, "");
}

#[test]
fn a_mark_of_zero_switches_it_off() {
    let mosaic = installation_with(|config| config["retention"] = json!({ "diskLowBytes": 0 }));
    assert_eq!(mosaic.record(&mosaic.task("echo hi", |_| {}), &[])["status"], "succeeded");
}
