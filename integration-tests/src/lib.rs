//! What the integration tests share: an installation of its own for every test, and waiting for a condition.

mod installation;
mod require;
mod wait;

pub use installation::{Finished, Installation, User};
pub use require::{available, is_root};
pub use wait::wait_for;
