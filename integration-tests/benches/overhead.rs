//! What a run costs beside its peers, all in one run on one machine. Prints a table; decides nothing.
//!
//!     cargo bench -p mosaic-integration-tests
#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mosaic_data_root::{Credentials, DataRoot, Service, Token};
use mosaic_integration_tests::{Installation, wait_for};
use mosaic_proto::launcher::v1 as launcher;
use mosaic_proto::launcher::v1::launch_service_client::LaunchServiceClient;
use mosaic_proto::runner::v1 as runner;
use mosaic_proto::runner::v1::runner_service_client::RunnerServiceClient;
use mosaic_rpc::{AuthedChannel, Dial};

const MOSAIC: &str = env!("CARGO_BIN_EXE_mosaic-under-test");
/// Runs of each kind; they alternate, so that a noisy moment hits all kinds.
const RUNS: usize = 40;
/// Lines whose way to a watcher is timed.
const LINES: usize = 200;
/// Starts of a host.
const STARTS: usize = 10;
/// A host has settled after this long.
const SETTLED: Duration = Duration::from_secs(3);

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (memory, starts) = host();
    let mosaic = Installation::new(MOSAIC);
    let _host = Host::start(&mosaic);
    let runs = runtime.block_on(run_overhead(&mosaic));
    let bytes = runtime.block_on(first_byte(&mosaic));
    println!("\n| what | median | p99 | n |\n| --- | --- | --- | --- |");
    for (name, mut samples) in [
        ("bare `bwrap` of the adapter's script", runs.bare),
        ("the same run by gRPC, launch to record, host live", runs.rpc),
        ("the same run by `mosaic run`, host live", runs.command),
        ("a line of the adapter to a watcher", bytes),
        ("start of the host, until it answers", starts),
    ] {
        println!("{}", row(name, &mut samples));
    }
    println!("| memory of the idle host (three services) | {:.1} MiB | | 1 |", memory as f64 / 1024.0);
}

fn row(name: &str, samples: &mut [Duration]) -> String {
    samples.sort();
    let at = |share: f64| samples[((samples.len() - 1) as f64 * share).round() as usize].as_secs_f64() * 1000.0;
    let mut row = String::new();
    write!(row, "| {name} | {:.1} ms | {:.1} ms | {} |", at(0.5), at(0.99), samples.len()).expect("a string takes all");
    row
}

/// A foreground host that ends with the value.
struct Host(std::process::Child);

impl Host {
    fn start(mosaic: &Installation) -> Self {
        let child = mosaic.command(&["up"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let host = Self(child.expect("the host starts"));
        wait_for("the host", Duration::from_secs(20), || mosaic.host());
        host
    }

    fn pid(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).expect("a pid"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _gone_already = nix::sys::signal::kill(self.pid(), nix::sys::signal::Signal::SIGTERM);
        let _reaped = self.0.wait();
    }
}

/// Resident memory of an idle host in KiB, and how long hosts take to start.
fn host() -> (u64, Vec<Duration>) {
    let mosaic = Installation::new(MOSAIC);
    let mut starts = Vec::new();
    let mut memory = 0;
    for number in 0..STARTS {
        let begun = Instant::now();
        let host = Host::start(&mosaic);
        starts.push(begun.elapsed());
        if number == STARTS - 1 {
            std::thread::sleep(SETTLED);
            let status = std::fs::read_to_string(format!("/proc/{}/status", host.pid())).expect("it lives");
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("resident memory");
            memory = line.trim().trim_end_matches(" kB").parse().expect("a number");
        }
    }
    (memory, starts)
}

struct Runs {
    bare: Vec<Duration>,
    rpc: Vec<Duration>,
    command: Vec<Duration>,
}

async fn run_overhead(mosaic: &Installation) -> Runs {
    let task = mosaic.task("anything", |_| {});
    let content = std::fs::read_to_string(mosaic.path().join(&task)).expect("there");
    let mut client = LaunchServiceClient::new(channel(mosaic, Service::Launcher));
    let script = mosaic.write("adapter.sh", include_bytes!("../../libs/adapters/builtin/mock/adapter.sh"));
    let mut runs = Runs { bare: Vec::new(), rpc: Vec::new(), command: Vec::new() };
    for number in 0..=RUNS {
        let bare = timed(|| bare_bubblewrap(&script));
        let begun = Instant::now();
        launch(&mut client, &format!("bench-{number}"), &content).await;
        let rpc = begun.elapsed();
        let command = timed(|| {
            let _done =
                mosaic.mosaic(&["run", "--adapter", "mock", "--mock-response", "hi", "--json", &task]).expect(0);
        });
        // The first round warms up.
        if number > 0 {
            runs.bare.push(bare);
            runs.rpc.push(rpc);
            runs.command.push(command);
        }
    }
    runs
}

fn timed(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

/// The adapter's script in a sandbox that somebody would write by hand.
fn bare_bubblewrap(script: &std::path::Path) {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"]);
    command.args(["--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"]);
    command.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind"]).arg(script).arg("/adapter.sh");
    command.args(["--setenv", "MOSAIC_MOCK_RESPONSE", "hi", "--", "/bin/sh", "/adapter.sh"]);
    let output = command.stdin(Stdio::null()).output().expect("bwrap runs");
    assert_eq!(output.stdout, b"hi", "{output:?}");
}

async fn launch(client: &mut LaunchServiceClient<AuthedChannel>, request_id: &str, content: &str) -> String {
    let overrides =
        launcher::Overrides { adapter: Some("mock".to_owned()), model: None, mock_response: Some("hi".to_owned()) };
    let document = launcher::Document { name: "task.json".to_owned(), content: content.to_owned() };
    let request = launcher::LaunchRequest {
        request_id: request_id.to_owned(),
        task: Some(document),
        mission: None,
        overrides: Some(overrides),
        no_wait: false,
    };
    let run_id = client.launch(request).await.expect("launched").into_inner().run_id;
    let wait = launcher::AwaitRunRequest { run_id: run_id.clone(), timeout: None };
    assert!(client.await_run(wait).await.expect("awaited").into_inner().finished);
    run_id
}

/// How long each line takes from the adapter to a watcher.
async fn first_byte(mosaic: &Installation) -> Vec<Duration> {
    let script = format!("i=0; while [ $i -lt {LINES} ]; do date +%s%N; sleep 0.01; i=$((i+1)); done");
    let run = mosaic.mosaic(&["run", "--detach", &mosaic.task(&script, |_| {})]).expect(0).stdout.trim().to_owned();
    let mut client = RunnerServiceClient::new(channel(mosaic, Service::Runner));
    let request = runner::TailOutputRequest {
        run_id: run,
        stream: runner::tail_output_request::Stream::Stdout.into(),
        offset: 0,
        follow: true,
    };
    let mut stream = loop {
        match client.tail_output(request.clone()).await {
            Ok(response) => break response.into_inner(),
            Err(_not_started_yet) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    let (mut rest, mut latencies) = (Vec::new(), Vec::new());
    while let Some(chunk) = stream.message().await.expect("a chunk") {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        rest.extend_from_slice(&chunk.data);
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let written: u64 = String::from_utf8_lossy(&line).trim().parse().expect("nanoseconds");
            latencies.push(now.saturating_sub(Duration::from_nanos(written)));
        }
    }
    assert_eq!(latencies.len(), LINES);
    latencies
}

fn channel(mosaic: &Installation, service: Service) -> AuthedChannel {
    let root = DataRoot::open(&mosaic.data()).expect("a data root");
    let token: Token = Credentials::of(&root).operator().expect("the operator's token");
    Dial::new(&root, service, &token).channel()
}
