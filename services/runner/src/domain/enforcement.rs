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
        ("openFiles", Enforcement::Rlimit),
        ("cpus", groups.cpus.unwrap_or(Enforcement::None)),
        ("memoryBytes", groups.memory.unwrap_or(Enforcement::Rlimit)),
        ("processes", groups.processes.unwrap_or(Enforcement::RlimitPerUid)),
        ("temporaryBytes", temporary),
    ]
    .map(|(key, by)| (key.to_owned(), by))
    .into()
}

/// Keys of the limits that nothing enforces although the environment needs them enforced.
///
/// Processor time is not among them: an agent that gets more of it slows others down and reaches nothing else.
pub(crate) fn missing(environment: Environment, limits: &BTreeMap<String, Enforcement>) -> Vec<&str> {
    if environment != Environment::Production {
        return Vec::new();
    }
    let needed = limits.iter().filter(|(key, _)| key.as_str() != "cpus");
    needed.filter(|(_, by)| **by == Enforcement::None).map(|(key, _)| key.as_str()).collect()
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
        let host = enforcement(Backend::Host, Groups::default());
        assert_eq!(missing(Environment::Production, &host), ["temporaryBytes"]);
        assert_eq!(missing(Environment::Development, &host), [""; 0]);
        let contained = enforcement(Backend::Bubblewrap, Groups::default());
        assert_eq!(missing(Environment::Production, &contained), [""; 0]);
    }
}
