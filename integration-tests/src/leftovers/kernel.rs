//! What the kernel knows: processes, mounts, control groups.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;

use super::Leftover;

/// What of a process may name a run or a data root: files of /proc, and links.
const FILES: [&str; 4] = ["environ", "cmdline", "mountinfo", "cgroup"];
const LINKS: [&str; 3] = ["cwd", "root", "exe"];

/// Processes beside `live` that name the data root or one of its runs anywhere, and dead children that a live one has not
/// taken leave of.
pub(super) fn processes(data: &Path, runs: &[String], live: &[Pid]) -> Vec<Leftover> {
    let own = Pid::this();
    let entries = fs::read_dir("/proc").expect("/proc is there");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).map(Pid::from_raw);
    let mut found = Vec::new();
    for pid in pids.filter(|pid| *pid != own && !live.contains(pid)) {
        if let Some(what) = names(pid, data, runs).or_else(|| zombie_of(pid, live)) {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            found.push(Leftover::Process { pid: pid.as_raw(), what: format!("{what}: {command:.300}") });
        }
    }
    found
}

/// The pid namespaces of processes that have the private state of a run mounted, by run.
pub(super) fn sandboxes(data: &Path) -> BTreeMap<String, BTreeSet<PathBuf>> {
    let runs = data.join("runs");
    let runs = format!("{}/", runs.display());
    let own = fs::read_link("/proc/self/ns/pid").ok();
    let entries = fs::read_dir("/proc").expect("/proc is there");
    let mut found: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    for pid in entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok()) {
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let namespace = fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let Some(namespace) = namespace.filter(|namespace| Some(namespace) != own.as_ref()) else { continue };
        let private = mounts.split(' ').filter_map(|field| field.split_once(&runs)?.1.strip_suffix("/private"));
        for run in private {
            found.entry(run.to_owned()).or_default().insert(namespace.clone());
        }
    }
    found
}

/// By what a process is known to belong to the data root or to a run.
fn names(pid: Pid, data: &Path, runs: &[String]) -> Option<&'static str> {
    let data = data.as_os_str().as_bytes();
    let belongs = |text: &[u8]| contains(text, data) || runs.iter().any(|run| contains(text, run.as_bytes()));
    let file = FILES.into_iter().find(|file| belongs(&fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default()));
    let link = || {
        let target = |link: &&str| fs::read_link(format!("/proc/{pid}/{link}"));
        LINKS.into_iter().find(|link| target(link).is_ok_and(|target| belongs(target.as_os_str().as_bytes())))
    };
    file.or_else(link)
}

fn zombie_of(pid: Pid, live: &[Pid]) -> Option<&'static str> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let (state, parent) = (fields.next()?, fields.next()?.parse().ok()?);
    (state == "Z" && live.contains(&Pid::from_raw(parent))).then_some("a zombie of a service")
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Mounts below the data root.
pub(super) fn mounts(data: &Path) -> Vec<Leftover> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("readable");
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    points.filter(|point| Path::new(point).starts_with(data)).map(|point| Leftover::Mount(point.to_owned())).collect()
}

/// Control groups that carry the id of a run, or of a process that was killed in the middle of a trial, wherever they are.
pub(super) fn groups(runs: &[String], killed: &[Pid]) -> Vec<Leftover> {
    let trials: Vec<String> = killed.iter().map(|pid| format!("mosaic-trial-{pid}-")).collect();
    let is_ours = |name: &[u8]| runs.iter().chain(&trials).any(|part| contains(name, part.as_bytes()));
    let mut found = Vec::new();
    let mut directories = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = directories.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if is_ours(entry.file_name().as_bytes()) {
                found.push(Leftover::Group(entry.path()));
            } else {
                directories.push(entry.path());
            }
        }
    }
    found
}
