//! What the integration tests share: an installation of its own for every test, its services together or apart, a person
//! with a client, what must not be left behind, and waiting for a condition.

mod apart;
mod installation;
mod leftovers;
mod operator;
mod process;
mod require;
mod soak;
mod wait;

pub use apart::Apart;
pub use installation::{Finished, Installation, User};
pub use leftovers::{Leftover, Leftovers};
pub use operator::Operator;
pub use process::Process;
pub use require::{available, is_root};
pub use soak::{Chance, report, soak};
pub use wait::wait_for;
