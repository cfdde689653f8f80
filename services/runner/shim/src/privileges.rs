use std::io;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, getresgid, getresuid, setgroups, setresgid, setresuid};

use crate::protocol::Identity;

/// What no process of the same uid may do to the shim afterwards: attach to it, read its memory or its descriptors.
/// With `dies_with_parent` the kernel kills it with the process that started it. Credential changes undo both, so this is
/// called again after them.
pub(crate) fn isolate(dies_with_parent: bool) -> io::Result<()> {
    prctl::set_dumpable(false)?;
    prctl::set_pdeathsig(dies_with_parent.then_some(Signal::SIGKILL))?;
    Ok(())
}

/// Marks every descriptor but the standard ones close-on-exec.
#[expect(unsafe_code, reason = "close_range has no safe wrapper; with this flag it closes nothing in this process")]
pub(crate) fn close_on_exec() -> io::Result<()> {
    let flags = libc::CLOSE_RANGE_CLOEXEC;
    // SAFETY: takes integers only, and marks descriptors instead of closing them.
    let result = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Becomes `identity` (if one is given) for good, without groups, without any capability, and without a way to get one.
pub(crate) fn give_up(identity: Option<Identity>) -> io::Result<()> {
    prctl::set_no_new_privs()?;
    if let Some(Identity { uid, gid }) = identity {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        setgroups(&[])?;
        setresgid(gid, gid, gid)?;
        setresuid(uid, uid, uid)?;
        verify_identity(uid, gid)?;
    }
    drop_capabilities()
}

fn verify_identity(uid: Uid, gid: Gid) -> io::Result<()> {
    let (uids, gids) = (getresuid()?, getresgid()?);
    let is_other =
        [uids.real, uids.effective, uids.saved] == [uid; 3] && [gids.real, gids.effective, gids.saved] == [gid; 3];
    let root = Uid::from_raw(0);
    let can_go_back = uid != root && setresuid(root, root, root).is_ok();
    if is_other && !can_go_back { Ok(()) } else { Err(io::Error::other("the identity did not change for good")) }
}

/// Empties the ambient, inheritable, permitted and effective sets. The bounding set matters only to an exec that may
/// gain privileges, and there is none after `no_new_privs`.
#[expect(unsafe_code, reason = "capset has no safe wrapper")]
fn drop_capabilities() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    #[repr(C)]
    #[derive(Default)]
    struct Sets {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header { version: VERSION_3, pid: 0 };
    let sets = [Sets::default(), Sets::default()];
    // SAFETY: both structs have the layout of capset(2), version 3 takes two of the latter, and both outlive the calls.
    let result = unsafe {
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
