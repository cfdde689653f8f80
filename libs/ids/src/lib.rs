//! Identifiers and names shared by every service.
//!
//! Every id is a type of its own that can only be made by validating, so that a string that came from outside is checked
//! once, at the edge, and a path built from one can't leave the directory it is joined to.

mod digest;
mod name;
mod run_id;

pub use digest::{Digest, InvalidDigest};
pub use name::{InvalidName, Name, RequestId};
pub use run_id::{InvalidRunId, RunId};

/// Defines the conversions that every validated string type has.
macro_rules! string_id {
    ($type:ident, $error:ident, $pattern:literal) => {
        impl $type {
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl AsRef<std::path::Path> for $type {
            fn as_ref(&self) -> &std::path::Path {
                std::path::Path::new(&self.0)
            }
        }
        impl TryFrom<String> for $type {
            type Error = $error;
            fn try_from(text: String) -> Result<Self, $error> {
                text.parse()
            }
        }
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "pattern": $pattern})
            }
        }
        impl From<$type> for String {
            fn from(id: $type) -> String {
                id.0
            }
        }
    };
}
use string_id;
