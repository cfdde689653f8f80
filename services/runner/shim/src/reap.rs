use std::collections::HashMap;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid};

use crate::protocol::Exit;
use crate::signals::kill_process;

/// Longest time that the shim goes on killing what is left; the runner kills the shim itself when that is not enough.
const PATIENCE: Duration = Duration::from_secs(20);

/// What one look for ended children gave.
enum Look {
    /// A child has ended, and how.
    Ended(Pid, Exit),
    /// No child has ended.
    NoneYet,
    /// There is no child.
    NoChild,
}

/// Reaps one child, if one has ended.
#[expect(unsafe_code, reason = "the safe wrapper loses the end of a child that a real-time signal killed")]
fn look() -> Look {
    let mut status = 0;
    // SAFETY: the pointer is to a live integer, which the kernel fills.
    match unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) } {
        0 => Look::NoneYet,
        pid if pid > 0 && libc::WIFSIGNALED(status) => {
            Look::Ended(Pid::from_raw(pid), Exit::Signal(libc::WTERMSIG(status)))
        }
        pid if pid > 0 => Look::Ended(Pid::from_raw(pid), Exit::Code(libc::WEXITSTATUS(status))),
        _ => Look::NoChild,
    }
}

/// Reaps everything that has ended; tells how `adapter` ended if it is among them.
pub(crate) fn reap(adapter: Pid) -> Option<Exit> {
    let mut ended = None;
    while let Look::Ended(pid, exit) = look() {
        if pid == adapter {
            ended = Some(exit);
        }
    }
    ended
}

/// Kills and reaps whatever is left.
///
/// In a pid namespace that is everything but this process. On a host it is every descendant: this process is their
/// subreaper, so that none can leave; a process that is forked while we look is found by the next look.
pub(crate) fn end_everything(own_namespace: bool) {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if own_namespace {
            let _nobody_left = kill(Pid::from_raw(-1), Signal::SIGKILL);
        } else {
            for pid in descendants(&parents(), getpid().as_raw()) {
                kill_process(Pid::from_raw(pid));
            }
        }
        loop {
            match look() {
                Look::Ended(..) => {}
                Look::NoneYet => break,
                Look::NoChild => return,
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Every process that can be seen, with its parent.
fn parents() -> HashMap<i32, i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return HashMap::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| Some((pid, parent_in_stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect()
}

/// The parent's pid in the content of `/proc/<pid>/stat`, whose second field is a name that may hold anything.
fn parent_in_stat(stat: &[u8]) -> Option<i32> {
    let after_name = stat.iter().rposition(|&byte| byte == b')')? + 1;
    std::str::from_utf8(&stat[after_name..]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Everything below `root`, without `root` itself.
fn descendants(parents: &HashMap<i32, i32>, root: i32) -> Vec<i32> {
    let is_below = |pid: i32| {
        let mut current = pid;
        // A list taken while processes come and go may hold a circle; no chain is longer than the list.
        for _ in 0..parents.len() {
            match parents.get(&current) {
                Some(&parent) if parent == root => return true,
                Some(&parent) => current = parent,
                None => return false,
            }
        }
        false
    };
    let mut found: Vec<i32> = parents.keys().copied().filter(|&pid| pid != root && is_below(pid)).collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_at_every_depth_and_nobody_else() {
        let parents = HashMap::from([(1, 0), (10, 1), (11, 10), (12, 11), (13, 12), (20, 1), (21, 20)]);
        assert_eq!(descendants(&parents, 10), [11, 12, 13]);
        assert_eq!(descendants(&parents, 21), [0; 0]);
    }

    #[test]
    fn a_circle_in_the_list_ends_the_search() {
        let parents = HashMap::from([(10, 1), (11, 12), (12, 11), (13, 13)]);
        assert_eq!(descendants(&parents, 10), [0; 0]);
    }

    #[test]
    fn the_parent_is_found_behind_any_name() {
        for (stat, parent) in [
            (&b"7 (sh) S 3 7 7 0"[..], Some(3)),
            (b"7 (a) R 9 (b) S 4 1", Some(4)),
            (b"7 (\xff\n ) Z 5 0", Some(5)),
            (b"7 sh", None),
            (b"", None),
        ] {
            assert_eq!(parent_in_stat(stat), parent, "{stat:?}");
        }
    }
}
