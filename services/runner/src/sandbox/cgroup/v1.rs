use std::fs;
use std::io;
use std::path::Path;

use mosaic_record::Limits;

use super::{CPU_PERIOD_MICROS, Controller, OWN_PROCESSES, counter, number, trial};

/// True when a group with the controller's limit can be made below `parent`.
pub(super) fn is_usable(parent: &Path, controller: Controller) -> bool {
    let trial = trial(parent);
    if fs::create_dir(&trial).is_err() {
        return false;
    }
    let limit = match controller {
        Controller::Memory => "memory.limit_in_bytes",
        Controller::Pids => "pids.max",
        Controller::Cpu => "cpu.cfs_quota_us",
    };
    let has_limit = trial.join(limit).exists();
    fs::remove_dir(&trial).is_ok() && has_limit
}

pub(super) fn set(controller: Controller, group: &Path, limits: &Limits) -> io::Result<()> {
    let write = |file: &str, value: u64| fs::write(group.join(file), value.to_string());
    match controller {
        Controller::Memory => {
            write("memory.limit_in_bytes", limits.memory_bytes)?;
            // Memory and swap together, so that swap adds nothing; absent where the kernel does not count swap.
            match write("memory.memsw.limit_in_bytes", limits.memory_bytes) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        }
        Controller::Pids => write("pids.max", limits.processes + OWN_PROCESSES),
        Controller::Cpu => {
            write("cpu.cfs_period_us", CPU_PERIOD_MICROS)?;
            write("cpu.cfs_quota_us", limits.cpus * CPU_PERIOD_MICROS)
        }
    }
}

/// Processes killed for want of memory, and the highest use of it.
pub(super) fn memory(group: &Path) -> (u64, u64) {
    let kills = counter(&group.join("memory.oom_control"), "oom_kill ");
    let peaks = ["memory.max_usage_in_bytes", "memory.memsw.max_usage_in_bytes"];
    (kills, peaks.into_iter().map(|file| number(&group.join(file))).max().unwrap_or(0))
}
