//! Tracing, log output and trace context of every Mosaic process
