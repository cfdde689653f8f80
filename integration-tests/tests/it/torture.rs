//! Processes that are killed, frozen and cut off from each other: nothing that was acknowledged is lost, nothing is left
//! behind, and every run has one end.

mod apart;
mod checker;
mod frozen;
mod host;
mod load;
mod preparing;
mod scene;
mod services;
mod stopping;
mod watching;

use std::time::Duration;

pub(crate) use host::{host, until_it_serves};

/// How long recovery may take before something counts as left behind.
pub(crate) const RECOVERY: Duration = Duration::from_secs(30);

/// How long something may take that takes a moment.
pub(crate) const SOON: Duration = Duration::from_secs(30);
