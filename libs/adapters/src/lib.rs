//! The adapters that come with Mosaic, and the metadata every adapter has.
//!
//! An adapter is a directory with `adapter.sh` and `adapter.json`. Nothing else in Mosaic knows a harness.

mod builtin;
mod find;
mod metadata;

pub use builtin::{CHECK, is_builtin, is_synthetic};
pub use find::{Adapter, AdapterError, find};
pub use metadata::{ActivityDeclared, Metadata, TurnMarker};
