//! Whether a bundle may run at all, by the runner's own configuration, and under which epoch.

use mosaic_bundle::Launch;
use mosaic_record::{Backend, Environment, Refusal};

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotAdmitted {
    /// The refusal.
    pub(crate) refusal: Refusal,
    /// What, why and what to do.
    pub(crate) message: String,
}

/// Checks the launch against the environment that this runner was configured for.
pub(crate) fn admit(launch: &Launch, environment: Environment) -> Result<(), NotAdmitted> {
    if environment != Environment::Production {
        return Ok(());
    }
    let refused = |message: String| Err(NotAdmitted { refusal: Refusal::BackendNotAllowed, message });
    if launch.backend == Backend::Host {
        return refused(
            "the backend `host` contains nothing and is refused in production; use `bubblewrap`".to_owned(),
        );
    }
    if mosaic_adapters::is_synthetic(&launch.adapter) {
        return refused(format!("the adapter `{}` is for tests and is refused in production", launch.adapter));
    }
    Ok(())
}

/// What a StartRun means for an execution that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// The same call again: the execution is returned.
    Same,
    /// A launcher has taken over: the execution goes on under its epoch.
    Adopt,
    /// Somebody whose lease is over.
    Stale,
}

/// Compares the epoch of a StartRun with the one that an execution works under.
pub(crate) fn again(present: i64, asked: i64) -> Again {
    match asked.cmp(&present) {
        std::cmp::Ordering::Equal => Again::Same,
        std::cmp::Ordering::Greater => Again::Adopt,
        std::cmp::Ordering::Less => Again::Stale,
    }
}

#[cfg(test)]
mod tests {
    use mosaic_bundle::WorkspaceKind;
    use mosaic_record::Limits;

    use super::*;

    fn launch(adapter: &str, backend: Backend) -> Launch {
        Launch {
            run_id: "r-1".parse().expect("run id"),
            adapter: adapter.parse().expect("name"),
            provider: None,
            model: None,
            thinking: None,
            tools: Vec::new(),
            workspace: WorkspaceKind::None,
            session: None,
            expect_exact: None,
            mock_response: None,
            backend,
            workspace_mode: mosaic_record::WorkspaceMode::Sandbox,
            containment: true,
            mixed_wiring_allowed: false,
            workspace_root: None,
            warnings: vec![],
            limits: Limits::default(),
        }
    }

    #[test]
    fn production_refuses_what_contains_nothing_and_what_is_for_tests() {
        for (adapter, backend, in_production) in [
            ("mine", Backend::Bubblewrap, true),
            ("mine", Backend::Host, false),
            ("mock", Backend::Bubblewrap, false),
            ("scripted", Backend::Bubblewrap, false),
        ] {
            let launch = launch(adapter, backend);
            assert_eq!(admit(&launch, Environment::Production).is_ok(), in_production, "{adapter} {backend}");
            assert_eq!(admit(&launch, Environment::Development), Ok(()), "{adapter} {backend}");
        }
    }

    #[test]
    fn a_lower_epoch_is_stale_and_a_higher_one_takes_over() {
        assert_eq!([again(2, 1), again(2, 2), again(2, 3)], [Again::Stale, Again::Same, Again::Adopt]);
    }
}
