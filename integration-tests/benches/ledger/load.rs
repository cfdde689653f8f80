//! Clients that append, each one thing after the other.

use std::time::{Duration, Instant};

use crate::samples::Turn;

/// A client that appends and knows when what it has appended is on disk.
pub(crate) trait Append: Send + 'static {
    /// Appends the payload with this number and returns once it is on disk.
    fn append(&mut self, number: u64) -> impl Future<Output = ()> + Send;
}

/// What every system is given: how much an adapter has written so far.
pub(crate) fn payload(number: u64) -> String {
    let bytes = 1_000_000 + number * 4096;
    format!(r#"{{"kind":"run.output","stdoutBytes":{bytes},"stderrBytes":0,"dropped":0}}"#)
}

/// Has all clients append for as long as `length`, each with one append in flight.
pub(crate) async fn one_in_flight<A: Append>(clients: Vec<A>, length: Duration) -> Turn {
    let begun = Instant::now();
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                for number in 1.. {
                    let asked = Instant::now();
                    if asked - begun >= length {
                        break;
                    }
                    client.append(number).await;
                    latencies.push(asked.elapsed());
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.append(&mut task.await.expect("a client appends"));
    }
    Turn { latencies, elapsed: begun.elapsed() }
}
