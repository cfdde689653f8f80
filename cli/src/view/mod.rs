//! What people and programs see.

pub(crate) mod describe;
pub(crate) mod follow;
pub(crate) mod pager;
pub(crate) mod patch;
pub(crate) mod progress;
pub(crate) mod record;
pub(crate) mod text;
