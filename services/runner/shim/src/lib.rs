//! Process 1 of every sandbox
