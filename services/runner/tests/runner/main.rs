//! The runner with real sandboxes, from sealed bundles to reports.
//!
//! Where bubblewrap is missing its tests are skipped, loudly; with `MOSAIC_REQUIRE_ALL=1` that is a failure.

mod broker;
mod containment;
mod harness;
mod inside;
mod limits;
mod output;
mod recovery;
mod refusals;
mod reports;
mod stopping;
mod turns;
