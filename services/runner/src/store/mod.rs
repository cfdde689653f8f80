//! What the runner keeps on disk: of each execution until its end is reported, and the private state of a run while its
//! sandbox is there.

mod private;
mod record;
mod spool;

pub(crate) use private::make as make_private;
pub(crate) use record::{ExecutionRecord, exists as has_record, read as read_record, write as write_record};
pub(crate) use spool::{Entry, Spool};
