use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

/// Blocks the signals that the shim handles and makes them readable.
pub(crate) fn signal_descriptor() -> nix::Result<SignalFd> {
    let mut handled = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGCHLD] {
        handled.add(signal);
    }
    handled.thread_block()?;
    SignalFd::with_flags(&handled, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
}

/// The signals that have arrived, each once.
pub(crate) fn arrived(descriptor: &SignalFd) -> Vec<Signal> {
    let mut signals = Vec::new();
    while let Ok(Some(info)) = descriptor.read_signal() {
        let signal = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
        if let Some(signal) = signal
            && !signals.contains(&signal)
        {
            signals.push(signal);
        }
    }
    signals
}

/// Sends `signal` to the adapter's process group; a group that is gone already is none of our business.
pub(crate) fn to_group(adapter: Pid, signal: Signal) {
    let _gone_already = killpg(adapter, signal);
}

/// Kills one process; one that is gone already is none of our business.
pub(crate) fn kill_process(pid: Pid) {
    let _gone_already = kill(pid, Signal::SIGKILL);
}
