//! Tests of real services together
