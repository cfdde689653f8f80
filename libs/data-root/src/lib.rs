//! The data root: its marker, its layout, its locks and its credential files.
//!
//! Invariants:
//! - A directory is ours only when it carries the marker file; an existing empty directory becomes one, any other is
//!   refused.
//! - It is worked on by its owner only, and `run/` and `credentials/` are real directories of mode 0700.
//! - Every path below it is made here, from validated ids, so that no other code joins paths by hand.

mod credentials;
mod error;
mod layout;
mod lock;
mod remove;
mod service;

pub use credentials::{Credentials, LedgerKey, Token, TokenHashes};
pub use error::DataRootError;
pub use layout::{DataRoot, check_path};
pub use lock::{Holder, LockHeld, ProcessLock};
pub use remove::remove_tree;
pub use service::Service;
