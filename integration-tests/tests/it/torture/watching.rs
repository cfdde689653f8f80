//! Watching with interruptions, and many who want the same.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use mosaic_integration_tests::{Chance, Leftovers, Operator};
use serde_json::{Value, json};

use super::SOON;
use super::host::{host, until_it_serves};
use super::load::task;
use super::scene::{launch, until_over, until_running};
use crate::installation;

/// How often a watcher is cut off.
const CUTS: usize = 50;

/// What a watcher that is cut off again and again has seen, all in all.
#[derive(Debug, Default)]
struct Seen {
    /// Events by sequence.
    events: BTreeMap<i64, Value>,
    /// What was written to standard output, as far as it is known without a gap.
    output: String,
}

impl Seen {
    /// Takes one line of `mosaic watch --json`; what was seen before has to say the same.
    fn take(&mut self, line: &str) {
        let line: Value = serde_json::from_str(line).expect("JSON");
        if let Some(sequence) = line["sequence"].as_i64() {
            let before = self.events.insert(sequence, line.clone());
            assert!(before.is_none_or(|before| before == line), "{line}");
        } else if line["stream"] == "stdout" {
            let offset = usize::try_from(line["offset"].as_i64().expect("an offset")).expect("a position");
            let text = line["text"].as_str().expect("text");
            assert!(offset <= self.output.len(), "a gap before {offset}");
            let known = &self.output[offset..];
            let common = known.len().min(text.len());
            assert_eq!(known[..common], text[..common], "at {offset}");
            self.output.push_str(&text[common..]);
        }
    }

    /// Where to go on.
    fn next(&self) -> i64 {
        self.events.keys().last().map_or(0, |last| last + 1)
    }
}

#[test]
fn a_watcher_that_is_cut_off_fifty_times_sees_everything_once_and_in_order() {
    let mut chance = Chance::of_this_run();
    let mosaic = installation();
    let mut host = host(&mosaic);
    until_it_serves(&mosaic, &mut host);
    let operator = Operator::of(&mosaic.data());
    let mut endless = task("i=0; while [ ! -e go ]; do i=$((i+1)); echo line $i; sleep 0.02; done; echo end");
    endless["workspace"] = json!("watched");
    let run = launch(&operator, "watched", &endless);
    until_running(&operator, &run);
    let mut seen = Seen::default();
    for _ in 0..CUTS {
        let mut watcher = mosaic.start(&["watch", "--json", "--from", &seen.next().to_string(), &run]);
        let lines = BufReader::new(watcher.stdout.take().expect("piped")).lines();
        for line in lines.take(usize::try_from(chance.below(6)).expect("a few")) {
            seen.take(&line.expect("UTF-8"));
        }
        watcher.kill().expect("ours");
        watcher.wait().expect("ours");
    }
    std::fs::write(mosaic.data().join("workspaces/watched/go"), "").expect("written");
    let last = mosaic.mosaic(&["watch", "--json", "--from", &seen.next().to_string(), &run]).expect(0);
    last.stdout.lines().for_each(|line| seen.take(line));

    let record = until_over(&operator, &run, SOON);
    assert_eq!(seen.output.trim_end(), record["response"].as_str().expect("a response"));
    let recorded: Vec<i64> = operator.events(&run).expect("events").iter().map(|event| event.sequence).collect();
    assert_eq!(seen.events.keys().copied().collect::<Vec<_>>(), recorded);
    Leftovers::of(&mosaic.data()).expect_clean(&[host.pid()], SOON);
}

#[test]
fn twenty_launches_of_one_workspace_are_twenty_runs_one_after_the_other() {
    let mosaic = installation();
    let mut host = host(&mosaic);
    until_it_serves(&mosaic, &mut host);
    let mut one = task("[ ! -e busy ] || exit 3; touch busy; echo x >>log; sleep 0.02; rm busy; wc -l <log");
    one["workspace"] = json!("one");
    let runs: Vec<String> = std::thread::scope(|scope| {
        let launches: Vec<_> = (0..20)
            .map(|number| {
                let (operator, task) = (Operator::of(&mosaic.data()), &one);
                // Each twice: the second answer may have been the first one that arrived.
                scope.spawn(move || {
                    let name = format!("launch-{number}");
                    let run = launch(&operator, &name, task);
                    assert_eq!(launch(&operator, &name, task), run);
                    run
                })
            })
            .collect();
        launches.into_iter().map(|launch| launch.join().expect("launched")).collect()
    });
    let operator = Operator::of(&mosaic.data());
    let mut lines: Vec<u32> = runs
        .iter()
        .map(|run| {
            let record = until_over(&operator, run, Duration::from_secs(60));
            assert_eq!(record["status"], "succeeded", "{record}");
            record["response"].as_str().expect("a number").trim().parse().expect("a number")
        })
        .collect();
    lines.sort_unstable();
    assert_eq!(lines, (1..=20).collect::<Vec<u32>>(), "every run was alone, and ran once");
    let leftovers = Leftovers::of(&mosaic.data());
    leftovers.expect_recorded(&operator, SOON);
    leftovers.expect_clean(&[host.pid()], SOON);
}
