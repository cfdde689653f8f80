use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, FromRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Pid, getpid};

use crate::protocol::{AdapterSignal, Exit, Lines, Order, Said, Stage, Start, Word, line};
use crate::watch::Watch;
use crate::{adapter, host_view, privileges, reap, signals};

/// Longest time that a word to the runner may take; a runner that does not read is as good as gone.
const SEND_LIMIT: Duration = Duration::from_secs(10);

/// Bytes that are read from the runner at once.
const READ_BYTES: usize = 64 * 1024;

/// Why the shim ended without its work done. The runner was told.
#[derive(Debug)]
pub(crate) struct Reported;

/// Does all of the shim's work on the control socket `descriptor`; returns when nothing is left to supervise.
pub(crate) fn supervise(descriptor: RawFd) -> Result<(), Reported> {
    let own_namespace = getpid().as_raw() == 1;
    let mut control = Control::new(descriptor);
    let signals = control.stage(Stage::Isolate, isolate(own_namespace))?;
    control.say(&Word::Ready)?;
    let start = control.first_order()?;
    let started = begin(&mut control, &start, own_namespace);
    let outcome = started.and_then(|(adapter, mut watch)| oversee(&mut control, &signals, adapter, &mut watch));
    // Killed first, so that nothing is left when the socket closes, however this ended.
    reap::end_everything(own_namespace);
    outcome
}

fn isolate(own_namespace: bool) -> io::Result<SignalFd> {
    privileges::isolate(own_namespace)?;
    privileges::close_on_exec()?;
    if !own_namespace {
        prctl::set_child_subreaper(true)?;
    }
    umask(Mode::from_bits_truncate(0o022));
    Ok(signals::signal_descriptor()?)
}

fn begin(control: &mut Control, start: &Start, own_namespace: bool) -> Result<(Pid, Watch), Reported> {
    control.stage(Stage::View, host_view::expose(&start.exposed, start.identity))?;
    let identity = privileges::give_up(start.identity).and_then(|()| privileges::isolate(own_namespace));
    control.stage(Stage::Identity, identity)?;
    control.stage(Stage::Directories, adapter::make_directories(start))?;
    let watch = Watch::new(start.activity_dir.as_deref(), start.turn_marker.as_deref());
    let watch = control.stage(Stage::Watch, watch)?;
    control.say(&Word::Starting)?;
    let adapter = control.stage(Stage::Start, adapter::start(start))?;
    control.started = Some(Instant::now());
    control.say(&Word::Started { pid: adapter.as_raw() })?;
    Ok((adapter, watch))
}

/// Until the adapter has ended or the runner wants everything to end.
fn oversee(control: &mut Control, signals: &SignalFd, adapter: Pid, watch: &mut Watch) -> Result<(), Reported> {
    loop {
        let mut ready = [
            PollFd::new(control.socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(watch.descriptor(), PollFlags::POLLIN),
        ];
        let _interrupted = poll(&mut ready, PollTimeout::NONE);
        let [has_orders, has_signals, _] = ready.map(|descriptor| descriptor.any().unwrap_or(true));
        let mut ended: Option<Exit> = None;
        if has_signals {
            for signal in signals::arrived(signals) {
                match signal {
                    Signal::SIGCHLD => ended = reap::reap(adapter),
                    other => signals::to_group(adapter, other),
                }
            }
        }
        // Looked at before the exit is told: what an adapter wrote just before it ended counts.
        for word in watch.look() {
            control.say(&word)?;
        }
        if let Some(exit) = ended {
            return control.say(&Word::Exited { exit });
        }
        if has_orders {
            for order in control.orders()? {
                match order {
                    Order::Signal { signal: AdapterSignal::Term } => signals::to_group(adapter, Signal::SIGTERM),
                    Order::Signal { signal: AdapterSignal::Int } => signals::to_group(adapter, Signal::SIGINT),
                    Order::Kill | Order::Start(_) => return Ok(()),
                }
            }
        }
    }
}

/// The runner's side of the socket.
struct Control {
    socket: UnixStream,
    lines: Lines,
    /// When the adapter was started.
    started: Option<Instant>,
}

impl Control {
    #[expect(unsafe_code, reason = "the runner hands the socket over as a number")]
    fn new(descriptor: RawFd) -> Self {
        // SAFETY: the runner opened the descriptor for this process, and nothing else here knows of it.
        let socket = unsafe { UnixStream::from_raw_fd(descriptor) };
        let _no_socket = socket.set_write_timeout(Some(SEND_LIMIT));
        Self { socket, lines: Lines::default(), started: None }
    }

    fn say(&mut self, word: &Word) -> Result<(), Reported> {
        let after = self.started.map(|started| started.elapsed()).unwrap_or_default();
        let said = Said { word: word.clone(), after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX) };
        self.socket.write_all(&line(&said)).map_err(|_runner_gone| Reported)
    }

    /// Passes a result through; tells the runner when it is an error.
    fn stage<T>(&mut self, stage: Stage, result: io::Result<T>) -> Result<T, Reported> {
        result.map_err(|error| {
            let disk_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
            let _runner_gone = self.say(&Word::Failed { stage, message: error.to_string(), disk_full });
            Reported
        })
    }

    /// Reads once, and parses the orders that are complete. The end of the socket is an error: the runner is gone.
    fn orders(&mut self) -> Result<Vec<Order>, Reported> {
        let mut buffer = vec![0; READ_BYTES];
        let read = match self.socket.read(&mut buffer) {
            Ok(0) | Err(_) => return Err(Reported),
            Ok(read) => read,
        };
        let lines = self.lines.push(&buffer[..read]).map_err(|_broken| Reported)?;
        lines.iter().map(|line| serde_json::from_slice(line).map_err(|_broken| Reported)).collect()
    }

    /// Waits for the first order, which says how to start. The runner sends the next one only once it was answered.
    fn first_order(&mut self) -> Result<Box<Start>, Reported> {
        loop {
            let mut orders = self.orders()?.into_iter();
            match (orders.next(), orders.next()) {
                (None, _) => {}
                (Some(Order::Start(start)), None) => return Ok(start),
                (Some(_), _) => return Err(Reported),
            }
        }
    }
}
