//! The data root: its marker, its layout, its locks and its credential files
