//! Strict intake of JSON documents, the configuration and the limits table.
//!
//! Everything that people write is taken strictly: an unknown key, a wrong type, an empty string or a value outside of its
//! list is an error that names the document, the key and what would be right.

mod business;
mod config;
mod intake;
mod retention;
mod values;

pub use business::{Business, BusinessFile, Check, CheckFile, ProjectFile};
pub use config::{Config, ConfigError, ConfigFile, Execution, ExecutionFile, TelemetryFile};
pub use intake::{IntakeError, parse};
pub use retention::{Retention, RetentionFile, Rule, RuleFile};
pub use values::{LimitsPatch, Text, Tools};
