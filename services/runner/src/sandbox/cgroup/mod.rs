//! Control groups: limits that hold for a sandbox as a whole, and what they saw.

mod locate;
mod v1;
mod v2;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mosaic_record::{Enforcement, Limits};

/// Processes of ours in a group beside the adapter's: bubblewrap and the shim.
const OWN_PROCESSES: u64 = 2;

/// A period of the processor's limit, in microseconds; what `cpus` gives is counted in it.
const CPU_PERIOD_MICROS: u64 = 100_000;

/// How often the removal of a group is tried while the kernel still takes leave of its last process.
const REMOVAL_ATTEMPTS: u32 = 200;
const REMOVAL_PAUSE: Duration = Duration::from_millis(5);

/// What a controller holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Controller {
    /// Memory with swap.
    Memory,
    /// Processes and threads.
    Pids,
    /// Processor time.
    Cpu,
}

impl Controller {
    const ALL: [Self; 3] = [Self::Memory, Self::Pids, Self::Cpu];

    const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
        }
    }
}

/// Which interface the kernel offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// Where groups can be made, found out once at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cgroups {
    version: Version,
    /// Parent directory of each controller that is usable. With version 2 all are the same.
    parents: Vec<(Controller, PathBuf)>,
}

impl Cgroups {
    /// Finds out which groups this process may make, by making one of each.
    pub(crate) fn detect() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (mounts, own) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
        let v2 = locate::v2(&mounts, &own).map(|parent| v2::usable(&parent)).unwrap_or_default();
        if !v2.is_empty() {
            return Self { version: Version::V2, parents: v2 };
        }
        let v1 = Controller::ALL.into_iter().filter_map(|controller| {
            let parent = locate::v1(&mounts, &own, controller.name())?;
            v1::is_usable(&parent, controller).then_some((controller, parent))
        });
        Self { version: Version::V1, parents: v1.collect() }
    }

    /// None at all: every limit falls back on what a process can hold by itself.
    #[cfg(test)]
    pub(crate) const fn none() -> Self {
        Self { version: Version::V2, parents: Vec::new() }
    }

    /// What enforces the limit that `controller` holds, if groups do.
    pub(crate) fn enforcement(&self, controller: Controller) -> Option<Enforcement> {
        let usable = self.parents.iter().any(|(known, _)| *known == controller);
        usable.then_some(match self.version {
            Version::V1 => Enforcement::CgroupV1,
            Version::V2 => Enforcement::CgroupV2,
        })
    }

    /// Directories of the group `name`, before it is made: what has to be on disk first.
    pub(crate) fn directories(&self, name: &str) -> Vec<PathBuf> {
        let mut directories: Vec<PathBuf> = self.parents.iter().map(|(_, parent)| parent.join(name)).collect();
        directories.dedup();
        directories
    }

    /// Makes the group `name` under `limits`.
    ///
    /// # Errors
    /// When a group that could be made at the start can't be made any more; nothing of it is left then.
    pub(crate) fn create(&self, name: &str, limits: &Limits) -> io::Result<Group> {
        let controllers = self.parents.iter().map(|(controller, parent)| (*controller, parent.join(name))).collect();
        let group = Group { version: self.version, controllers, removed: false };
        for directory in group.directories() {
            fs::create_dir(directory).map_err(|error| describe("make", directory, &error))?;
        }
        for (controller, directory) in &group.controllers {
            let set = match self.version {
                Version::V1 => v1::set(*controller, directory, limits),
                Version::V2 => v2::set(*controller, directory, limits),
            };
            set.map_err(|error| describe("limit", directory, &error))?;
        }
        Ok(group)
    }
}

/// What the name of a group begins with that is made to find out whether one can be, and removed at once.
const TRIAL: &str = "mosaic-trial";

/// A group in `parent` for a trial of this process. Those of processes that were killed in the middle of theirs are removed.
fn trial(parent: &Path) -> PathBuf {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_abandoned) {
            let _shows_when_made = fs::remove_dir(entry.path());
        }
    }
    let pid = std::process::id();
    let started = super::start_time(pid.cast_signed()).unwrap_or_default();
    parent.join(format!("{TRIAL}-{pid}-{started}-{:08x}", rand::random::<u32>()))
}

/// True of a trial's name whose process is gone.
fn is_abandoned(name: &str) -> bool {
    let mut parts = name.strip_prefix(TRIAL).unwrap_or_default().split('-').skip(1);
    let (pid, started) =
        (parts.next().and_then(|pid| pid.parse().ok()), parts.next().and_then(|time| time.parse().ok()));
    matches!((pid, started), (Some(pid), Some(started)) if super::start_time(pid) != Some(started))
}

fn describe(action: &str, directory: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("can't {action} the control group `{}`: {error}", directory.display()))
}

/// The control groups of one sandbox. Removed when dropped, if nothing is left in them.
#[derive(Debug)]
pub(crate) struct Group {
    version: Version,
    controllers: Vec<(Controller, PathBuf)>,
    removed: bool,
}

/// What the groups saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Processes that were killed for want of memory.
    pub(crate) oom_kills: u64,
    /// Highest use of memory, in bytes; 0 where it is not known.
    pub(crate) peak_bytes: u64,
    /// Forks that the limit of processes refused.
    pub(crate) refused_forks: u64,
}

impl Group {
    /// Files to which a process writes `0` to enter the group, each open for writing.
    ///
    /// # Errors
    /// When one can't be opened.
    pub(crate) fn doors(&self) -> io::Result<Vec<fs::File>> {
        self.directories()
            .map(|directory| fs::OpenOptions::new().write(true).open(directory.join("cgroup.procs")))
            .collect()
    }

    /// What happened so far.
    pub(crate) fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for (controller, directory) in &self.controllers {
            match (controller, self.version) {
                (Controller::Memory, Version::V1) => (usage.oom_kills, usage.peak_bytes) = v1::memory(directory),
                (Controller::Memory, Version::V2) => (usage.oom_kills, usage.peak_bytes) = v2::memory(directory),
                (Controller::Pids, _) => usage.refused_forks = counter(&directory.join("pids.events"), "max"),
                (Controller::Cpu, _) => {}
            }
        }
        usage
    }

    /// True when no process is in any of them.
    pub(crate) fn is_empty(&self) -> bool {
        self.directories().all(|directory| processes(directory).is_empty())
    }

    /// Kills whatever is in them. To be called again until [`Group::is_empty`]: processes may fork meanwhile.
    pub(crate) fn kill(&self) {
        self.directories().for_each(kill_all);
    }

    /// Removes the groups; true when they are gone.
    pub(crate) fn remove(&mut self) -> bool {
        self.removed = self.controllers.iter().all(|(_, directory)| remove(directory));
        self.removed
    }

    /// The directories, each once.
    fn directories(&self) -> impl Iterator<Item = &Path> {
        let mut last: Option<&Path> = None;
        self.controllers.iter().map(|(_, directory)| directory.as_path()).filter(move |directory| {
            let is_new = last != Some(*directory);
            last = Some(directory);
            is_new
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.removed && !self.remove() {
            tracing::warn!(cgroup.paths = ?self.controllers, "Could not remove a control group");
        }
    }
}

/// Kills and removes what an earlier life of this process left behind at `directories`; true when nothing is left.
pub(crate) fn clear(directories: &[PathBuf]) -> bool {
    for _ in 0..REMOVAL_ATTEMPTS {
        directories.iter().for_each(|directory| kill_all(directory));
        if directories.iter().all(|directory| fs::remove_dir(directory).is_ok() || !directory.exists()) {
            return true;
        }
        std::thread::sleep(REMOVAL_PAUSE);
    }
    false
}

fn kill_all(directory: &Path) {
    if fs::write(directory.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    for pid in processes(directory) {
        let _gone_already = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
    }
}

fn processes(directory: &Path) -> Vec<nix::unistd::Pid> {
    let list = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    // 0 is a process that can't be seen from here; it must never become the target "everybody in my group".
    let pids = list.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|&pid| pid > 1);
    pids.map(nix::unistd::Pid::from_raw).collect()
}

fn remove(directory: &Path) -> bool {
    for attempt in 0..REMOVAL_ATTEMPTS {
        match fs::remove_dir(directory) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            Err(_busy) if attempt + 1 < REMOVAL_ATTEMPTS => std::thread::sleep(REMOVAL_PAUSE),
            Err(_busy) => {}
        }
    }
    false
}

/// The number behind `key` in a file of `key number` lines; 0 when there is none.
fn counter(file: &Path, key: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
    value.unwrap_or(0)
}

/// The number that is a file's whole content; 0 when it is none.
fn number(file: &Path) -> u64 {
    fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
