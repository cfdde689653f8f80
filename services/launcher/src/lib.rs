//! Decides what may run and prepares it
