//! What enforces each limit, and whether that is enough.

use std::collections::BTreeMap;

use mosaic_record::{Backend, Enforcement, Environment};

/// What the host's control groups can enforce; `None` where they can't.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Groups {
    /// Memory.
    pub(crate) memory: Option<Enforcement>,
    /// Processes.
    pub(crate) processes: Option<Enforcement>,
    /// Processor time.
    pub(crate) cpus: Option<Enforcement>,
}

/// What enforces each limit, by its key.
pub(crate) fn enforcement(backend: Backend, groups: Groups) -> BTreeMap<String, Enforcement> {
    let temporary = if backend == Backend::Host { Enforcement::None } else { Enforcement::Tmpfs };
    [
        ("timeoutSeconds", Enforcement::Runner),
        ("sandboxStartSeconds", Enforcement::Runner),
        ("noActivitySeconds", Enforcement::Runner),
        ("stopGraceSeconds", Enforcement::Runner),
        ("lingerSeconds", Enforcement::Runner),
        ("cleanUpSeconds", Enforcement::Runner),
        ("outputBytes", Enforcement::Runner),
        ("harvestEntries", Enforcement::Launcher),
        ("harvestBytes", Enforcement::Launcher),
        ("openFiles", Enforcement::Rlimit),
        ("cpus", groups.cpus.unwrap_or(Enforcement::None)),
        ("memoryBytes", groups.memory.unwrap_or(Enforcement::Rlimit)),
        ("processes", groups.processes.unwrap_or(Enforcement::RlimitPerUid)),
        ("temporaryBytes", temporary),
    ]
    .map(|(key, by)| (key.to_owned(), by))
    .into()
}

/// Keys of the limits that nothing enforces although the environment needs them enforced: in production every one.
///
/// A resource limit enforces, also one that runs share. Processors have none: without a control group nothing holds them.
pub(crate) fn missing(environment: Environment, limits: &BTreeMap<String, Enforcement>) -> Vec<&str> {
    if environment != Environment::Production {
        return Vec::new();
    }
    limits.iter().filter(|(_, by)| **by == Enforcement::None).map(|(key, _)| key.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use mosaic_record::LIMITS;

    use super::*;

    #[test]
    fn every_limit_says_what_enforces_it() {
        let limits = enforcement(Backend::Bubblewrap, Groups::default());
        let mut keys: Vec<&str> = LIMITS.iter().map(|limit| limit.key).collect();
        keys.sort_unstable();
        assert_eq!(limits.keys().map(String::as_str).collect::<Vec<_>>(), keys);
        assert_eq!(limits["memoryBytes"], Enforcement::Rlimit);
        assert_eq!(limits["processes"], Enforcement::RlimitPerUid);
    }

    #[test]
    fn groups_take_over_what_they_can() {
        let groups = Groups { memory: Some(Enforcement::CgroupV1), ..Groups::default() };
        let limits = enforcement(Backend::Bubblewrap, groups);
        assert_eq!(limits["memoryBytes"], Enforcement::CgroupV1);
        assert_eq!(limits["cpus"], Enforcement::None);
    }

    #[test]
    fn production_misses_what_nothing_enforces() {
        let cgroup = Some(Enforcement::CgroupV2);
        let all = Groups { memory: cgroup, processes: cgroup, cpus: cgroup };
        let only_cpus = Groups { cpus: cgroup, ..Groups::default() };
        let no_cpus = Groups { cpus: None, ..all };
        let none = Groups::default();
        let table: [(Backend, Groups, &[&str]); 7] = [
            (Backend::Bubblewrap, all, &[]),
            // Memory and processes fall back on resource limits.
            (Backend::Bubblewrap, only_cpus, &[]),
            (Backend::Bubblewrap, no_cpus, &["cpus"]),
            (Backend::Bubblewrap, none, &["cpus"]),
            (Backend::Host, all, &["temporaryBytes"]),
            (Backend::Host, only_cpus, &["temporaryBytes"]),
            (Backend::Host, none, &["cpus", "temporaryBytes"]),
        ];
        for (backend, groups, expected) in table {
            let limits = enforcement(backend, groups);
            assert_eq!(missing(Environment::Production, &limits), expected, "{backend} {groups:?}");
            assert_eq!(missing(Environment::Development, &limits), [""; 0], "{backend} {groups:?}");
        }
    }
}
