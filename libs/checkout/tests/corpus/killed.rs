//! A host that is killed at any moment of a checkout: the next one gives the right verdict, nothing of the agent's is lost,
//! nothing of the host's is left, and the root is as it was.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mosaic_checkout::{Containment, Reason, Request, Verdict, inspect, sync};

use crate::agent::Agent;
use crate::bed::{Bed, Way, at_once, soak};
use crate::check::{self, Fingerprint};
use crate::mutations::{Chance, seed};
use crate::roots::{Flavour, Root};

/// No checkout takes longer here.
const TIME: Duration = Duration::from_secs(60);

/// Does the checkout that its environment names, for the tests below; without one, has another process do one.
#[test]
fn a_checkout_in_a_process_of_its_own_is_done() {
    if let Some(request) = from_environment() {
        sync(&request).expect("done");
        return;
    }
    let bed = Bed::new();
    let root = bed.root(Flavour::Plain);
    for way in bed.ways(2) {
        let request = bed.wanted(&root.path, "alone", &way);
        assert!(begin(&request).wait().expect("ended").success());
        assert_eq!(check::files(&request.clone, root), [""; 0]);
        std::fs::remove_dir_all(request.clone.parent().expect("a parent")).expect("removed");
    }
}

fn from_environment() -> Option<Request> {
    let value = |name: &str| std::env::var_os(format!("MOSAIC_CHECKOUT_{name}")).map(PathBuf::from);
    let bubblewrap = value("BUBBLEWRAP").map(Containment::Bubblewrap);
    Some(Request {
        clone: value("CLONE")?,
        root: value("ROOT")?,
        branch: None,
        state: value("STATE")?,
        git: value("GIT")?,
        owner: value("OWNER")?.to_str()?.parse().ok()?,
        containment: Some(bubblewrap.unwrap_or(Containment::Landlock)),
    })
}

/// Starts a host that does this checkout and ends.
fn begin(request: &Request) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("a program"));
    command.args(["--exact", "killed::a_checkout_in_a_process_of_its_own_is_done"]);
    let paths = [("CLONE", &request.clone), ("ROOT", &request.root), ("STATE", &request.state), ("GIT", &request.git)];
    command.envs(paths.map(|(name, path)| (format!("MOSAIC_CHECKOUT_{name}"), path)));
    command.env("MOSAIC_CHECKOUT_OWNER", request.owner.to_string());
    if let Some(Containment::Bubblewrap(path)) = &request.containment {
        command.env("MOSAIC_CHECKOUT_BUBBLEWRAP", path);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started")
}

/// Kills the host of a checkout as soon as `when` says so. False when it had ended by then.
fn killed(request: &Request, when: impl Fn(&Request) -> bool) -> bool {
    let (mut host, start) = (begin(request), Instant::now());
    loop {
        if when(request) {
            host.kill().expect("killed");
            return !host.wait().expect("ended").success();
        }
        if host.try_wait().expect("asked").is_some() {
            return false;
        }
        assert!(start.elapsed() < TIME, "a checkout hangs");
        std::hint::spin_loop();
    }
}

/// How long a whole checkout takes, with the start of its process.
fn duration(request: &Request) -> Duration {
    let start = Instant::now();
    assert!(begin(request).wait().expect("ended").success());
    start.elapsed()
}

/// Names in a directory that begin and end so.
fn there(directory: &Path, begin: &str, end: &str) -> bool {
    let names = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.into_iter().any(|name| name.to_string_lossy().starts_with(begin) && name.to_string_lossy().ends_with(end))
}

/// Something that a checkout has done.
type Step = (&'static str, fn(&Request) -> bool);

/// What an update does to clone and state, in this order.
const UPDATE: [Step; 12] = [
    ("the lock of the state", |request| request.state.join("lock").exists()),
    ("a mirror that is being made", |request| request.state.join("mirror.new").exists()),
    ("a mirror", |request| request.state.join("mirror.git").exists()),
    ("the branch in the mirror", |request| request.state.join("mirror.git/refs/heads/main").exists()),
    ("the journal", |request| {
        let clones = std::fs::read_dir(request.state.join("clones")).into_iter().flatten().flatten();
        clones.into_iter().any(|clone| clone.path().join("journal.json").exists())
    }),
    ("a stage", |request| there(&request.clone.join(".git"), "mosaic-", "")),
    ("the lock of the index", |request| request.clone.join(".git/index.lock").exists()),
    ("the lock of the branch", |request| request.clone.join(".git/refs/heads/main.lock").exists()),
    ("the first new file", |request| request.clone.join("new.py").exists()),
    ("the new index", |request| there_in_stage(request, "published")),
    ("the tracking branch", |request| there_in_stage(request, "tracking")),
    ("no lock of the index any more", |request| {
        !request.clone.join(".git/index.lock").exists() && request.clone.join("new.py").exists()
    }),
];

fn there_in_stage(request: &Request, name: &str) -> bool {
    let names = std::fs::read_dir(request.clone.join(".git")).into_iter().flatten().flatten();
    names
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("mosaic-"))
        .any(|entry| entry.path().join(name).exists())
}

/// What the making of a clone does, in this order.
const MAKING: [Step; 7] = [
    UPDATE[0],
    UPDATE[1],
    UPDATE[2],
    UPDATE[3],
    ("a stage", |request| request.state.join("stage").exists()),
    ("a clone that is being made", |request| request.state.join("stage/clone/.git/config").exists()),
    ("the clone", |request| request.clone.exists()),
];

/// Nothing of a host's is in the clone, and nothing half-made in its state.
fn nothing_left(request: &Request) {
    let mut left = Vec::new();
    let mut waiting = vec![request.clone.join(".git")];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory).expect("read").map(|entry| entry.expect("an entry")) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".lock") || name.starts_with("mosaic-") {
                left.push(entry.path());
            }
            if entry.file_type().expect("a type").is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    let state = ["stage", "mirror.new"].map(|name| request.state.join(name));
    left.extend(state.into_iter().filter(|path| path.exists()));
    assert!(left.is_empty(), "left: {left:?}");
}

/// Kills one update of a clone with work that git does not track, and has the next checkout finish it.
fn update(bed: &Bed, way: &Way, name: &str, when: impl Fn(&Request) -> bool) -> bool {
    let root = bed.root(Flavour::Plain);
    let mut agent = Agent::begin(bed.path(), root);
    agent.write_own("build/mine", "mine");
    agent.end(way.owner);
    let request = bed.request(&agent, way);
    let (was_killed, at) = (killed(&request, when), format!("{name}, {way:?}"));
    let looked = inspect(&request).expect("looked");
    let told = [None, Some(Reason::GitBusy)];
    assert!(told.contains(&looked.reason), "{at}: {looked:?}");
    let done = sync(&request).expect("looked");
    assert_eq!((done.verdict, done.reason), (Verdict::FastForwarded, None), "{at}: {done:?}");
    assert_eq!(done.distrusted, [], "{at}");
    nothing_left(&request);
    assert_eq!(check::files(&agent.clone, root), [""; 0], "{at}");
    assert_eq!(agent.faults(), [""; 0], "{at}");
    assert_eq!(check::sound(&agent), [""; 0], "{at}");
    agent.remove();
    std::fs::remove_dir_all(&request.state).expect("removed");
    was_killed
}

/// Kills the making of a clone, and has the next checkout make it, or find it.
fn making(bed: &Bed, root: &Root, way: &Way, name: &str, when: impl Fn(&Request) -> bool) -> bool {
    let request = bed.wanted(&root.path, &format!("made-{}", name.replace(' ', "-")), way);
    let (was_killed, at) = (killed(&request, when), format!("{name}, {way:?}"));
    let expected = if request.clone.exists() { Verdict::FastForwarded } else { Verdict::Cloned };
    let done = sync(&request).expect("done");
    assert_eq!((done.verdict, done.reason), (expected, None), "{at}: {done:?}");
    nothing_left(&request);
    assert_eq!(check::files(&request.clone, root), [""; 0], "{at}");
    let siblings = std::fs::read_dir(request.clone.parent().expect("a parent")).expect("read").count();
    assert_eq!(siblings, 1, "{at}");
    std::fs::remove_dir_all(request.clone.parent().expect("a parent")).expect("removed");
    std::fs::remove_dir_all(&request.state).expect("removed");
    was_killed
}

#[test]
fn a_checkout_that_is_killed_at_any_step_is_finished_by_the_next() {
    let bed = Bed::new();
    let root = bed.root(Flavour::Plain);
    let before = Fingerprint::of(&root.path);
    at_once(UPDATE.len() + MAKING.len(), |number, _worker| {
        for way in bed.more_ways(number) {
            match UPDATE.get(number) {
                Some((name, step)) => update(&bed, &way, name, step),
                None => {
                    let (name, step) = MAKING[number - UPDATE.len()];
                    making(&bed, root, &way, name, step)
                }
            };
        }
    });
    assert_eq!(before.difference(&Fingerprint::of(&root.path)).next(), None);
}

#[test]
fn a_checkout_that_is_killed_at_any_moment_is_finished_by_the_next() {
    let (bed, seed) = (Bed::new(), seed());
    let root = bed.root(Flavour::Plain);
    let before = Fingerprint::of(&root.path);
    let whole = duration(&bed.wanted(&root.path, "whole", &bed.all_ways()[0]));
    let kills = std::sync::atomic::AtomicUsize::new(0);
    let count = soak(300) as usize;
    at_once(count, |number, _worker| {
        let mut chance = Chance::of(seed, number);
        let way = chance.pick(bed.all_ways()).clone();
        // Others run at the same time: it takes longer than alone.
        let after = whole.mul_f64(f64::from(u32::try_from(chance.below(2500)).expect("small")) / 1000.0);
        let start = Instant::now();
        let when = |_: &Request| start.elapsed() > after;
        let name = format!("number {number} after {after:?}");
        let was_killed =
            if number % 3 == 0 { making(&bed, root, &way, &name, when) } else { update(&bed, &way, &name, when) };
        kills.fetch_add(usize::from(was_killed), std::sync::atomic::Ordering::Relaxed);
    });
    assert!(kills.into_inner() > count / 4, "most of them had ended before they were killed");
    assert_eq!(before.difference(&Fingerprint::of(&root.path)).next(), None);
}

/// Work that an agent does in a clone before the next checkout comes to it is never undone with the update.
#[test]
fn work_since_a_checkout_that_was_killed_is_not_lost() {
    let bed = Bed::new();
    let root = bed.root(Flavour::Plain);
    at_once(UPDATE.len() - 4, |number, _worker| {
        let (name, step) = UPDATE[number + 4];
        for way in bed.more_ways(number) {
            let mut agent = Agent::begin(bed.path(), root);
            agent.end(way.owner);
            let request = bed.request(&agent, &way);
            killed(&request, step);
            // What the killed host had started ends with it, but not in the same moment.
            std::thread::sleep(Duration::from_millis(200));
            agent.write_own("README.md", "the agent's\n");
            agent.write_own("src/own.txt", "the agent's\n");
            agent.end(way.owner);
            let done = sync(&request).expect("looked");
            assert_eq!(done.verdict, Verdict::CheckoutKept, "{name}, {way:?}: {done:?}");
            assert_eq!(agent.faults(), [""; 0], "{name}, {way:?}");
            agent.remove();
        }
    });
}

/// A clone that is to be left as it is stays so, whenever the host is killed.
#[test]
fn a_clone_with_work_in_it_stays_as_it_is_whenever_the_host_is_killed() {
    let (bed, seed) = (Bed::new(), seed());
    let root = bed.root(Flavour::Plain);
    let whole = duration(&bed.wanted(&root.path, "whole", &bed.all_ways()[0]));
    at_once(soak(100) as usize, |number, _worker| {
        let mut chance = Chance::of(seed, number);
        let way = chance.pick(bed.all_ways()).clone();
        let after = whole.mul_f64(f64::from(u32::try_from(chance.below(2500)).expect("small")) / 1000.0);
        let mut agent = Agent::begin(bed.path(), root);
        agent.write("README.md", "the agent's\n");
        agent.end(way.owner);
        let (request, before) = (bed.request(&agent, &way), Fingerprint::of(&agent.clone));
        let start = Instant::now();
        killed(&request, |_| start.elapsed() > after);
        let done = sync(&request).expect("looked");
        assert_eq!((done.verdict, done.reason), (Verdict::CheckoutKept, Some(Reason::Dirty)), "{after:?}: {done:?}");
        assert_eq!(before.difference(&Fingerprint::of(&agent.clone)).next(), None, "{after:?}, {way:?}");
        assert_eq!(agent.faults(), [""; 0]);
        agent.remove();
    });
}
