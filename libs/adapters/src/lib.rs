//! The adapters that come with Mosaic, and the metadata every adapter has
