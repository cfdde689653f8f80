//! What a guarded checkout costs beside plain git, both in one run on one machine. Prints a table; decides nothing.
//!
//!     cargo bench -p mosaic-checkout
#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mosaic_checkout::{About, Containment, HarvestLimits, HarvestRequest, Request, Verdict, harvest, locate, sync};

/// Uid of the guarded clones when this runs as root.
const AGENT_UID: u32 = 61_234;
/// Files that each commit of a root changes.
const CHANGED: usize = 5;
/// Loose objects in both clones of the second kind.
const LOOSE: usize = 10_000;

fn main() {
    println!("\n| what | plain git | guarded | ratio | n |\n| --- | --- | --- | --- | --- |");
    let small = Pair::new("small", 25);
    println!("{}", small.forward("fast-forward, 25 files", 31));
    println!("{}", small.still("nothing new, 25 files", 15));
    let loose = Pair::new("loose", 25);
    loose.fill(LOOSE);
    println!("{}", loose.forward("fast-forward, 25 files, 10,000 loose objects in the clone", 21));
    let large = Pair::new("large", 50_000);
    println!("{}", large.forward("fast-forward, 50,000 files", 11));
    println!("{}", large.still("nothing new, 50,000 files", 7));
    for (pair, name, runs) in [(&small, "25 files", 21), (&large, "50,000 files", 3)] {
        println!("{}", pair.clone(&format!("clone, {name}, the host knows the root"), runs, false));
        println!("{}", pair.clone(&format!("clone, {name}, the root is new to the host"), runs, true));
    }
    for (pair, name, runs) in
        [(&small, "25 files", 21), (&loose, "10,000 loose objects", 11), (&large, "50,000 files", 7)]
    {
        println!("{}", pair.harvest(&format!("harvest, {name}"), runs));
    }
}

/// Medians of both kinds, taken in turns, so that a noisy moment hits both; `before` is not timed.
fn row(
    name: &str,
    runs: usize,
    mut before: impl FnMut(),
    mut plain: impl FnMut() -> Duration,
    mut guarded: impl FnMut() -> Duration,
) -> String {
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for run in 0..runs {
        before();
        if run % 2 == 0 {
            one.push(plain());
        }
        other.push(guarded());
        if run % 2 == 1 {
            one.push(plain());
        }
    }
    let median = |samples: &mut Vec<Duration>| {
        samples.sort();
        samples[samples.len() / 2].as_secs_f64() * 1000.0
    };
    let (one, other) = (median(&mut one), median(&mut other));
    format!("| {name} | {one:.1} ms | {other:.1} ms | {:.2} | {runs} |", other / one)
}

/// A root with a plain clone and a guarded one.
struct Pair {
    scratch: tempfile::TempDir,
    request: Request,
}

impl Pair {
    fn new(name: &str, files: usize) -> Self {
        let scratch = tempfile::Builder::new().prefix(name).tempdir().expect("scratch");
        let at = |name: &str| scratch.path().join(name);
        std::fs::create_dir(at("root")).expect("created");
        git(&at("root"), &["init", "--quiet", "--initial-branch", "main", "."]);
        for number in 0..files {
            let directory = at("root").join(format!("d{}/e{}", number / 1000, number / 50));
            std::fs::create_dir_all(&directory).expect("created");
            std::fs::write(directory.join(format!("f{number}.txt")), format!("{number}\n").repeat(100))
                .expect("written");
        }
        git(&at("root"), &["add", "--all"]);
        git(&at("root"), &["commit", "--quiet", "--message", "base"]);
        git(&at("root"), &["gc", "--quiet"]);
        git(scratch.path(), &["clone", "--quiet", "--no-local", "--single-branch", "--no-tags", "root", "plain"]);
        let path = std::env::var_os("PATH");
        let is_root = nix::unistd::geteuid().is_root();
        let owner = if is_root { AGENT_UID } else { nix::unistd::geteuid().as_raw() };
        let bubblewrap = locate("bwrap", path.as_deref()).unwrap_or_else(|| PathBuf::from("/usr/bin/bwrap"));
        let request = Request {
            clone: at("guarded"),
            root: at("root"),
            branch: None,
            state: at("state"),
            git: locate("git", path.as_deref()).expect("git is in PATH"),
            owner,
            containment: Containment::detect(&bubblewrap, owner),
        };
        assert_eq!(sync(&request).expect("made").verdict, Verdict::Cloned);
        let pair = Self { scratch, request };
        // The host's own index is there after the first.
        for _ in 0..2 {
            pair.commit();
            pair.guarded();
            pair.plain();
        }
        pair
    }

    /// The root gets a commit.
    fn commit(&self) {
        for number in 0..CHANGED {
            let file = self.request.root.join("d0/e0").join(format!("f{number}.txt"));
            let content = std::fs::read_to_string(&file).expect("read");
            std::fs::write(file, format!("{content}more\n")).expect("written");
        }
        git(&self.request.root, &["commit", "--quiet", "--all", "--message", "more"]);
    }

    fn plain(&self) -> Duration {
        let clone = self.scratch.path().join("plain");
        let start = Instant::now();
        git(&clone, &["fetch", "--quiet"]);
        git(&clone, &["merge", "--quiet", "--ff-only", "@{upstream}"]);
        start.elapsed()
    }

    fn guarded(&self) -> Duration {
        let start = Instant::now();
        let checkout = sync(&self.request).expect("looked");
        let took = start.elapsed();
        assert_eq!(checkout.verdict, Verdict::FastForwarded, "{checkout:?}");
        took
    }

    fn forward(&self, name: &str, runs: usize) -> String {
        row(name, runs, || self.commit(), || self.plain(), || self.guarded())
    }

    fn still(&self, name: &str, runs: usize) -> String {
        row(name, runs, || (), || self.plain(), || self.guarded())
    }

    fn clone(&self, name: &str, runs: usize, cold: bool) -> String {
        let target = self.scratch.path().join("new");
        let gone = |path: &Path| {
            let _none = std::fs::remove_dir_all(path);
        };
        let request = Request { clone: target.clone(), ..self.request.clone() };
        let plain = || {
            gone(&target);
            let (from, to) = (self.request.root.to_string_lossy(), target.to_string_lossy());
            let start = Instant::now();
            let options = ["clone", "--quiet", "--no-local", "--single-branch", "--no-tags", "--template="];
            git(self.scratch.path(), &[&options[..], &[&from, &to]].concat());
            start.elapsed()
        };
        let guarded = || {
            gone(&target);
            if cold {
                gone(&request.state);
            }
            let start = Instant::now();
            let checkout = sync(&request).expect("made");
            let took = start.elapsed();
            assert_eq!(checkout.verdict, Verdict::Cloned, "{checkout:?}");
            took
        };
        row(name, runs, || (), plain, guarded)
    }

    /// Taking a commit, five changed files and five new ones out of a clone, beside a patch and a bundle of them.
    fn harvest(&self, name: &str, runs: usize) -> String {
        let plain = self.scratch.path().join("plain");
        for clone in [&plain, &self.request.clone] {
            let base = "refs/heads/base";
            std::fs::write(clone.join("committed.txt"), "committed\n").expect("written");
            for number in 0..CHANGED {
                std::fs::write(clone.join(format!("d0/e0/f{number}.txt")), "changed\n").expect("written");
                std::fs::write(clone.join(format!("new{number}.txt")), "new\n".repeat(100)).expect("written");
            }
            let mut command = git_command(clone);
            let envs = [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "safe.directory"), ("GIT_CONFIG_VALUE_0", "*")];
            assert!(command.envs(envs).args(["update-ref", base, "HEAD"]).status().expect("git runs").success());
            for arguments in [&["add", "committed.txt"][..], &["commit", "--quiet", "--message", "work"]] {
                assert!(git_command(clone).envs(envs).args(arguments).status().expect("git runs").success());
            }
        }
        self.own();
        let request = HarvestRequest {
            clone: self.request.clone.clone(),
            root: self.request.root.clone(),
            state: self.request.state.clone(),
            git: self.request.git.clone(),
            owner: self.request.owner,
            containment: self.request.containment.clone(),
            tip: None,
            out: self.scratch.path().join("harvest"),
            named: "harvest".to_owned(),
            about: About {
                run_id: "r-1".parse().expect("a run id"),
                project: "site".parse().expect("a name"),
                task_id: "task".parse().expect("a name"),
                requirement: None,
                adapter: "mock".parse().expect("a name"),
                model: None,
                finished_at: jiff::Timestamp::from_second(1_700_000_000).expect("a time"),
            },
            limits: HarvestLimits { entries: 50_000, bytes: 256 * 1024 * 1024 },
        };
        let by_git = || {
            let start = Instant::now();
            git(&plain, &["add", "--all", "--intent-to-add"]);
            git(&plain, &["diff", "--binary", "--output=../work.patch", "base"]);
            git(&plain, &["bundle", "create", "--quiet", "../work.bundle", "main", "^base"]);
            start.elapsed()
        };
        let harvested = || {
            let start = Instant::now();
            let harvest = harvest(&request);
            let took = start.elapsed();
            assert_eq!(harvest.work.as_ref().map(|work| work.files), Some(11), "{harvest:?}");
            took
        };
        row(name, runs, || (), by_git, harvested)
    }

    /// Gives the guarded clone back to its owner.
    fn own(&self) {
        let owner = format!("{0}:{0}", self.request.owner);
        let given = Command::new("chown").args(["-Rh", &owner]).arg(&self.request.clone).status();
        assert!(given.expect("chown runs").success());
    }

    /// Puts loose objects into both clones.
    fn fill(&self, count: usize) {
        let content = self.scratch.path().join("content");
        std::fs::create_dir(&content).expect("created");
        let mut paths = String::new();
        for number in 0..count {
            let path = content.join(number.to_string());
            std::fs::write(&path, format!("loose {number}\n")).expect("written");
            paths.push_str(&format!("{}\n", path.display()));
        }
        for clone in [self.scratch.path().join("plain"), self.request.clone.clone()] {
            let mut command = git_command(&clone);
            command.args(["-c", "safe.directory=*", "-c", "core.looseCompression=0"]);
            command.args(["hash-object", "-w", "--stdin-paths"]).stdin(Stdio::piped()).stdout(Stdio::null());
            let mut child = command.env("GIT_DIR", clone.join(".git")).spawn().expect("git runs");
            child.stdin.take().expect("a pipe").write_all(paths.as_bytes()).expect("written");
            assert!(child.wait().expect("ended").success());
        }
        self.own();
    }
}

/// Git without any configuration but the repository's, and without housekeeping, which would be plain git's loss.
fn git_command(directory: &Path) -> Command {
    let mut command = Command::new("git");
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    command.env_clear().env("PATH", path).env("HOME", "/nonexistent").current_dir(directory).stdin(Stdio::null());
    command.envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null"), ("LC_ALL", "C")]);
    command.envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@example.invalid")]);
    command.envs([("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@example.invalid")]);
    command.args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
    command
}

fn git(directory: &Path, arguments: &[&str]) {
    let output = git_command(directory).args(arguments).output().expect("git runs");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}
