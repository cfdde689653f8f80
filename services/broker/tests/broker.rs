//! The broker as its callers see it: a real ledger, a real socket, real tokens.

#[path = "broker/authority.rs"]
mod authority;
#[path = "broker/bed.rs"]
mod bed;
#[path = "broker/creation.rs"]
mod creation;
#[path = "broker/harvest.rs"]
mod harvest;
#[path = "broker/killing.rs"]
mod killing;
#[path = "broker/leases.rs"]
mod leases;
#[path = "broker/life.rs"]
mod life;
#[path = "broker/listing.rs"]
mod listing;
#[path = "broker/pipelining.rs"]
mod pipelining;
#[path = "broker/reports.rs"]
mod reports;
#[path = "broker/retention/mod.rs"]
mod retention;
#[path = "broker/soaking.rs"]
mod soaking;
#[path = "broker/verifying.rs"]
mod verifying;
#[path = "broker/watching.rs"]
mod watching;
#[path = "broker/writing.rs"]
mod writing;
