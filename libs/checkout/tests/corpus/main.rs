//! Clones that agents have worked on, honest and hostile, each built by real git, and what must become of them: nothing of
//! the agent's runs, nothing outside of the clone changes, the root stays as it is, a clone that is kept stays exactly as it
//! is, and one that is brought up to date holds exactly what the root holds.

mod agent;
mod bed;
mod benign;
mod check;
mod commands;
mod dotgit;
mod hangs;
mod index;
mod killed;
mod lies;
mod making;
mod mutations;
mod outside;
mod racing;
mod roots;
mod states;
mod together;
mod troubled;
mod unprivileged;
