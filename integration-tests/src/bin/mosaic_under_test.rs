//! The command `mosaic`, built beside the tests that drive it; and, as `mosaic-under-test service NAME`, each service as a
//! process of its own.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use mosaic_data_root::{Credentials, DataRoot};
use mosaic_lifecycle::{Lifecycle, shut_down_on_signals};

/// Sets the broker's term of a lease, in seconds, which its command line does not: tests wait for its end.
const LEASE_TERM: &str = "--lease-term=";

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().map(String::as_str) != Some("service") {
        return mosaic_cli::main();
    }
    arguments.remove(0);
    let term = arguments.iter().find_map(|argument| argument.strip_prefix(LEASE_TERM)?.parse().ok());
    arguments.retain(|argument| !argument.starts_with(LEASE_TERM));
    match (arguments.first().map(String::as_str), term) {
        (Some("broker"), None) => mosaic_broker::process::run(&mosaic_broker::Args::parse_from(arguments)),
        (Some("broker"), Some(term)) => {
            broker_with(Duration::from_secs(term), &mosaic_broker::Args::parse_from(arguments))
        }
        (Some("runner"), None) => mosaic_runner::process::run(&mosaic_runner::Args::parse_from(arguments)),
        (Some("launcher"), None) => {
            mosaic_launcher::process::run(&mosaic_launcher::process::Args::parse_from(arguments))
        }
        _ => ExitCode::from(2),
    }
}

/// A broker whose leases have another term.
#[tokio::main]
async fn broker_with(lease_term: Duration, args: &mosaic_broker::Args) -> ExitCode {
    let root = DataRoot::create_or_open(&args.data_root).expect("a data root");
    Credentials::of(&root).ensure().expect("credentials");
    let options = mosaic_broker::Options { lease_term, ..mosaic_broker::Options::new(root) };
    let broker = mosaic_broker::start(options).await.expect("the broker starts");
    let shutdown = Lifecycle::new();
    shut_down_on_signals(&shutdown).await.expect("signals");
    broker.drain_unless(args.drain, shutdown.hard()).await;
    ExitCode::SUCCESS
}
