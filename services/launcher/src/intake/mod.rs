//! Strict intake of missions and tasks.

mod mission;
mod task;

pub use mission::MissionFile;
pub use task::{Capabilities, TaskFile};

use mosaic_config::IntakeError;

/// Largest document that is read, in bytes.
pub const DOCUMENT_BYTES: usize = 36 * 1024 * 1024;
/// Longest name of a document, in bytes.
const DOCUMENT_NAME_BYTES: usize = 255;

/// Checks what surrounds a document before it is read.
///
/// # Errors
/// When its name is empty, too long or not printable, or its text too large.
pub fn check_envelope(document: &mosaic_record::Document) -> Result<(), IntakeError> {
    let name = &document.name;
    if name.is_empty() || name.len() > DOCUMENT_NAME_BYTES || name.chars().any(char::is_control) {
        let problem = format!("a name has 1 to {DOCUMENT_NAME_BYTES} bytes and no control characters");
        return Err(IntakeError::new("document", "name", problem));
    }
    if document.content.len() > DOCUMENT_BYTES {
        let problem = format!("it has {} bytes; at most {DOCUMENT_BYTES} are read", document.content.len());
        return Err(IntakeError::new(name, "", problem));
    }
    Ok(())
}
