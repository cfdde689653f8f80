//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use mosaic_ids::{Name, RunId};
use mosaic_lifecycle::parse_duration;
use mosaic_record::{Backend, RunStatus};

/// Runs coding agents unattended, contained and on the record.
#[derive(Debug, Parser)]
#[command(name = "mosaic", version, propagate_version = true, after_help = EXIT_STATUS)]
pub(crate) struct Arguments {
    /// Configuration file [default: $MOSAIC_CONFIG, ./config.json, then the user's configuration directory]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_STATUS: &str = "\
Exit status:
  0  done
  1  the run did not succeed; the ledger is not intact; something was to be pruned and could not
  2  rejected by validation, nothing was recorded
  3  the services can't be reached, don't match, or refused the credential
  4  usage, or no such thing
  5  a recorded run ended refused";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the whole path once: a small repository, an agent that edits it, the record
    Demo(Demo),
    /// Run a task file and follow it to its record
    Run(Run),
    /// Follow a run: its events and its output
    Watch(Watch),
    /// Show the record of a run
    Show(Show),
    /// Show what a run has changed in a project, as a patch; into a pipe, the patch alone
    Patch(Patch),
    /// List runs, newest first
    List(List),
    /// End a run: its adapter is asked to end, then its whole sandbox is killed
    Stop(Stop),
    /// Launch a run again, from the snapshots in its record
    Retry(Retry),
    /// Check a task file and what it refers to, and record nothing
    Validate(Validate),
    /// Ask the configured adapter for the start-up marker; exit 0 only on the exact marker
    Verify(Verify),
    /// Host the services in this process, for everything that is queued
    Up(Up),
    /// The configuration
    #[command(subcommand)]
    Config(Config),
    /// Take the work of a run into one's own repository, as one new branch
    Apply(Apply),
    /// Keep a run: nothing of it is ever pruned
    Keep(Keep),
    /// Remove what the retention rules say may go: runs, output, `:run` workspaces, sessions
    Prune(Prune),
    /// The ledger
    #[command(subcommand)]
    Ledger(Ledger),
    /// Clones of projects that agents have had under their hands, looked at without trusting them
    #[command(subcommand)]
    Checkout(Checkout),
    /// Remove everything that Mosaic has put into its data root: runs, workspaces, sessions, the ledger, the tokens
    Reset(Reset),
    /// Check what this machine offers and say how to mend what it lacks
    Doctor(Doctor),
    /// Print a completion script for a shell
    Completions(Completions),
}

/// Options of `mosaic apply`.
#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The run
    pub run: RunId,
    /// The project; needed when the run had several
    #[arg(long, value_name = "ID")]
    pub project: Option<Name>,
    /// Name of the new branch [default: mosaic/RUN]
    #[arg(long, value_name = "NAME")]
    pub branch: Option<String>,
    /// Branch of the repository that the work is put onto [default: the one that is checked out]
    #[arg(long, value_name = "NAME", conflicts_with = "on_base")]
    pub onto: Option<String>,
    /// Take the work as it was, on the commit that it is based on
    #[arg(long)]
    pub on_base: bool,
    /// Check of the business file that must pass first; may be given several times
    #[arg(long, value_name = "NAME")]
    pub check: Vec<Name>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What an operator may set for one launch.
#[derive(Debug, Clone, Args)]
pub(crate) struct Overrides {
    /// Adapter instead of the configured one
    #[arg(long, value_name = "NAME")]
    pub adapter: Option<Name>,
    /// Model instead of the configured one
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Response of the adapter `mock`, verbatim [default: $MOSAIC_MOCK_RESPONSE]
    #[arg(long, value_name = "TEXT")]
    pub mock_response: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Task file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
    /// Print the run's id and return; the run goes on
    #[arg(long)]
    pub detach: bool,
    /// Refuse instead of waiting when workspace or session is in use
    #[arg(long)]
    pub no_wait: bool,
    /// Print the record as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Retry {
    /// Run
    #[arg(value_name = "RUN")]
    pub run: RunId,
    #[command(flatten)]
    pub overrides: Overrides,
    /// Print the new run's id and return; the run goes on
    #[arg(long)]
    pub detach: bool,
    /// Refuse instead of waiting when workspace or session is in use
    #[arg(long)]
    pub no_wait: bool,
    /// Print the record as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Run
    #[arg(value_name = "RUN")]
    pub run: RunId,
    /// First event to show, by its sequence
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    pub from: i64,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Run
    #[arg(value_name = "RUN")]
    pub run: RunId,
    /// Print the record as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Patch {
    /// Run
    #[arg(value_name = "RUN")]
    pub run: RunId,
    /// Project; may be left out for a run that has one
    #[arg(long, value_name = "NAME")]
    pub project: Option<Name>,
    /// List the files that changed instead, and what to look at
    #[arg(long, conflicts_with = "json")]
    pub stat: bool,
    /// Print what changed, what to look at and what is left out as one JSON object
    #[arg(long)]
    pub json: bool,
    /// When to colour it
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: When,
    /// Don't page it at a terminal [default: by $PAGER, else by `less -R`]
    #[arg(long)]
    pub no_pager: bool,
}

/// When something is done that is for terminals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// At a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only runs of this status; may be given several times
    #[arg(long, value_name = "STATUS")]
    pub status: Vec<RunStatus>,
    /// Most runs to show
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: usize,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Stop {
    /// Run
    #[arg(value_name = "RUN")]
    pub run: RunId,
    /// Return only when the run is over
    #[arg(long)]
    pub wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// Task file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
    /// Print what would run as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub overrides: Overrides,
    /// Print the record as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Backend of the demo's sandbox; `host` contains nothing
    #[arg(long, value_name = "BACKEND", default_value = "bubblewrap")]
    pub backend: Backend,
    /// Directory that the demo makes
    #[arg(long, value_name = "DIR", default_value = "mosaic-demo")]
    pub directory: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    /// End when nobody has been attached and no run has been unfinished for this long, for example 60s
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub idle_exit: Option<Duration>,
    /// How long running work may go on after the host was asked to end
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s")]
    pub drain: Duration,
    /// Host on behalf of commands, detached from the terminal
    #[arg(long, hide = true)]
    pub background: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Write a configuration with sensible values for this machine
    Init(ConfigInit),
    /// Print the configuration in force and where it comes from
    Show(ConfigShow),
    /// Check the configuration
    Check(ConfigCheck),
}

#[derive(Debug, Args)]
pub(crate) struct ConfigInit {
    /// Replace a configuration that is there
    #[arg(long)]
    pub force: bool,
    /// Where everything is kept [default: mosaic in the user's data directory]
    #[arg(long, value_name = "DIR")]
    pub data_root: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigShow {
    /// Print one JSON object with source, digest and configuration
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigCheck {}

#[derive(Debug, Subcommand)]
pub(crate) enum Checkout {
    /// Say what a checkout would do with a clone, and touch nothing of it
    Inspect(CheckoutStep),
    /// Make the clone, bring it to the root's tip, or leave it exactly as it is, as a launch would
    Sync(CheckoutStep),
}

#[derive(Debug, Args)]
pub(crate) struct CheckoutStep {
    /// The clone
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The repository that it is a clone of
    #[arg(long, value_name = "DIR")]
    pub root: PathBuf,
    /// Branch of the root [default: the one that the root has checked out]
    #[arg(long, value_name = "NAME")]
    pub branch: Option<String>,
    /// Uid that must own the clone, and that git works in it under [default: your own]
    #[arg(long, value_name = "UID")]
    pub owner: Option<u32>,
    /// Git to use [default: the configuration's `gitPath`, else the one in PATH]
    #[arg(long, value_name = "FILE")]
    pub git: Option<PathBuf>,
    /// Where the host keeps its own copy of the root; on the clone's file system [default: below the user's data directory]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Ledger {
    /// Prove the chain of the ledger and that every run is what its events say; exit 1 when something is wrong
    Verify(LedgerVerify),
}

#[derive(Debug, Args)]
pub(crate) struct LedgerVerify {
    /// Write the files below `runs/` anew that are missing; the ledger itself is never changed
    #[arg(long)]
    pub repair: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Keep {
    /// Run
    #[arg(value_name = "RUN")]
    pub run: RunId,
    /// No longer keep it
    #[arg(long)]
    pub undo: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// Say what would go, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Instead of the configured rules: everything that finished, or was last used, at least so long ago; a number is
    /// days, for example 30 or 12h
    #[arg(long, value_name = "DAYS|DURATION", value_parser = age)]
    pub older_than: Option<Duration>,
    /// Only these kinds
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub only: Vec<PruneKind>,
    /// Print one JSON object for each thing, and one for the sum
    #[arg(long)]
    pub json: bool,
}

/// What can be pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PruneKind {
    /// Whole runs: their directories, and their events in the ledger
    Records,
    /// What adapters wrote
    Output,
    /// `:run` workspaces; what is in one is archived first
    Workspaces,
    /// Adapter sessions
    Sessions,
}

/// A number of days, or a duration with its unit.
fn age(text: &str) -> Result<Duration, String> {
    match text.parse::<u64>() {
        Ok(days) => Ok(Duration::from_secs(days.saturating_mul(24 * 3600))),
        Err(_not_a_number) => parse_duration(text),
    }
}

#[derive(Debug, Args)]
pub(crate) struct Reset {
    /// The data root, which must be the configured one
    #[arg(value_name = "DATA_ROOT")]
    pub data_root: PathBuf,
    /// Don't ask
    #[arg(long)]
    pub yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print one JSON object a check
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// A shell that completions can be written for.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_plain_number_is_an_age_in_days() {
        assert_eq!(age("30"), age("30d"));
        assert_eq!(age("0s"), Ok(Duration::ZERO));
        assert_eq!(age("12h"), Ok(Duration::from_secs(12 * 3600)));
        assert!(age("old").is_err());
    }
}
