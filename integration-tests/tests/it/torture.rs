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

/// How long recovery may take before something counts as left behind.
const RECOVERY: Duration = Duration::from_secs(30);

/// How long something may take that takes a moment.
const SOON: Duration = Duration::from_secs(30);
