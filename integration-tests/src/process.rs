use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::wait_for;

/// How long a process that was asked to end may take.
const ENDS: Duration = Duration::from_secs(60);

/// A process of a test's own, which signals reach by its id. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts `command`.
    ///
    /// # Panics
    /// When it can't be started.
    #[must_use]
    pub fn start(command: &mut Command) -> Self {
        Self { child: command.spawn().expect("the command starts") }
    }

    /// Its id.
    ///
    /// # Panics
    /// Never: ids are positive and fit.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a pid fits"))
    }

    /// Kills it, and returns when it is gone. One that has ended already is left alone.
    pub fn kill(&mut self) {
        self.send(Signal::SIGKILL);
        let _reaped = self.child.wait();
    }

    /// Asks it to end.
    pub fn term(&mut self) {
        self.send(Signal::SIGTERM);
    }

    /// Freezes it.
    pub fn stop(&mut self) {
        self.send(Signal::SIGSTOP);
    }

    /// Lets it go on.
    pub fn cont(&mut self) {
        self.send(Signal::SIGCONT);
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Asks it to end and waits until it has.
    ///
    /// # Panics
    /// When it does not end in time.
    #[track_caller]
    pub fn end(&mut self) -> ExitStatus {
        self.term();
        wait_for("the end of a process", ENDS, || self.ended())
    }

    fn send(&mut self, signal: Signal) {
        // A child that was not waited for keeps its id, so that the signal reaches nobody else.
        if self.ended().is_none() {
            let _gone_already = kill(self.pid(), signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_some() {
            return;
        }
        // A host that is asked ends its sandboxes; one that does not end is killed.
        self.cont();
        self.term();
        self.term();
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.ended().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.kill();
    }
}
