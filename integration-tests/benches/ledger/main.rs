//! What an append costs that is on disk when it is acknowledged, beside peers that promise the same, all in one run on one
//! machine and one file system. Prints tables; decides nothing.
//!
//!     cargo bench -p mosaic-integration-tests --bench ledger
//!
//! Names after `--` choose what is measured: `mosaic`, `sqlite`, `postgresql`, `nats`, `redis`, `reads`. A peer that is not
//! there is left out, with a line that says how to get it.
#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

mod load;
mod mosaic;
mod nats;
mod peer;
mod postgresql;
mod reads;
mod redis;
mod samples;
mod sqlite;

use std::time::Duration;

use peer::Peer;
use samples::Table;

/// Rounds; in each of them every system has its turn, so that a noisy moment hits all of them.
const ROUNDS: usize = 5;
/// How long one turn appends.
const TURN: Duration = Duration::from_millis(1500);
/// Clients at once.
const CLIENTS: [usize; 3] = [1, 8, 64];
/// Unanswered appends of one client on a pipelined stream.
const WINDOW: usize = 32;

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|choice| choice == name);
    if let Err(why) = peer::check_file_system() {
        println!("{why}");
        return;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let peers: Vec<Peer> = [Peer::postgresql as fn() -> Peer, Peer::nats, Peer::redis]
        .into_iter()
        .zip(["postgresql", "nats", "redis"])
        .filter(|(_, name)| wanted(name))
        .map(|(start, _)| start())
        .collect();

    let mut table = Table::default();
    for round in 0..ROUNDS {
        for clients in CLIENTS {
            for (how, window) in [("pipelined", WINDOW), ("one in flight", 1)] {
                let case = format!("{how}, {clients} clients");
                if wanted("mosaic") {
                    let ledger = runtime.block_on(mosaic::Ledger::start(clients));
                    let turn = runtime.block_on(ledger.append(window, TURN));
                    let wrote = runtime.block_on(ledger.stop());
                    println!("round {round}, {case}: {:.1} events a commit", wrote.batch());
                    table.add(&case, "mosaic", &turn);
                    if wanted("sqlite") {
                        table.add(&case, "bare SQLite loop", &sqlite::replay(&wrote));
                    }
                }
                if window == 1 {
                    for peer in peers.iter().filter(|peer| peer.is_there()) {
                        table.add(&case, peer.name, &runtime.block_on(peer.append(clients, TURN)));
                    }
                }
            }
        }
    }
    table.print();
    if wanted("reads") {
        runtime.block_on(reads::measure(ROUNDS, TURN)).print();
    }
    for why in peers.iter().filter_map(Peer::why_not) {
        println!("left out: {why}");
    }
}
