//! The system calls that a sandbox may not make.
//!
//! Namespaces and capabilities keep an agent in; the filter keeps it from what would open new doors: further namespaces,
//! other processes' memory, keyrings, mounts, and the large interfaces in which kernels have had their holes.

use std::collections::BTreeMap;

use libc::{
    SYS_acct, SYS_add_key, SYS_bpf, SYS_chroot, SYS_clock_settime, SYS_clone, SYS_clone3, SYS_delete_module,
    SYS_fanotify_init, SYS_finit_module, SYS_fsconfig, SYS_fsmount, SYS_fsopen, SYS_fspick, SYS_init_module,
    SYS_io_uring_enter, SYS_io_uring_register, SYS_io_uring_setup, SYS_ioctl, SYS_kcmp, SYS_kexec_load, SYS_keyctl,
    SYS_mount, SYS_mount_setattr, SYS_move_mount, SYS_open_by_handle_at, SYS_open_tree, SYS_perf_event_open,
    SYS_pidfd_getfd, SYS_pivot_root, SYS_process_madvise, SYS_process_vm_readv, SYS_process_vm_writev, SYS_ptrace,
    SYS_quotactl, SYS_reboot, SYS_request_key, SYS_setns, SYS_settimeofday, SYS_socket, SYS_swapoff, SYS_swapon,
    SYS_syslog, SYS_umount2, SYS_unshare, SYS_userfaultfd, SYS_vhangup,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

/// Refused whatever their arguments, with EPERM.
const DENIED: &[i64] = &[
    SYS_acct,
    SYS_add_key,
    SYS_bpf,
    SYS_chroot,
    SYS_clock_settime,
    SYS_delete_module,
    SYS_fanotify_init,
    SYS_finit_module,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fsopen,
    SYS_fspick,
    SYS_init_module,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_io_uring_setup,
    SYS_kcmp,
    SYS_kexec_load,
    SYS_keyctl,
    SYS_mount,
    SYS_mount_setattr,
    SYS_move_mount,
    SYS_open_by_handle_at,
    SYS_open_tree,
    SYS_perf_event_open,
    SYS_pidfd_getfd,
    SYS_pivot_root,
    SYS_process_madvise,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_ptrace,
    SYS_quotactl,
    SYS_reboot,
    SYS_request_key,
    SYS_setns,
    SYS_settimeofday,
    SYS_swapoff,
    SYS_swapon,
    SYS_syslog,
    SYS_umount2,
    SYS_unshare,
    SYS_userfaultfd,
    SYS_vhangup,
];

#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[i64] = &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_kexec_file_load];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_HERE: &[i64] = &[];

/// Flags of clone(2) that make a namespace.
const NEW_NAMESPACE: &[i32] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Requests of ioctl(2) that type into a terminal.
const TERMINAL_INPUT: &[u64] = &[libc::TIOCSTI, libc::TIOCLINUX];

/// Families of sockets that a network namespace holds, or that never leave the machine's kernel. The others, such as
/// VSOCK to a hypervisor, would be a network.
const SOCKET_FAMILIES: &[i32] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Why the filters can't be made.
#[derive(Debug, thiserror::Error)]
#[error("the system call filter can't be made for `{}`", std::env::consts::ARCH)]
pub(crate) struct FilterError(#[source] seccompiler::BackendError);

/// The filters as programs of the kernel's virtual machine, in the byte order of this machine; all of them apply, and
/// the strictest answer counts.
pub(crate) fn filters() -> Result<Vec<Vec<u8>>, FilterError> {
    let arch: TargetArch = std::env::consts::ARCH.try_into().map_err(FilterError)?;
    let denied = compile(denied_rules().map_err(FilterError)?, libc::EPERM, arch)?;
    // ENOSYS lets C libraries fall back on clone, whose flags can be looked at; those of clone3 are behind a pointer.
    let missing = compile(BTreeMap::from([(SYS_clone3, Vec::new())]), libc::ENOSYS, arch)?;
    Ok([Some(denied), Some(missing), foreign_numbers()].into_iter().flatten().map(|program| encode(&program)).collect())
}

fn compile(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32, arch: TargetArch) -> Result<BpfProgram, FilterError> {
    let refusal = SeccompAction::Errno(errno.unsigned_abs());
    // A call of another architecture's (32-bit on 64-bit) never reaches the rules: it kills the process.
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch).map_err(FilterError)?;
    filter.try_into().map_err(FilterError)
}

fn denied_rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let always = DENIED.iter().chain(DENIED_HERE).map(|&call| (call, Vec::new()));
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = always.collect();
    let clone = NEW_NAMESPACE.iter().map(|&flag| {
        let flag = u64::from(flag.cast_unsigned());
        let is_set = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(flag), flag)?;
        SeccompRule::new(vec![is_set])
    });
    rules.insert(SYS_clone, clone.collect::<Result<_, _>>()?);
    let ioctl = TERMINAL_INPUT.iter().map(|&request| {
        SeccompRule::new(vec![SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, request)?])
    });
    rules.insert(SYS_ioctl, ioctl.collect::<Result<_, _>>()?);
    let other_family = SOCKET_FAMILIES.iter().map(|&family| {
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, u64::from(family.cast_unsigned()))
    });
    rules.insert(SYS_socket, vec![SeccompRule::new(other_family.collect::<Result<_, _>>()?)?]);
    Ok(rules)
}

/// On x86_64 the x32 calls share the architecture and carry a bit in their number, so that no rule above would see them.
#[cfg(target_arch = "x86_64")]
fn foreign_numbers() -> Option<BpfProgram> {
    use libc::{BPF_ABS, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
    const X32_BIT: u32 = 0x4000_0000;
    let statement = |code: u32, jt: u8, k: u32| seccompiler::sock_filter {
        code: u16::try_from(code).expect("opcodes are 16 bits"),
        jt,
        jf: 0,
        k,
    };
    Some(vec![
        statement(BPF_LD | BPF_W | BPF_ABS, 0, 0),
        statement(BPF_JMP | BPF_JGE | BPF_K, 1, X32_BIT),
        statement(BPF_RET | BPF_K, 0, u32::from(SeccompAction::Allow)),
        statement(BPF_RET | BPF_K, 0, u32::from(SeccompAction::Errno(libc::ENOSYS.unsigned_abs()))),
    ])
}

#[cfg(not(target_arch = "x86_64"))]
fn foreign_numbers() -> Option<BpfProgram> {
    None
}

fn encode(program: &BpfProgram) -> Vec<u8> {
    let statement = |s: &seccompiler::sock_filter| {
        let mut bytes = Vec::with_capacity(8);
        bytes.extend_from_slice(&s.code.to_ne_bytes());
        bytes.extend_from_slice(&[s.jt, s.jf]);
        bytes.extend_from_slice(&s.k.to_ne_bytes());
        bytes
    };
    program.iter().flat_map(statement).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_compile_to_whole_statements() {
        for filter in filters().expect("this architecture is known") {
            assert_eq!(filter.len() % 8, 0);
            assert!(filter.len() / 8 < 4096, "the kernel takes 4,096 statements");
        }
    }
}
