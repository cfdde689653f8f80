//! Start, shutdown, tracked tasks, clocks and data-root locks of a Mosaic process
