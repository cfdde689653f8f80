//! A removal that a crash interrupted is finished later.

use mosaic_data_root::{Credentials, DataRoot, Service};
use mosaic_integration_tests::{Installation, wait_for};
use mosaic_proto::broker::v1 as broker;
use mosaic_proto::broker::v1::retention_service_client::RetentionServiceClient;
use mosaic_rpc::Dial;
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use super::{NOW, SOON, directory, gone, installation, listed, prune, ran};

/// Records the removal of a part of a run, and removes nothing: as a launcher does that dies right after.
fn record_only(mosaic: &Installation, run: &str, part: broker::RunPart) {
    let root = DataRoot::open(&mosaic.data()).expect("a data root");
    let token = Credentials::of(&root).service(Service::Launcher).expect("a token");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let channel = Dial::new(&root, Service::Broker, &token).channel();
        let request =
            broker::PruneRunRequest { run_id: run.to_owned(), part: part.into(), freed_bytes: 1, archive: None };
        RetentionServiceClient::new(channel).prune_run(request).await.expect("recorded");
    });
}

fn kill_host(mosaic: &Installation) {
    let pid = mosaic.host_pid().expect("a host");
    kill(pid, Signal::SIGKILL).expect("killed");
    wait_for("its end", SOON, || kill(pid, None).is_err().then_some(()));
}

#[test]
fn files_of_a_run_that_is_recorded_as_removed_go_at_the_next_start() {
    let mosaic = installation();
    let (first, second) = (ran(&mosaic, "echo a", |_| {}), ran(&mosaic, "echo b", |_| {}));
    record_only(&mosaic, &first, broker::RunPart::Record);
    mosaic.mosaic(&["ledger", "verify", "--repair"]).expect(0);
    kill_host(&mosaic);
    mosaic.mosaic(&["list"]).expect(0);
    wait_for("the rest of the removal", SOON, || (!directory(&mosaic, &first).exists()).then_some(()));
    wait_for("the cut", SOON, || (listed(&mosaic) == [second.clone()]).then_some(()));
    mosaic.mosaic(&["ledger", "verify"]).expect(0);
    assert!(directory(&mosaic, &second).join("result.json").exists());
}

#[test]
fn a_part_that_was_noted_goes_when_its_removal_is_recorded_and_stays_when_not() {
    let mosaic = installation();
    let (recorded, not) = (ran(&mosaic, "echo a", |_| {}), ran(&mosaic, "echo b", |_| {}));
    record_only(&mosaic, &recorded, broker::RunPart::Output);
    kill_host(&mosaic);
    let notes = mosaic.data().join("state/launcher/removing");
    std::fs::create_dir_all(&notes).expect("made");
    for run in [&recorded, &not] {
        std::fs::write(notes.join(format!("{run}.output")), "").expect("written");
    }
    mosaic.mosaic(&["list"]).expect(0);
    wait_for("the notes to be done", SOON, || std::fs::read_dir(&notes).expect("there").next().is_none().then_some(()));
    assert!(!directory(&mosaic, &recorded).join("stdout.txt").exists());
    assert!(directory(&mosaic, &not).join("stdout.txt").exists());
}

#[test]
fn a_host_that_is_killed_while_it_removes_loses_nothing_of_a_workspace() {
    let mosaic = installation();
    let script = "i=0; while [ $i -lt 20000 ]; do echo $i >f$i; i=$((i+1)); done";
    let run = ran(&mosaic, script, |task| task["workspace"] = json!(":run"));
    let of = directory(&mosaic, &run);
    let mut pruning = mosaic.start(&["prune", NOW[0], NOW[1], "--only", "workspaces"]);
    let left = || std::fs::read_dir(of.join("workspace")).map_or(0, Iterator::count);
    wait_for("the removal to begin", SOON, || (left() < 20_000).then_some(()));
    kill_host(&mosaic);
    pruning.wait().expect("ends");

    mosaic.mosaic(&["list"]).expect(0);
    wait_for("the rest of the removal", SOON, || (!of.join("workspace").exists()).then_some(()));
    let record: Value = mosaic.mosaic(&["show", "--json", &run]).json();
    let archive = &record["pruned"][0]["archive"];
    let count = "test $(tar -tzf workspace.tar.gz | grep -c /f) = 20000 && sha256sum <workspace.tar.gz";
    let output = std::process::Command::new("sh").args(["-c", count]).current_dir(&of).output().expect("sh runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said.split(' ').next(), archive["digest"].as_str(), "{record}");
    assert_eq!(gone(&prune(&mosaic, &NOW)), [format!("record {run}")]);
    mosaic.mosaic(&["ledger", "verify"]).expect(0);
}
