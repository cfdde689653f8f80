//! Decisions of the launcher: pure functions of what they are given.

pub mod admission;
pub mod check;
pub mod disk;
pub mod policy;
pub mod prompt;
pub mod retention;
pub mod retry;
