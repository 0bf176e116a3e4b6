//! The argument rules, twice: as BPF for the filter and as plain code for the listener and the tests.
//! The two are written apart on purpose; the tests hold them against each other.

use super::assemble::{Assembler, Label};
use super::table::ArgRule;

/// `CLONE_NEWTIME` (0x80), NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET.
const NEW_NAMESPACES: u32 = 0x80
    | (libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET) as u32;
const UNIX: u32 = libc::AF_UNIX as u32;
const INET: u32 = libc::AF_INET as u32;
const INET6: u32 = libc::AF_INET6 as u32;
const NETLINK: u32 = libc::AF_NETLINK as u32;
const TYPE_MASK: u32 = 0xf;
const STREAM: u32 = libc::SOCK_STREAM as u32;
const PACKETS: u32 = libc::SOCK_SEQPACKET as u32;
const DATAGRAM: u32 = libc::SOCK_DGRAM as u32;
/// Up to UDP (17) there are only protocols that the kernel has built in or refuses; beyond, SCTP, DCCP, L2TP
/// and SMC would load modules. ICMPv6 and MPTCP are the two in ordinary use (ping; Go's listeners).
const UDP: u32 = libc::IPPROTO_UDP as u32;
const ICMPV6: u32 = libc::IPPROTO_ICMPV6 as u32;
const MPTCP: u32 = libc::IPPROTO_MPTCP as u32;
/// Requests that push input into a terminal (TIOCSTI; TIOCLINUX pastes), redirect the console, or load a line
/// discipline.
const TERMINAL_REQUESTS: [u32; 4] = [0x5412, 0x541c, 0x541d, 0x5423];
/// Bits of `PER_LINUX32` and `ADDR_NO_RANDOMIZE`.
const PERSONALITY: u32 = 0x0004_0008;
const ASK_PERSONALITY: u32 = 0xffff_ffff;
const PR_SET_MM: u32 = libc::PR_SET_MM as u32;
const PR_SCHED_CORE: u32 = libc::PR_SCHED_CORE as u32;
const PRIO_PROCESS: u32 = libc::PRIO_PROCESS;
const IOPRIO_WHO_PROCESS: u32 = 1;
const SETUID: u32 = libc::S_ISUID;
/// Set in the types of character device, block device and symbolic link, and in no type mknod may make.
const DEVICE: u32 = 0o020000;
const NEW_LISTENER: u32 = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as u32;

/// Emits the block of a rule (last instruction first) that goes to `pass` or `fail`; returns its beginning.
pub(super) fn emit(asm: &mut Assembler, rule: ArgRule, pass: Label, fail: Label) -> Label {
    match rule {
        ArgRule::Namespaces => none_set(asm, 0, NEW_NAMESPACES, pass, fail),
        ArgRule::Socket | ArgRule::SocketNoDatagram | ArgRule::SocketInet => {
            let unix = match rule {
                ArgRule::SocketNoDatagram => connected(asm, pass, fail),
                _ => pass,
            };
            asm.equal(MPTCP, pass, fail);
            let next = asm.here();
            asm.equal(ICMPV6, pass, next);
            let next = asm.here();
            asm.greater(UDP, next, pass);
            let protocol = asm.load_arg(2);
            asm.greater(DATAGRAM, fail, protocol);
            asm.and(TYPE_MASK);
            let kind = asm.load_arg(1);
            let inet_only = rule == ArgRule::SocketInet;
            let mut next = fail;
            if !inet_only {
                let route = equals(asm, 2, 0, pass, fail);
                asm.equal(NETLINK, route, fail);
                next = asm.here();
            }
            asm.equal(INET6, kind, next);
            let next = asm.here();
            asm.equal(INET, kind, next);
            if !inet_only {
                let next = asm.here();
                asm.equal(UNIX, unix, next);
            }
            asm.load_arg(0)
        }
        ArgRule::SocketPair => equals(asm, 0, UNIX, pass, fail),
        ArgRule::SocketPairNoDatagram => {
            let unix = connected(asm, pass, fail);
            equals(asm, 0, UNIX, unix, fail)
        }
        ArgRule::Ioctl => none_of(asm, 1, &TERMINAL_REQUESTS, pass, fail),
        ArgRule::Personality => {
            asm.any_set(!PERSONALITY, fail, pass);
            let next = asm.here();
            asm.equal(ASK_PERSONALITY, pass, next);
            asm.load_arg(0)
        }
        ArgRule::Prctl => none_of(asm, 0, &[PR_SET_MM, PR_SCHED_CORE], pass, fail),
        ArgRule::PidArg0Zero => equals(asm, 0, 0, pass, fail),
        ArgRule::PrioritySelf => {
            let caller = equals(asm, 1, 0, pass, fail);
            equals(asm, 0, PRIO_PROCESS, caller, fail)
        }
        ArgRule::IoPrioritySelf => {
            let caller = equals(asm, 1, 0, pass, fail);
            equals(asm, 0, IOPRIO_WHO_PROCESS, caller, fail)
        }
        ArgRule::ModeArg1 => none_set(asm, 1, SETUID, pass, fail),
        ArgRule::ModeArg2 => none_set(asm, 2, SETUID, pass, fail),
        ArgRule::NodeArg1 => none_set(asm, 1, DEVICE | SETUID, pass, fail),
        ArgRule::NodeArg2 => none_set(asm, 2, DEVICE | SETUID, pass, fail),
        ArgRule::Seccomp => none_set(asm, 1, NEW_LISTENER, pass, fail),
    }
}

/// The type in argument 1 is a stream or a packet stream. (A raw unix socket is a datagram one to the kernel.)
fn connected(asm: &mut Assembler, pass: Label, fail: Label) -> Label {
    asm.equal(PACKETS, pass, fail);
    let next = asm.here();
    asm.equal(STREAM, pass, next);
    asm.and(TYPE_MASK);
    asm.load_arg(1)
}

fn equals(asm: &mut Assembler, arg: u32, value: u32, pass: Label, fail: Label) -> Label {
    if let Some(same) = asm.find_equal(arg, value, pass, fail) {
        return same;
    }
    asm.equal(value, pass, fail);
    asm.load_arg(arg)
}

fn none_set(asm: &mut Assembler, arg: u32, bits: u32, pass: Label, fail: Label) -> Label {
    asm.any_set(bits, fail, pass);
    asm.load_arg(arg)
}

fn none_of(asm: &mut Assembler, arg: u32, values: &[u32], pass: Label, fail: Label) -> Label {
    let mut next = pass;
    for &value in values {
        asm.equal(value, fail, next);
        next = asm.here();
    }
    asm.load_arg(arg)
}

/// Whether a rule lets these registers through.
pub(super) fn permits(rule: ArgRule, args: &[u64; 6]) -> bool {
    let word = |arg: usize| args[arg] as u32;
    let int = |arg: usize| args[arg] as i32;
    let mode = |arg: usize| args[arg] as u16 as u32;
    let makes_device = |mode: u32| matches!(mode & libc::S_IFMT, libc::S_IFCHR | libc::S_IFBLK);
    match rule {
        ArgRule::Namespaces => word(0) & NEW_NAMESPACES == 0,
        ArgRule::Socket | ArgRule::SocketNoDatagram | ArgRule::SocketInet => match int(0) {
            libc::AF_UNIX | libc::AF_NETLINK if rule == ArgRule::SocketInet => false,
            libc::AF_UNIX => rule == ArgRule::Socket || matches!(word(1) & TYPE_MASK, STREAM | PACKETS),
            libc::AF_NETLINK => int(2) == libc::NETLINK_ROUTE,
            libc::AF_INET | libc::AF_INET6 => {
                let kind = word(1) & TYPE_MASK;
                kind <= DATAGRAM && (word(2) <= UDP || word(2) == ICMPV6 || word(2) == MPTCP)
            }
            _ => false,
        },
        ArgRule::SocketPair => int(0) == libc::AF_UNIX,
        ArgRule::SocketPairNoDatagram => {
            int(0) == libc::AF_UNIX && matches!(word(1) & TYPE_MASK, STREAM | PACKETS)
        }
        ArgRule::Ioctl => !TERMINAL_REQUESTS.contains(&word(1)),
        ArgRule::Personality => word(0) == ASK_PERSONALITY || word(0) | PERSONALITY == PERSONALITY,
        ArgRule::Prctl => word(0) != PR_SET_MM && word(0) != PR_SCHED_CORE,
        ArgRule::PidArg0Zero => int(0) == 0,
        ArgRule::PrioritySelf => word(0) == PRIO_PROCESS && int(1) == 0,
        ArgRule::IoPrioritySelf => word(0) == IOPRIO_WHO_PROCESS && int(1) == 0,
        ArgRule::ModeArg1 => mode(1) & SETUID == 0,
        ArgRule::ModeArg2 => mode(2) & SETUID == 0,
        ArgRule::NodeArg1 => !makes_device(mode(1)) && mode(1) & (SETUID | DEVICE) == 0,
        ArgRule::NodeArg2 => !makes_device(mode(2)) && mode(2) & (SETUID | DEVICE) == 0,
        ArgRule::Seccomp => word(1) & NEW_LISTENER == 0,
    }
}
