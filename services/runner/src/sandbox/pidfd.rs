use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A process that can be signalled and waited for without ever hitting another one that got its number.
#[derive(Debug)]
pub(crate) struct Pidfd(OwnedFd);

impl Pidfd {
    /// Opens the process `pid`.
    #[expect(unsafe_code, reason = "pidfd_open has no safe wrapper")]
    pub(crate) fn open(pid: i32) -> io::Result<Self> {
        // SAFETY: takes integers; a descriptor that it returns belongs to nobody else. The kernel makes it close-on-exec.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let descriptor = i32::try_from(descriptor).map_err(io::Error::other)?;
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Kills the process; one that is gone already is left alone.
    #[expect(unsafe_code, reason = "pidfd_send_signal has no safe wrapper")]
    pub(crate) fn kill(&self) {
        let info: *const libc::siginfo_t = std::ptr::null();
        // SAFETY: the descriptor is open, and no information is passed.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.0.as_raw_fd(), libc::SIGKILL, info, 0) };
    }

    /// True when the process has ended, waited for or not.
    pub(crate) fn has_ended(&self) -> bool {
        let mut descriptor = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        poll(&mut descriptor, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }
}
