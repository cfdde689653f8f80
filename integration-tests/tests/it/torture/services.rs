//! Services that run apart, each killed alone at random instants under load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mosaic_data_root::Service;
use mosaic_integration_tests::{Apart, Chance, Leftovers, Operator, report, soak};

use super::load::{Load, Until};
use super::{RECOVERY, SOON};
use crate::installation;

/// People who launch at the same time.
const PEOPLE: usize = 2;

/// How long a service lives at most before it is killed.
const LONGEST_LIFE: Duration = Duration::from_millis(500);

/// How often the sandboxes are counted.
const COUNTED_EVERY: Duration = Duration::from_millis(50);

/// Kills `service` again and again.
fn survives_kills_of(service: Service) {
    let mut chance = Chance::of_this_run();
    let mut apart = Apart::start(installation());
    let (data, operator, load) = (apart.mosaic.data(), apart.operator(), Load::default());
    let mut leftovers = Leftovers::of(&data);
    let (kills, over) = (soak(200), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for person in 0..PEOPLE {
            let (load, chance, operator) = (&load, chance.of_part(), Operator::of(&data));
            scope.spawn(move || load.launch(&operator, &format!("person-{person}"), chance));
        }
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                expect_one_sandbox_a_run(&Leftovers::of(&data));
                std::thread::sleep(COUNTED_EVERY);
            }
        });
        let _over = (load.until_dropped(), Until(&over));
        for kill in 0..kills {
            // Half of the lives see a launch acknowledged first, the others may end before they have begun.
            if kill % 2 == 0 {
                apart.until_it_serves(service);
                load.launch_one(&operator, &format!("kill-{kill}"), &mut chance);
            }
            std::thread::sleep(chance.duration(LONGEST_LIFE));
            let process = apart.process(service);
            leftovers.killed(process.pid());
            process.kill();
            apart.begin(service);
        }
        apart.until_it_serves(service);
    });
    load.stop_all(&operator);
    leftovers.expect_recorded(&operator, RECOVERY * 4);
    let acknowledged = load.expect_all(&operator);
    leftovers.expect_clean(&apart.live(), RECOVERY);
    apart.end();
    leftovers.expect_clean(&[], SOON);
    report(&format!("{kills} kills of the {service}, {acknowledged} acknowledged launches"));
    assert!(acknowledged >= usize::try_from(kills / 2).expect("a count"));
}

fn expect_one_sandbox_a_run(leftovers: &Leftovers) {
    for (run, sandboxes) in leftovers.sandboxes() {
        assert_eq!(sandboxes.len(), 1, "{run} has more than one sandbox: {sandboxes:?}");
    }
}

#[test]
fn a_broker_that_is_killed_at_any_instant_loses_nothing_acknowledged_and_leaves_nothing() {
    survives_kills_of(Service::Broker);
}

#[test]
fn a_runner_that_is_killed_at_any_instant_loses_nothing_acknowledged_and_leaves_nothing() {
    survives_kills_of(Service::Runner);
}

#[test]
fn a_launcher_that_is_killed_at_any_instant_loses_nothing_acknowledged_and_leaves_nothing() {
    survives_kills_of(Service::Launcher);
}
