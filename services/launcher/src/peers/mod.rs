//! The services that the launcher calls. Generated types stop here and in `rpc/convert.rs`.

mod broker;
mod retention;
mod retry;
mod runner;

pub use broker::{Broker, Created, Leased, RunView, Turn};
pub use retention::{Cut, PastRun, Retention};
pub use retry::persist;
pub use runner::{Ended, Runner};
