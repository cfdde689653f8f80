use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mosaic_record::Limits;

use super::{CPU_PERIOD_MICROS, Controller, OWN_PROCESSES, counter, number, trial};

/// Group into which the runner itself moves: a group that has controllers for its children may hold no process.
const OWN_GROUP: &str = "mosaic-services";

/// The controllers with which groups can be made below `parent`, this process's own group.
///
/// Needs a delegated group: `systemd-run --user --scope -p Delegate=yes`, a unit with `Delegate=yes`, or a container with
/// a writable hierarchy of its own. Where other processes share the group, nothing is moved and nothing is usable.
pub(super) fn usable(parent: &Path) -> Vec<(Controller, PathBuf)> {
    let offered = fs::read_to_string(parent.join("cgroup.controllers")).unwrap_or_default();
    let offered = |controller: &Controller| offered.split_ascii_whitespace().any(|name| name == controller.name());
    let wanted: Vec<Controller> = Controller::ALL.into_iter().filter(offered).collect();
    if !wanted.contains(&Controller::Memory) && !wanted.contains(&Controller::Pids) {
        return Vec::new();
    }
    if enable(parent, &wanted).is_err() && (move_away(parent).is_err() || enable(parent, &wanted).is_err()) {
        return Vec::new();
    }
    let trial = trial(parent);
    let can_make = fs::create_dir(&trial).and_then(|()| fs::remove_dir(&trial)).is_ok();
    if can_make { wanted.into_iter().map(|controller| (controller, parent.into())).collect() } else { Vec::new() }
}

fn enable(parent: &Path, controllers: &[Controller]) -> io::Result<()> {
    let file = parent.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&file)?;
    for controller in controllers {
        if !enabled.split_ascii_whitespace().any(|name| name == controller.name()) {
            fs::write(&file, format!("+{}", controller.name()))?;
        }
    }
    Ok(())
}

/// Moves this process, and no other, one level down.
fn move_away(parent: &Path) -> io::Result<()> {
    let own = parent.join(OWN_GROUP);
    match fs::create_dir(&own) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    fs::write(own.join("cgroup.procs"), "0")
}

pub(super) fn set(controller: Controller, group: &Path, limits: &Limits) -> io::Result<()> {
    match controller {
        Controller::Memory => {
            fs::write(group.join("memory.max"), limits.memory_bytes.to_string())?;
            // Swap is counted apart here; without any, memory alone is the limit.
            match fs::write(group.join("memory.swap.max"), "0") {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        }
        Controller::Pids => fs::write(group.join("pids.max"), (limits.processes + OWN_PROCESSES).to_string()),
        Controller::Cpu => {
            let quota = limits.cpus * CPU_PERIOD_MICROS;
            fs::write(group.join("cpu.max"), format!("{quota} {CPU_PERIOD_MICROS}"))
        }
    }
}

/// Processes killed for want of memory, and the highest use of it.
pub(super) fn memory(group: &Path) -> (u64, u64) {
    (counter(&group.join("memory.events"), "oom_kill "), number(&group.join("memory.peak")))
}
