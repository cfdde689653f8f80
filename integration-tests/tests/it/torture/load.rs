//! Runs of every kind, launched without a pause by several people while somebody else kills what serves them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mosaic_integration_tests::{Chance, Operator, wait_for};
use serde_json::{Value, json};

use super::SOON;

/// What the runs do: end at once, write much, leave children, ignore everything, or never end by themselves.
const SCRIPTS: [&str; 7] = [
    "echo short",
    "sleep 0.3; echo short",
    "head -c 3000000 /dev/zero | tr '\\0' x; echo e >&2",
    "setsid sleep 600 & setsid sh -c 'while :; do sleep 1; done' & sleep 0.2; echo parent",
    "for i in 1 2 3 4 5; do sleep 600 & done; wait",
    "trap '' TERM INT; while :; do sleep 1; done",
    "while :; do echo tick; sleep 0.05; done",
];

/// Those of them that end by themselves are the first few.
const ENDING: u64 = 4;

/// How many runs may be under way at once: the rest of the machine is for killing.
const LIVE: usize = 12;

/// Sets a flag when it is dropped, so that a panic ends the threads that look at it.
pub(super) struct Until<'a>(pub(super) &'a AtomicBool);

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A task for the adapter `scripted`.
pub(super) fn task(script: &str) -> Value {
    json!({ "taskVersion": 1, "id": "torture", "prompt": script, "timeoutSeconds": 600 })
}

/// What was launched, and what was said of it.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Run ids by request id: acknowledged launches.
    acknowledged: Mutex<BTreeMap<String, String>>,
    over: AtomicBool,
}

impl Load {
    /// Launches until it is over, each request again until it is answered.
    pub(super) fn launch(&self, operator: &Operator, name: &str, mut chance: Chance) {
        let mut own = VecDeque::new();
        for number in 0.. {
            let (request, task) = (format!("{name}-{number}"), any_task(&mut chance));
            loop {
                if self.over.load(Ordering::SeqCst) {
                    return;
                }
                if let Ok(run) = operator.launch(&request, &task) {
                    own.push_back(run.clone());
                    self.acknowledged.lock().expect("no panic").insert(request, run);
                    break;
                }
                std::thread::sleep(chance.duration(Duration::from_millis(20)));
            }
            while !self.over.load(Ordering::SeqCst) && operator.in_hand().is_ok_and(|runs| runs >= LIVE as i64) {
                // The oldest, whatever it is doing: over for long, as a rule, if it ends by itself.
                if let Some(run) = own.pop_front() {
                    let _answered_or_not = operator.stop(&run);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    /// Launches one run, and returns when that is acknowledged.
    #[track_caller]
    pub(super) fn launch_one(&self, operator: &Operator, request: &str, chance: &mut Chance) {
        let task = any_task(chance);
        let run = wait_for("a launch", SOON, || operator.launch(request, &task).ok());
        self.acknowledged.lock().expect("no panic").insert(request.to_owned(), run);
    }

    /// Nothing more is launched once this is dropped, also by a panic.
    pub(super) fn until_dropped(&self) -> Until<'_> {
        Until(&self.over)
    }

    /// Stops whatever does not end by itself.
    pub(super) fn stop_all(&self, operator: &Operator) {
        for run in operator.runs().expect("runs").iter().filter(|run| run.end_time.is_none()) {
            operator.stop(&run.run_id).expect("stopped");
        }
    }

    /// Every acknowledged launch is there, under the id that was acknowledged; says how many there are.
    pub(super) fn expect_all(&self, operator: &Operator) -> usize {
        let acknowledged = self.acknowledged.lock().expect("no panic");
        for (request, run) in acknowledged.iter() {
            let record =
                operator.record(run).unwrap_or_else(|error| panic!("{request} was acknowledged as {run}: {error}"));
            assert_eq!(record["runId"], run.as_str());
        }
        acknowledged.len()
    }
}

fn any_task(chance: &mut Chance) -> Value {
    // Most of them end by themselves: the others keep what they have until somebody ends them.
    let kinds = if chance.below(3) > 0 { ENDING } else { SCRIPTS.len() as u64 };
    let mut task = task(SCRIPTS[usize::try_from(chance.below(kinds)).expect("an index")]);
    match chance.below(6) {
        0 => task["workspace"] = json!(":run"),
        1 => task["workspace"] = json!(format!("shared-{}", chance.below(3))),
        2 => task["session"] = json!(format!("chat-{}", chance.below(3))),
        3 => {
            task["workspace"] = json!(format!("own-{}", chance.below(1_000_000)));
            task["session"] = json!(format!("own-{}", chance.below(1_000_000)));
        }
        _ => {}
    }
    task
}
