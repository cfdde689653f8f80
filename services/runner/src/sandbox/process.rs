use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus};

use tokio::sync::{oneshot, watch};

use super::pidfd::Pidfd;

/// A process, and the thread that started it and lives as long as it.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its id.
    pub(crate) pid: i32,
    /// The process itself.
    pub(crate) handle: Pidfd,
    exit: watch::Receiver<Option<ExitStatus>>,
}

/// What a process gets beside its command.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    /// Descriptors that it keeps, under their numbers.
    pub(crate) descriptors: Vec<OwnedFd>,
    /// Files to which it writes `0` before it executes: the doors of its control groups.
    pub(crate) doors: Vec<std::fs::File>,
}

impl Process {
    /// Starts `command` from a thread of its own that ends only with the process: the kernel's "die with the parent" means
    /// the thread that started it, and threads of a pool come and go.
    ///
    /// # Errors
    /// When the thread or the process can't be started.
    pub(crate) async fn spawn(mut command: Command, inherited: Inherited) -> io::Result<Self> {
        let (started, start) = oneshot::channel();
        let (ended, exit) = watch::channel(None);
        let thread = std::thread::Builder::new().name("sandbox".to_owned());
        thread.spawn(move || {
            prepare(&mut command, &inherited);
            let child = command.spawn();
            // Both hold the child's ends of pipes and sockets, whose end is to be seen when the child is gone.
            drop((command, inherited));
            let mut child = match child {
                Ok(child) => child,
                Err(error) => return drop(started.send(Err(error))),
            };
            let pid = child.id().cast_signed();
            let handle = Pidfd::open(pid);
            if handle.is_err() {
                let _gone_already = child.kill();
            }
            if started.send(handle.map(|handle| (pid, handle))).is_err() {
                // Whoever asked for it has given up.
                let _gone_already = child.kill();
            }
            let status = child.wait().ok();
            let _nobody_waits = ended.send(status);
        })?;
        let (pid, handle) = start.await.map_err(io::Error::other)??;
        Ok(Self { pid, handle, exit })
    }

    /// Returns when the process has ended and was waited for.
    pub(crate) async fn ended(&self) {
        // An error means that the thread is gone, and it goes only after it has waited.
        let mut exit = self.exit.clone();
        let _thread_gone = exit.wait_for(Option::is_some).await;
    }

    /// True when the process has ended and was waited for.
    pub(crate) fn has_ended(&self) -> bool {
        self.exit.borrow().is_some() || self.exit.has_changed().is_err()
    }
}

/// Makes the child keep exactly the descriptors it is meant to have, and enter its groups.
#[expect(unsafe_code, reason = "there is no other way to act between fork and exec")]
fn prepare(command: &mut Command, inherited: &Inherited) {
    let kept: Vec<i32> = inherited.descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let doors: Vec<i32> = inherited.doors.iter().map(AsRawFd::as_raw_fd).collect();
    let in_child = move || {
        // SAFETY: only system calls, on descriptors that the parent holds open, and no memory is allocated.
        unsafe {
            for &door in &doors {
                check(libc::write(door, c"0".as_ptr().cast(), 1))?;
            }
            let mark = libc::CLOSE_RANGE_CLOEXEC;
            check(libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, mark) as isize)?;
            for &descriptor in &kept {
                check(libc::fcntl(descriptor, libc::F_SETFD, 0) as isize)?;
            }
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls only.
    unsafe { command.pre_exec(in_child) };
}

fn check(result: isize) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
