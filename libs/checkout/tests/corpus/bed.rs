//! The place where a corpus is built and driven.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use mosaic_checkout::{Checkout, Containment, MirrorError, Reason, Request, Verdict};

use crate::agent::Agent;
use crate::check::{self, Fingerprint};
use crate::roots::{Flavour, Root};

/// Uid of the agents when the tests run as root: the contained child changes to it.
pub(crate) const AGENT_UID: u32 = 61_234;
/// Gits that are tried, where they are installed.
const GITS: [&str; 2] = ["/usr/bin/git", "/usr/local/bin/git"];
/// No step takes longer, whatever an agent has built.
const TIME: Duration = Duration::from_secs(25);
/// Entries that are driven at the same time.
const THREADS: usize = 4;

/// What must become of a clone.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expect {
    /// It is brought to the root's tip.
    Moved,
    /// It is left exactly as it is, for one of these reasons.
    Kept(&'static [Reason]),
}

/// One clone of the corpus.
pub(crate) struct Entry {
    /// What the agent did.
    pub(crate) name: &'static str,
    /// The root that it was a clone of.
    pub(crate) root: Flavour,
    /// What must become of it.
    pub(crate) expect: Expect,
    /// What the agent does to it.
    pub(crate) act: fn(&mut Agent<'_>),
}

/// An honest clone of the plain root, which must be brought up to date.
pub(crate) fn moved(name: &'static str, act: fn(&mut Agent<'_>)) -> Entry {
    Entry { name, root: Flavour::Plain, expect: Expect::Moved, act }
}

/// A clone of the plain root that must be left as it is.
pub(crate) fn kept(name: &'static str, reasons: &'static [Reason], act: fn(&mut Agent<'_>)) -> Entry {
    Entry { name, root: Flavour::Plain, expect: Expect::Kept(reasons), act }
}

impl Entry {
    /// The same with a clone of another root.
    pub(crate) fn of(self, root: Flavour) -> Self {
        Self { root, ..self }
    }
}

/// A git, what contains it, and the uid that the agents' files belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) git: PathBuf,
    pub(crate) containment: Containment,
    pub(crate) owner: u32,
}

/// A scratch directory with roots, clones and the host's state. It is gone when the value is.
pub(crate) struct Bed {
    scratch: tempfile::TempDir,
    roots: [OnceLock<Root>; Flavour::COUNT],
    ways: Vec<Way>,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        for name in ["clones", "outside", "markers", "state", "home"] {
            std::fs::create_dir(scratch.path().join(name)).expect("created");
        }
        std::fs::write(scratch.path().join("home/gitconfig"), "[safe]\n\tdirectory = *\n").expect("written");
        Self { scratch, roots: std::array::from_fn(|_| OnceLock::new()), ways: ways() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.scratch.path()
    }

    pub(crate) fn root(&self, flavour: Flavour) -> &Root {
        self.roots[flavour as usize].get_or_init(|| Root::build(self.path(), flavour))
    }

    /// All ways with the whole soak, else one that depends on `number`.
    pub(crate) fn ways(&self, number: usize) -> Vec<Way> {
        assert!(!self.ways.is_empty(), "neither bubblewrap nor Landlock works here, or there is no git");
        if soak(100) == 100 { self.ways.clone() } else { vec![self.ways[number % self.ways.len()].clone()] }
    }

    /// All ways, always.
    pub(crate) fn all_ways(&self) -> &[Way] {
        &self.ways
    }

    /// Like [`Bed::ways`], but never less than two: a way and the one that differs from it in all.
    pub(crate) fn more_ways(&self, number: usize) -> Vec<Way> {
        let mut ways = self.ways(number);
        let opposite = self.ways.len() - 1 - number % self.ways.len();
        if ways.len() == 1 && opposite != number % self.ways.len() {
            ways.push(self.ways[opposite].clone());
        }
        ways
    }

    /// Builds each entry and drives it, and fails with everything that did not hold.
    pub(crate) fn hold(&self, entries: &[Entry]) {
        self.hold_each(entries, |number| self.ways(number), false);
    }

    /// The same in more ways, for what happens every day.
    pub(crate) fn hold_widely(&self, entries: &[Entry]) {
        self.hold_each(entries, |number| self.more_ways(number), true);
    }

    fn hold_each(&self, entries: &[Entry], ways: impl Fn(usize) -> Vec<Way>, sound: bool) {
        let all: Vec<(&Entry, Way)> = entries
            .iter()
            .enumerate()
            .flat_map(|(number, entry)| ways(number).into_iter().map(move |way| (entry, way)))
            .collect();
        let roots = || entries.iter().map(|entry| Fingerprint::of(&self.root(entry.root).path)).collect::<Vec<_>>();
        let (before, faults) = (roots(), Mutex::new(Vec::new()));
        at_once(all.len(), |number, worker| {
            let (entry, way) = &all[number];
            // Looking alone costs as much as the checkout: not each time.
            let look = number % 3 == 0 || soak(100) == 100;
            for fault in self.drive(entry, way, worker, (look, sound)) {
                faults.lock().expect("no thread panicked").push(format!("{} ({way:?}): {fault}", entry.name));
            }
        });
        let mut faults = faults.into_inner().expect("no thread panicked");
        for (before, now) in before.iter().zip(roots()) {
            faults.extend(before.difference(&now).map(|at| format!("A ROOT CHANGED: {at}")));
        }
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    fn drive(&self, entry: &Entry, way: &Way, worker: usize, (look, sound): (bool, bool)) -> Vec<String> {
        let root = self.root(entry.root);
        let mut agent = Agent::begin(self.path(), root);
        (entry.act)(&mut agent);
        agent.end(way.owner);
        let mut faults = Vec::new();
        // What the host keeps of a project serves all of its clones; here, those that one thread drives.
        let state = self.path().join("state").join(format!("{worker}-{:?}-{}", entry.root, self.number_of(way)));
        let request = Request { state, ..self.request(&agent, way) };
        let before = Fingerprint::of(&agent.clone);
        let looked = look.then(|| self.step(&request, mosaic_checkout::inspect, &mut faults)).flatten();
        if look {
            faults.extend(before.difference(&Fingerprint::of(&agent.clone)).map(|at| format!("inspect changed {at}")));
        }
        let done = self.step(&request, mosaic_checkout::sync, &mut faults);
        if let (Some(looked), Some(done)) = (&looked, &done)
            && (looked.verdict, looked.reason) != (done.verdict, done.reason)
        {
            faults.push(format!("inspect said {looked:?}"));
        }
        if let Some(done) = &done {
            faults.extend(check::verdict(done, entry.expect));
            faults.extend(check::list(done));
            faults.extend(check::clone(done, &agent, root, &before));
        }
        faults.extend(agent.faults());
        if sound && done.is_some_and(|done| done.verdict == Verdict::FastForwarded) {
            faults.extend(check::sound(&agent));
        }
        agent.remove();
        faults
    }

    fn number_of(&self, way: &Way) -> usize {
        self.ways.iter().position(|other| other == way).expect("a way of this bed")
    }

    fn step(
        &self,
        request: &Request,
        step: fn(&Request) -> Result<Checkout, MirrorError>,
        faults: &mut Vec<String>,
    ) -> Option<Checkout> {
        let start = Instant::now();
        let result = step(request);
        if start.elapsed() > TIME {
            faults.push(format!("took {:?}", start.elapsed()));
        }
        result.map_err(|error| faults.push(format!("failed: {error}"))).ok()
    }

    /// The checkout of a clone of `root` that is not there yet, in a directory of its own and with a state of its own.
    pub(crate) fn wanted(&self, root: &Path, name: &str, way: &Way) -> Request {
        let parent = self.path().join("clones").join(name);
        std::fs::create_dir_all(&parent).expect("created");
        Request {
            clone: parent.join("demo"),
            root: root.to_owned(),
            branch: None,
            state: self.path().join("state").join(name),
            git: way.git.clone(),
            owner: way.owner,
            containment: Some(way.containment.clone()),
        }
    }

    /// The checkout of the clone of `agent`, with a state of its own.
    pub(crate) fn request(&self, agent: &Agent<'_>, way: &Way) -> Request {
        Request {
            clone: agent.clone.clone(),
            root: agent.root.path.clone(),
            branch: None,
            state: self.path().join("state").join(agent.clone.file_name().expect("a name")),
            git: way.git.clone(),
            owner: way.owner,
            containment: Some(way.containment.clone()),
        }
    }
}

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Uids that agents' files belong to: as root, another one and root itself.
fn owners() -> Vec<u32> {
    if is_root() { vec![AGENT_UID, 0] } else { vec![nix::unistd::geteuid().as_raw()] }
}

/// Gits of this machine with what can contain them, in an order in which a way and the one as far from the other end
/// differ in all.
fn ways() -> Vec<Way> {
    let is_file =
        |path: &&Path| path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o111 != 0);
    let gits: Vec<&Path> = GITS.iter().map(Path::new).filter(is_file).collect();
    let (owners, mut ways) = (owners(), Vec::new());
    for (git, owner) in gits.iter().flat_map(|git| owners.iter().map(move |owner| (git, *owner))) {
        let found = containments(owner).into_iter();
        ways.extend(found.map(|containment| Way { git: git.to_path_buf(), containment, owner }));
    }
    ways
}

/// True as root. Else `what` is left out, which is told, and a failure with `MOSAIC_REQUIRE_ALL=1`.
pub(crate) fn as_root(what: &str) -> bool {
    if !is_root() {
        left_out(what);
    }
    is_root()
}

#[expect(clippy::print_stdout, reason = "what is left out is told")]
fn left_out(what: &str) {
    let required = std::env::var_os("MOSAIC_REQUIRE_ALL").is_some_and(|all| all == "1");
    assert!(!required, "{what} can't be tried here");
    println!("left out, since it does not work here: {what}");
}

/// What contains programs here.
fn containments(owner: u32) -> Vec<Containment> {
    let bubblewrap = ["/usr/bin/bwrap", "/usr/local/bin/bwrap"].into_iter().map(Path::new).find(|path| path.exists());
    let none = Path::new("/nonexistent");
    let wanted = [Containment::Bubblewrap(bubblewrap.unwrap_or(none).to_owned()), Containment::Landlock];
    let found: Vec<Containment> =
        [bubblewrap.unwrap_or(none), none].into_iter().filter_map(|path| Containment::detect(path, owner)).collect();
    for wanted in &wanted {
        if !found.contains(wanted) {
            left_out(&format!("{wanted:?}"));
        }
    }
    wanted.into_iter().filter(|wanted| found.contains(wanted)).collect()
}

/// A tenth of `full`, or as much of it as `MOSAIC_SOAK` says; `MOSAIC_SOAK=1` is all.
pub(crate) fn soak(full: u32) -> u32 {
    let share = std::env::var("MOSAIC_SOAK").ok().and_then(|share| share.parse().ok()).unwrap_or(0.1_f64);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, far below the bounds")]
    let count = (f64::from(full) * share) as u32;
    count.max(1)
}

/// Calls `each` with the numbers below `count`, in a few threads, of which it is told the number, too.
pub(crate) fn at_once(count: usize, each: impl Fn(usize, usize) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for worker in 0..THREADS {
            let (next, each) = (&next, &each);
            threads.spawn(move || {
                let mut number = next.fetch_add(1, Ordering::Relaxed);
                while number < count {
                    each(number, worker);
                    number = next.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
}

/// The agent's or the person's own git in `directory`, without any configuration but that of the repository; it trusts
/// repositories of all users.
pub(crate) fn git_command(home: &Path, directory: &Path) -> Command {
    let mut command = Command::new("git");
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    command.env_clear().env("PATH", path).env("HOME", home).current_dir(directory).stdin(Stdio::null());
    command.envs([("GIT_CONFIG_NOSYSTEM", "1"), ("LC_ALL", "C")]);
    command.env("GIT_CONFIG_GLOBAL", home.join("gitconfig"));
    command.envs([("GIT_AUTHOR_NAME", "Agent"), ("GIT_AUTHOR_EMAIL", "agent@example.invalid")]);
    command.envs([("GIT_COMMITTER_NAME", "Agent"), ("GIT_COMMITTER_EMAIL", "agent@example.invalid")]);
    command.envs([("GIT_AUTHOR_DATE", "1700000000 +0000"), ("GIT_COMMITTER_DATE", "1700000000 +0000")]);
    for setting in ["protocol.file.allow=always", "gc.auto=0", "maintenance.auto=false", "advice.detachedHead=false"] {
        command.args(["-c", setting]);
    }
    command
}

/// Runs such a git, which must succeed, and returns what it wrote without the last line end.
pub(crate) fn git(home: &Path, directory: &Path, arguments: &[&str]) -> String {
    let output = git_command(home, directory).args(arguments).output().expect("git runs");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?} in {}: {words}", directory.display());
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}
