//! Pages that are read while others write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mosaic_data_root::{Credentials, Service};
use mosaic_proto::broker::v1 as pb;
use mosaic_proto::broker::v1::ledger_service_client::LedgerServiceClient;
use mosaic_rpc::Dial;

use crate::WINDOW;
use crate::mosaic::{Ledger, Runs};
use crate::samples::{Table, Turn};

/// Writers at once.
const CLIENTS: usize = 64;
/// Time between two pages of one reader.
const PACE: Duration = Duration::from_millis(10);
/// Events of a page.
const EVENTS: usize = 256;

/// A way to read one page.
trait Page: Send + 'static {
    fn page(&mut self) -> impl Future<Output = ()> + Send;
}

struct FirstRuns(Runs);

impl Page for FirstRuns {
    async fn page(&mut self) {
        let request =
            pb::ListRunsRequest { page_size: 50, page_token: String::new(), states: vec![], ..Default::default() };
        let page = self.0.list_runs(request).await.expect("a page").into_inner();
        assert_eq!(page.runs.len(), 50);
    }
}

struct Events(LedgerServiceClient<mosaic_rpc::AuthedChannel>);

impl Page for Events {
    async fn page(&mut self) {
        let request = pb::WatchEventsRequest { from_sequence: 1 };
        let mut events = self.0.watch_events(request).await.expect("a watch").into_inner();
        for _ in 0..EVENTS {
            events.message().await.expect("no error").expect("an event");
        }
    }
}

/// Reads without writers, with writers, and the writers without readers.
pub(crate) async fn measure(rounds: usize, length: Duration) -> Table {
    let mut table = Table::default();
    for _ in 0..rounds {
        let ledger = Ledger::start(CLIENTS).await;
        table.add("64 pipelined writers", "without readers", &ledger.append(WINDOW, length).await);
        ledger.stop().await;

        let ledger = Ledger::start(CLIENTS).await;
        let (alone, _) = beside(&ledger, tokio::time::sleep(length)).await;
        let (beside_writers, writers) = beside(&ledger, ledger.append(WINDOW, length)).await;
        ledger.stop().await;
        table.add("64 pipelined writers", "with readers", &writers);
        for (how, [runs, events]) in [("alone", alone), ("beside 64 writers", beside_writers)] {
            table.add("first page of runs", how, &runs);
            table.add("page of 256 events", how, &events);
        }
    }
    table
}

/// Has two readers read for as long as `work` takes.
async fn beside<T>(ledger: &Ledger, work: impl Future<Output = T>) -> ([Turn; 2], T) {
    let done = Arc::new(AtomicBool::new(false));
    let token = Credentials::of(ledger.root()).operator().expect("a token");
    let channel = Dial::new(ledger.root(), Service::Broker, &token).channel();
    let runs = tokio::spawn(read(FirstRuns(ledger.client(Service::Launcher)), Arc::clone(&done)));
    let events = tokio::spawn(read(Events(LedgerServiceClient::new(channel)), Arc::clone(&done)));
    let worked = work.await;
    done.store(true, Ordering::SeqCst);
    ([runs.await.expect("a reader"), events.await.expect("a reader")], worked)
}

async fn read(mut reader: impl Page, done: Arc<AtomicBool>) -> Turn {
    let begun = Instant::now();
    let mut latencies = Vec::new();
    while !done.load(Ordering::SeqCst) {
        let asked = Instant::now();
        reader.page().await;
        latencies.push(asked.elapsed());
        tokio::time::sleep(PACE).await;
    }
    Turn { latencies, elapsed: begun.elapsed() }
}
