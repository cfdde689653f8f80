//! What must not be left behind: processes, mounts, control groups, locks, temporary things, and records that are not final.

mod files;
mod kernel;
mod locks;
mod records;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::Operator;

/// How often an installation is looked at while it is not clean yet.
const PAUSE: Duration = Duration::from_millis(100);

/// Something that should not be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leftover {
    /// A process that belongs to a run or works in the data root.
    Process {
        /// Its id.
        pid: i32,
        /// By what it is known, and its command line.
        what: String,
    },
    /// A mount below the data root.
    Mount(String),
    /// A control group of a run.
    Group(PathBuf),
    /// A lock that nobody who lives should hold.
    Lock(String),
    /// A file or directory that is only there while something goes on.
    File(PathBuf),
    /// A record that is not final, or not what the ledger says.
    Record(String),
}

/// Looks for what an installation has left behind.
#[derive(Debug)]
pub struct Leftovers {
    data: PathBuf,
    killed: Vec<Pid>,
}

impl Leftovers {
    /// Of the installation whose data root is `data`.
    #[must_use]
    pub fn of(data: &Path) -> Self {
        Self { data: data.to_path_buf(), killed: Vec::new() }
    }

    /// A process of the installation was killed, which had made what carries its id.
    pub fn killed(&mut self, pid: Pid) {
        self.killed.push(pid);
    }

    /// Everything that is left, while the processes `live` may hold what services hold.
    #[must_use]
    pub fn look(&self, live: &[Pid]) -> Vec<Leftover> {
        let runs = files::run_ids(&self.data);
        let mut found = kernel::processes(&self.data, &runs, live);
        found.extend(kernel::mounts(&self.data));
        found.extend(kernel::groups(&runs, &self.killed));
        found.extend(locks::held(&self.data, live));
        found.extend(files::temporary(&self.data));
        found
    }

    /// The sandboxes that are there, by run: each by its pid namespace.
    #[must_use]
    pub fn sandboxes(&self) -> BTreeMap<String, BTreeSet<PathBuf>> {
        kernel::sandboxes(&self.data)
    }

    /// Everything that is wrong with the records.
    #[must_use]
    pub fn records(&self, operator: &Operator) -> Vec<Leftover> {
        records::wrong(&self.data, operator)
    }

    /// Waits until nothing is left.
    ///
    /// # Panics
    /// When something still is after `limit`.
    #[track_caller]
    pub fn expect_clean(&self, live: &[Pid], limit: Duration) {
        self.wait("left behind", limit, || self.look(live));
    }

    /// Waits until every run is over, once, and its files say what the ledger says.
    ///
    /// # Panics
    /// When something is still wrong after `limit`.
    #[track_caller]
    pub fn expect_recorded(&self, operator: &Operator, limit: Duration) {
        self.wait("wrong", limit, || self.records(operator));
    }

    #[track_caller]
    fn wait(&self, what: &str, limit: Duration, look: impl Fn() -> Vec<Leftover>) {
        let deadline = Instant::now() + limit;
        loop {
            let found = look();
            if found.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "{what} in `{}`: {found:#?}", self.data.display());
            std::thread::sleep(PAUSE);
        }
    }
}
