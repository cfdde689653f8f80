//! Hosting: at most one host a data root. `mosaic up` is it; a command that finds none starts one in the background.

pub(crate) mod attach;
pub(crate) mod background;
mod identity;
mod serve;

pub(crate) use identity::{HostFile, Identity, Kind};
pub(crate) use serve::{HostError, HostOptions, serve};
