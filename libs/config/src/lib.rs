//! Strict intake of JSON documents, the configuration and the limits table
