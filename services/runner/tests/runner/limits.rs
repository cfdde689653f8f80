use mosaic_record::{Backend, EndReason, Enforcement, RunEvent, RunStatus};

use crate::harness::{Finished, World, backends, has_bubblewrap};

fn enforced_by(finished: &Finished, key: &str) -> Enforcement {
    let Some(RunEvent::Running { containment, .. }) = finished.events.first() else { panic!("{finished:?}") };
    containment.limits[key]
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn has_group(key: &str) -> bool {
    let host = mosaic_runner::probe::host();
    let found = host.groups.iter().any(|(known, by)| *known == key && by.is_some());
    if !found {
        eprintln!("SKIPPED: no control group for {key} here");
    }
    found
}

/// Takes 300 MB of memory, slowly enough to be seen.
const HOG: &str = "perl -e 'my @a; push @a, \"x\" x 1_000_000 for 1..300; print scalar @a'";

#[tokio::test(flavor = "multi_thread")]
async fn want_of_memory_is_told_from_a_crash_with_limit_and_peak() {
    if !has_group("memoryBytes") {
        return;
    }
    let world = World::new().await;
    let limit = 64 << 20;
    for backend in backends() {
        for script in [format!("exec {HOG}"), format!("{HOG}; echo; echo fine; exit 0")] {
            let run = world.scripted(&script, backend, |launch| launch.limits.memory_bytes = limit);
            let finished = world.run(&run).await;
            assert_eq!(finished.outcome.status, RunStatus::Failed, "{finished:?}");
            assert_eq!(finished.outcome.reason, Some(EndReason::Oom), "{finished:?}");
            let warning = finished.outcome.warnings.join(" ");
            assert!(warning.contains(&format!("limit {limit} bytes, peak ")), "{warning}");
            assert!(matches!(enforced_by(&finished, "memoryBytes"), Enforcement::CgroupV1 | Enforcement::CgroupV2));
        }
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_ends_its_own_run_and_no_other() {
    if !has_group("processes") {
        return;
    }
    let world = World::new().await;
    for backend in backends() {
        let other = world.scripted("sleep 1; (echo still) | cat; echo here", backend, |_| {});
        world.start(&other, 1).await.expect("started");
        let bomb = world.scripted("b() { b | b & }; b; sleep 600", backend, |launch| launch.limits.processes = 64);
        let finished = world.run(&bomb).await;
        assert_eq!(finished.outcome.reason, Some(EndReason::ProcessLimit), "{finished:?}");
        let other = world.finished(&other).await;
        assert_eq!(other.outcome.response.as_deref(), Some("still\nhere"));
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_leave_no_zombie() {
    if !has_bubblewrap() {
        return;
    }
    let world = World::new().await;
    let count = 5000 / crate::output::soak_divisor();
    let script = format!(
        "perl -e 'for (1..{count}) {{ if (!fork) {{ exit 0 if fork; exit 0 }} wait }}'; sleep 0.5
         grep -c '^State:.Z' /proc/[0-9]*/status | grep -c ':1$'; ls -d /proc/[0-9]* | wc -l"
    );
    let run = world.scripted(&script, Backend::Bubblewrap, |_| {});
    let finished = world.run(&run).await;
    let response = finished.outcome.response.clone().expect("response");
    let (zombies, processes) = response.split_once('\n').expect("two lines");
    assert_eq!(zombies, "0", "{finished:?}");
    assert!(processes.trim().parse::<u32>().expect("a number") < 8, "{finished:?}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_files_and_temporary_files_are_bounded() {
    let world = World::new().await;
    for backend in backends() {
        let script = "ulimit -n; ulimit -c; dd if=/dev/zero of=/tmp/big bs=1M count=8 2>/dev/null; stat -c %s /tmp/big; rm -f /tmp/big";
        let run = world.scripted(script, backend, |launch| {
            launch.limits.open_files = 77;
            launch.limits.temporary_bytes = 4 << 20;
        });
        let finished = world.run(&run).await;
        let response = finished.outcome.response.clone().expect("response");
        let size = if backend == Backend::Bubblewrap { 4 << 20 } else { 8 << 20 };
        assert_eq!(response, format!("77\n0\n{size}"), "{backend} {finished:?}");
        let by = if backend == Backend::Bubblewrap { Enforcement::Tmpfs } else { Enforcement::None };
        assert_eq!(enforced_by(&finished, "temporaryBytes"), by);
    }
    world.end().await;
}
