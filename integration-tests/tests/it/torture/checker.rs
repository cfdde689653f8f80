//! The checker itself: it finds each kind of leftover, and nothing where nothing is.

use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use mosaic_data_root::ProcessLock;
use mosaic_integration_tests::{Installation, Leftover, Leftovers, Operator, Process, is_root};
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::SOON;
use super::host::{host, until_it_serves};
use crate::installation;

/// An installation with one run that is over, and its host.
fn used() -> (Installation, Process, String) {
    let mosaic = installation();
    let mut host = host(&mosaic);
    until_it_serves(&mosaic, &mut host);
    let record = mosaic.record(&mosaic.task("echo hi", |_| {}), &[]);
    let run = record["runId"].as_str().expect("an id").to_owned();
    (mosaic, host, run)
}

fn sleeper(change: impl FnOnce(&mut Command) -> &mut Command) -> Process {
    let mut command = Command::new("sleep");
    Process::start(change(command.arg("60").stdin(Stdio::null())))
}

/// What is found while `planted` is there, which must be something; and nothing before and after.
#[track_caller]
fn expect_found<T>(
    leftovers: &Leftovers,
    host: &Process,
    plant: impl FnOnce() -> T,
    is_it: impl Fn(&Leftover) -> bool,
) {
    let live = [host.pid()];
    leftovers.expect_clean(&live, SOON);
    let planted = plant();
    let found = leftovers.look(&live);
    assert!(found.iter().any(is_it), "{found:?}");
    drop(planted);
    leftovers.expect_clean(&live, SOON);
}

/// Removed when dropped.
struct Planted(PathBuf);

impl Planted {
    fn directory(path: PathBuf) -> Self {
        std::fs::create_dir_all(&path).expect("made");
        Self(path)
    }

    fn file(path: PathBuf) -> Self {
        std::fs::write(&path, "x").expect("written");
        Self(path)
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let removed = if self.0.is_dir() { std::fs::remove_dir(&self.0) } else { std::fs::remove_file(&self.0) };
        removed.expect("removed");
    }
}

#[test]
fn a_process_of_a_run_is_found_by_whatever_names_it() {
    let (mosaic, host, run) = used();
    let (data, leftovers) = (mosaic.data(), Leftovers::of(&mosaic.data()));
    let is_process = |found: &Leftover| matches!(found, Leftover::Process { .. });
    let home = data.join("runs").join(&run).join("private/home");
    expect_found(&leftovers, &host, || sleeper(|command| command.env("HOME", &home)), is_process);
    expect_found(&leftovers, &host, || sleeper(|command| command.env("RUN", &run)), is_process);
    expect_found(&leftovers, &host, || sleeper(|command| command.current_dir(data.join("workspaces"))), is_process);
    let by_argument = || {
        let mut command = Command::new("sh");
        Process::start(command.args(["-c", "read -r _; :", &run]).stdin(Stdio::piped()))
    };
    expect_found(&leftovers, &host, by_argument, is_process);
    if is_root() {
        let contained = || {
            let mut command = Command::new("unshare");
            let bind = format!("mount --bind {} /mnt && exec sleep 60 <&-", data.join("workspaces").display());
            let process = Process::start(command.args(["--mount", "sh", "-c", &bind]).stdin(Stdio::null()));
            let mounts = format!("/proc/{}/mountinfo", process.pid());
            mosaic_integration_tests::wait_for("its mount", SOON, || {
                std::fs::read_to_string(&mounts).is_ok_and(|text| text.contains(" /mnt ")).then_some(())
            });
            process
        };
        expect_found(&leftovers, &host, contained, is_process);
    }
}

#[test]
fn mounts_and_control_groups_are_found() {
    if !is_root() {
        return;
    }
    let (mosaic, host, run) = used();
    let leftovers = Leftovers::of(&mosaic.data());
    struct Mounted(PathBuf);
    impl Drop for Mounted {
        fn drop(&mut self) {
            umount2(&self.0, MntFlags::MNT_DETACH).expect("unmounted");
        }
    }
    let place = mosaic.data().join("workspaces");
    let mounted = || {
        mount(Some("none"), &place, Some("tmpfs"), MsFlags::empty(), None::<&str>).expect("mounted");
        Mounted(place.clone())
    };
    expect_found(&leftovers, &host, mounted, |found| matches!(found, Leftover::Mount(_)));

    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let groups = hierarchies.map(|entry| entry.path().join(format!("{run}-12345678")));
    let group =
        groups.into_iter().find(|group| std::fs::create_dir(group).is_ok_and(|()| std::fs::remove_dir(group).is_ok()));
    if let Some(group) = group {
        let is_it = |found: &Leftover| matches!(found, Leftover::Group(path) if *path == group);
        expect_found(&leftovers, &host, || Planted::directory(group.clone()), is_it);
    }
}

#[test]
fn locks_of_every_kind_are_found_and_those_of_live_services_are_not() {
    let (mosaic, host, _run) = used();
    let leftovers = Leftovers::of(&mosaic.data());
    let is_lock = |found: &Leftover| matches!(found, Leftover::Lock(_));
    let path = mosaic.data().join("workspaces/lock");
    std::fs::write(&path, "").expect("written");
    let flock = || {
        let file = std::fs::File::open(&path).expect("opened");
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno).expect("locked")
    };
    expect_found(&leftovers, &host, flock, is_lock);
    expect_found(&leftovers, &host, || ProcessLock::acquire(&path).expect("locked"), is_lock);
    let posix = || {
        let file = std::fs::File::options().write(true).open(&path).expect("opened");
        let lock = nix::libc::flock { l_type: 1, l_whence: 0, l_start: 0, l_len: 0, l_pid: 0 };
        nix::fcntl::fcntl(file.as_fd(), nix::fcntl::FcntlArg::F_SETLK(&lock)).expect("locked");
        file
    };
    expect_found(&leftovers, &host, posix, is_lock);
    let held = leftovers.look(&[]);
    assert!(held.iter().any(is_lock), "a host that does not count as live holds locks: {held:?}");
}

#[test]
fn temporary_files_and_directories_are_found() {
    let (mosaic, host, run) = used();
    let (data, leftovers) = (mosaic.data(), Leftovers::of(&mosaic.data()));
    let directories = [
        "state/runner/r-x",
        "run/x/abc",
        &format!("runs/{run}/private"),
        "workspaces/.new",
        "state/launcher/in-hand/r-x",
    ];
    for directory in directories {
        let path = data.join(directory);
        let is_it = |found: &Leftover| matches!(found, Leftover::File(file) if *file == path);
        expect_found(&leftovers, &host, || Planted::directory(path.clone()), is_it);
    }
    for file in
        [&format!("runs/{run}/result.0.tmp"), &format!("runs/{run}/stdout.tail"), "run/host.tmp", "state/shim/.7.tmp"]
    {
        let path = data.join(file);
        let is_it = |found: &Leftover| matches!(found, Leftover::File(file) if *file == path);
        expect_found(&leftovers, &host, || Planted::file(path.clone()), is_it);
    }
}

#[test]
fn records_that_are_missing_or_say_something_else_are_found() {
    let (mosaic, _host, run) = used();
    let (leftovers, operator) = (Leftovers::of(&mosaic.data()), Operator::of(&mosaic.data()));
    leftovers.expect_recorded(&operator, SOON);
    let directory = mosaic.data().join("runs").join(&run);
    let found = || !leftovers.records(&operator).is_empty();
    for name in ["result.json", "events.jsonl"] {
        let path = directory.join(name);
        let content = std::fs::read_to_string(&path).expect("readable");
        std::fs::remove_file(&path).expect("removed");
        assert!(found(), "{name} is missing");
        std::fs::write(&path, content.replace("ended", "emded").replace("succeeded", "failed")).expect("written");
        assert!(found(), "{name} says something else");
        std::fs::write(&path, &content).expect("written");
        assert!(!found());
    }
    let events = directory.join("events.jsonl");
    let content = std::fs::read_to_string(&events).expect("readable");
    let last = content.lines().last().expect("an event");
    std::fs::write(&events, format!("{content}{last}\n")).expect("written");
    assert!(found(), "two ends");
    std::fs::write(&events, content).expect("written");
    let _stranger = Planted::directory(mosaic.data().join("runs/r-20260101T000000000Z-0000000000"));
    assert!(found(), "a run that nobody knows");
    let task = mosaic.task("sleep 60", |_| {});
    mosaic.mosaic(&["run", "--detach", &task]).expect(0);
    assert!(
        leftovers.records(&operator).iter().any(|fault| format!("{fault:?}").contains("is STATE_")),
        "one that goes on"
    );
}
