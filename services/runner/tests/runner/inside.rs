//! What is tried from inside of a sandbox: this executable, put into the workspace and started there.

use std::ffi::c_long;

/// Name of the test below, as it is started inside.
pub(crate) const TEST: &str = "inside::a_sandbox_every_denied_call_answers";

/// Calls with arguments that would work outside, or fail otherwise than by being denied.
const CALLS: &[(&str, c_long, [c_long; 4])] = &[
    ("unshare", libc::SYS_unshare, [libc::CLONE_NEWUSER as c_long, 0, 0, 0]),
    ("setns", libc::SYS_setns, [-1, 0, 0, 0]),
    ("clone-newuser", libc::SYS_clone, [(libc::CLONE_NEWUSER | libc::SIGCHLD) as c_long, 0, 0, 0]),
    ("clone-newnet", libc::SYS_clone, [(libc::CLONE_NEWNET | libc::SIGCHLD) as c_long, 0, 0, 0]),
    ("clone-newns", libc::SYS_clone, [(libc::CLONE_NEWNS | libc::SIGCHLD) as c_long, 0, 0, 0]),
    ("ptrace", libc::SYS_ptrace, [libc::PTRACE_TRACEME as c_long, 0, 0, 0]),
    ("process_vm_readv", libc::SYS_process_vm_readv, [1, 0, 0, 0]),
    ("process_vm_writev", libc::SYS_process_vm_writev, [1, 0, 0, 0]),
    ("pidfd_getfd", libc::SYS_pidfd_getfd, [-1, 0, 0, 0]),
    ("keyctl", libc::SYS_keyctl, [0, -3, 1, 0]),
    ("add_key", libc::SYS_add_key, [0, 0, 0, 0]),
    ("request_key", libc::SYS_request_key, [0, 0, 0, 0]),
    ("bpf", libc::SYS_bpf, [0, 0, 0, 0]),
    ("perf_event_open", libc::SYS_perf_event_open, [0, 0, 0, 0]),
    ("io_uring_setup", libc::SYS_io_uring_setup, [1, 0, 0, 0]),
    ("io_uring_enter", libc::SYS_io_uring_enter, [-1, 0, 0, 0]),
    ("io_uring_register", libc::SYS_io_uring_register, [-1, 0, 0, 0]),
    ("userfaultfd", libc::SYS_userfaultfd, [0, 0, 0, 0]),
    ("mount", libc::SYS_mount, [0, 0, 0, 0]),
    ("umount2", libc::SYS_umount2, [0, 0, 0, 0]),
    ("pivot_root", libc::SYS_pivot_root, [0, 0, 0, 0]),
    ("open_tree", libc::SYS_open_tree, [-1, 0, 0, 0]),
    ("move_mount", libc::SYS_move_mount, [-1, 0, -1, 0]),
    ("fsopen", libc::SYS_fsopen, [0, 0, 0, 0]),
    ("fsconfig", libc::SYS_fsconfig, [-1, 0, 0, 0]),
    ("fsmount", libc::SYS_fsmount, [-1, 0, 0, 0]),
    ("fspick", libc::SYS_fspick, [-1, 0, 0, 0]),
    ("mount_setattr", libc::SYS_mount_setattr, [-1, 0, 0, 0]),
    ("open_by_handle_at", libc::SYS_open_by_handle_at, [-1, 0, 0, 0]),
    ("kexec_load", libc::SYS_kexec_load, [0, 0, 0, 0]),
    ("init_module", libc::SYS_init_module, [0, 0, 0, 0]),
    ("socket-vsock", libc::SYS_socket, [libc::AF_VSOCK as c_long, libc::SOCK_STREAM as c_long, 0, 0]),
    ("socket-alg", libc::SYS_socket, [libc::AF_ALG as c_long, libc::SOCK_SEQPACKET as c_long, 0, 0]),
    ("ioctl-tiocsti", libc::SYS_ioctl, [0, libc::TIOCSTI as c_long, 0, 0]),
];

/// Calls that must look as if this kernel did not have them.
const ABSENT: &[(&str, c_long, [c_long; 4])] = &[
    ("clone3", libc::SYS_clone3, [0, 0, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    ("x32-getpid", 0x4000_0000 + libc::SYS_getpid, [0, 0, 0, 0]),
];

#[expect(unsafe_code, reason = "system calls are tried as they are")]
fn errno_of(number: c_long, [a, b, c, d]: [c_long; 4]) -> i32 {
    // SAFETY: pointers are null, which the kernel answers with an error; a call that makes a process is not let through.
    let result = unsafe { libc::syscall(number, a, b, c, d) };
    if result == 0 && number == libc::SYS_clone {
        std::process::exit(99);
    }
    if result < 0 { std::io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 }
}

#[test]
#[ignore = "is started inside of a sandbox by the tests of containment"]
fn a_sandbox_every_denied_call_answers() {
    let mut wrong = Vec::new();
    let expected = [(CALLS, libc::EPERM), (ABSENT, libc::ENOSYS)];
    for (calls, expected) in expected {
        for (name, number, arguments) in calls {
            let errno = errno_of(*number, *arguments);
            if errno != expected {
                wrong.push(format!("{name}: {errno}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    // Threads and processes still work: the C library falls back.
    std::thread::spawn(|| ()).join().expect("a thread");
    assert!(std::process::Command::new("/bin/true").status().expect("a process").success());
}
