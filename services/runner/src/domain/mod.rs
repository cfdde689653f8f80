//! Decisions: pure functions and states, without clock, kernel or network.

pub(crate) mod admission;
pub(crate) mod enforcement;
pub(crate) mod environment;
pub(crate) mod message;
pub(crate) mod outcome;
pub(crate) mod response;
pub(crate) mod standstill;
pub(crate) mod turn;
