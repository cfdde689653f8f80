//! Runs a sealed bundle in a sandbox and reports what happened
