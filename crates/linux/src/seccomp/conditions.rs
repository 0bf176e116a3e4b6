//! The rules once more, as data for a runtime that compiles its own filter: which calls are open, and for the others which
//! registers open them. A condition compares the low word under a mask, which every rule can be written with: a comparison of all
//! 64 bits would be passed by a high word that the kernel does not look at.

use super::rules::Rules;
use super::table::{ArgRule, Verdict, entries};

/// `args[arg] & mask == value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    pub arg: u32,
    pub mask: u32,
    pub value: u32,
}

/// What becomes of a call, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallRule {
    Open,
    /// EPERM.
    Closed,
    /// ENOSYS, so that libc falls back to an older call.
    NoSys,
    /// Open where all conditions of one of these hold. No argument is in one of them twice.
    OpenIf(Vec<Vec<Condition>>),
}

/// Which unix sockets a program may make, where nobody looks at what they are connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnixSockets {
    Any,
    /// Pairs only, which have no name.
    Pairs,
}

impl Rules {
    /// Every call of the table by name, in order.
    pub fn by_name(&self, unix: UnixSockets) -> Vec<(&'static str, CallRule)> {
        let mut calls: Vec<_> = entries()
            .map(|entry| {
                let rule = match entry.verdict {
                    _ if self.deny.contains(entry.name) => CallRule::Closed,
                    _ if self.allow.contains(entry.name) => CallRule::Open,
                    Verdict::Allow => CallRule::Open,
                    Verdict::Closed => CallRule::Closed,
                    Verdict::NoSys => CallRule::NoSys,
                    Verdict::Args(rule) => CallRule::OpenIf(conditions(self.rule(rule), unix)),
                };
                (entry.name, rule)
            })
            .collect();
        calls.sort_by_key(|(name, _)| *name);
        calls
    }
}

const WORD: u32 = u32::MAX;
const TYPE_MASK: u32 = 0xf;

fn is(arg: u32, value: u32) -> Condition {
    Condition { arg, mask: WORD, value }
}

fn none_set(arg: u32, bits: u32) -> Vec<Vec<Condition>> {
    vec![vec![Condition { arg, mask: bits, value: 0 }]]
}

/// The rule as conditions.
fn conditions(rule: ArgRule, unix: UnixSockets) -> Vec<Vec<Condition>> {
    const STREAM: u32 = libc::SOCK_STREAM as u32;
    const PACKETS: u32 = libc::SOCK_SEQPACKET as u32;
    const NEW_NAMESPACES: u32 = 0x80
        | (libc::CLONE_NEWNS
            | libc::CLONE_NEWCGROUP
            | libc::CLONE_NEWUTS
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUSER
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWNET) as u32;
    let of_type = |kind| Condition { arg: 1, mask: TYPE_MASK, value: kind };
    let family = |family: i32| is(0, family as u32);
    let connected = || [STREAM, PACKETS].map(|kind| vec![family(libc::AF_UNIX), of_type(kind)]).to_vec();
    match rule {
        ArgRule::Namespaces => none_set(0, NEW_NAMESPACES),
        ArgRule::Socket | ArgRule::SocketNoDatagram | ArgRule::SocketInet => {
            let mut open = match (unix, rule) {
                (UnixSockets::Pairs, _) | (_, ArgRule::SocketInet) => Vec::new(),
                (UnixSockets::Any, ArgRule::SocketNoDatagram) => connected(),
                (UnixSockets::Any, _) => vec![vec![family(libc::AF_UNIX)]],
            };
            if rule != ArgRule::SocketInet {
                open.push(vec![family(libc::AF_NETLINK), is(2, libc::NETLINK_ROUTE as u32)]);
            }
            // Unspecified and stream, then datagram; protocols up to UDP, ICMPv6 and MPTCP.
            let kinds = [(TYPE_MASK & !1, 0), (TYPE_MASK, 2)];
            let protocols = [
                (!0xf, 0),
                (!1, 16),
                (WORD, libc::IPPROTO_ICMPV6 as u32),
                (WORD, libc::IPPROTO_MPTCP as u32),
            ];
            for version in [libc::AF_INET, libc::AF_INET6] {
                for (mask, value) in kinds {
                    let kind = Condition { arg: 1, mask, value };
                    open.extend(
                        protocols.map(|(mask, value)| {
                            vec![family(version), kind, Condition { arg: 2, mask, value }]
                        }),
                    );
                }
            }
            open
        }
        ArgRule::SocketPair => vec![vec![family(libc::AF_UNIX)]],
        ArgRule::SocketPairNoDatagram => connected(),
        // TIOCSTI, TIOCLINUX, TIOCCONS and TIOCSETD.
        ArgRule::Ioctl => none_of(1, &[0x5412, 0x541c, 0x541d, 0x5423]),
        ArgRule::Personality => {
            vec![vec![is(0, WORD)], vec![Condition { arg: 0, mask: !0x0004_0008, value: 0 }]]
        }
        ArgRule::Prctl => none_of(0, &[libc::PR_SET_MM as u32, libc::PR_SCHED_CORE as u32]),
        ArgRule::PidArg0Zero => vec![vec![is(0, 0)]],
        ArgRule::PrioritySelf => vec![vec![is(0, libc::PRIO_PROCESS), is(1, 0)]],
        ArgRule::IoPrioritySelf => vec![vec![is(0, 1), is(1, 0)]],
        ArgRule::ModeArg1 => none_set(1, libc::S_ISUID),
        ArgRule::ModeArg2 => none_set(2, libc::S_ISUID),
        ArgRule::NodeArg1 => none_set(1, 0o020000 | libc::S_ISUID),
        ArgRule::NodeArg2 => none_set(2, 0o020000 | libc::S_ISUID),
        ArgRule::Seccomp => none_set(1, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as u32),
    }
}

/// Every word but these: for each of them the words that share its upper bits down to one, in which they differ.
fn none_of(arg: u32, values: &[u32]) -> Vec<Vec<Condition>> {
    let mut open: Vec<Condition> = Vec::new();
    for &value in values {
        for bit in 0..32 {
            let mask = WORD << bit;
            let prefix = (value ^ (1 << bit)) & mask;
            let holds_one = values.iter().any(|other| other & mask == prefix);
            let known = open.iter().any(|one| one.mask == mask && one.value == prefix);
            if !holds_one && !known {
                open.push(Condition { arg, mask, value: prefix });
            }
        }
    }
    open.into_iter().map(|condition| vec![condition]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::args::permits;
    use super::*;

    const RULES: [ArgRule; 17] = [
        ArgRule::Namespaces,
        ArgRule::Socket,
        ArgRule::SocketPair,
        ArgRule::SocketNoDatagram,
        ArgRule::SocketInet,
        ArgRule::SocketPairNoDatagram,
        ArgRule::Ioctl,
        ArgRule::Personality,
        ArgRule::Prctl,
        ArgRule::PidArg0Zero,
        ArgRule::PrioritySelf,
        ArgRule::IoPrioritySelf,
        ArgRule::ModeArg1,
        ArgRule::ModeArg2,
        ArgRule::NodeArg1,
        ArgRule::NodeArg2,
        ArgRule::Seccomp,
    ];

    fn holds(open: &[Vec<Condition>], args: &[u64; 6]) -> bool {
        let one = |it: &Condition| args[it.arg as usize] as u32 & it.mask == it.value;
        open.iter().any(|all| all.iter().all(one))
    }

    /// Values at which a rule changes its mind, with their neighbours, and a high word that must not count.
    fn words() -> Vec<u64> {
        let mut words: Vec<u64> = vec![u64::from(u32::MAX), 0x0004_0008, 0x0004_0009, 0x2_0000_0001];
        for value in [0, 1, 2, 5, 10, 16, 17, 18, 35, 58, 62, 262, 0x5412, 0x541c, 0x541d, 0x5423] {
            let high = 0x1_0000_0000;
            words.extend([
                value,
                value + 1,
                value ^ 0x10,
                value ^ 0x8000_0000,
                value | high,
                value | 0x80000,
            ]);
        }
        for bit in 0..32 {
            words.extend([1 << bit, (1 << bit) | 1, 0x5412 ^ (1 << bit)]);
        }
        words.sort_unstable();
        words.dedup();
        words
    }

    #[test]
    fn conditions_are_the_rules() {
        let words = words();
        for rule in RULES {
            let open = conditions(rule, UnixSockets::Any);
            for all in &open {
                let mut args: Vec<u32> = all.iter().map(|it| it.arg).collect();
                args.dedup();
                assert_eq!(args.len(), all.len(), "{rule:?} compares an argument twice");
            }
            let mode =
                matches!(rule, ArgRule::ModeArg1 | ArgRule::ModeArg2 | ArgRule::NodeArg1 | ArgRule::NodeArg2);
            for &first in &words {
                for &second in &words {
                    for third in [0, 6, 17, 18, 58, 132, 262] {
                        let args = [first, second, if mode { second } else { third }, 0, 0, 0];
                        assert_eq!(holds(&open, &args), permits(rule, &args), "{rule:?} {args:x?}");
                    }
                }
            }
        }
    }

    #[test]
    fn unix_sockets_can_be_left_to_pairs() {
        let unix = |kind: u64| [libc::AF_UNIX as u64, kind, 0, 0, 0, 0];
        let socket = conditions(ArgRule::Socket, UnixSockets::Pairs);
        assert!((0..16).all(|kind| !holds(&socket, &unix(kind))));
        assert!(holds(&socket, &[libc::AF_INET as u64, 1, 6, 0, 0, 0]));
        assert!(holds(&conditions(ArgRule::SocketPair, UnixSockets::Pairs), &unix(1)));
    }

    #[test]
    fn every_call_is_named_once_and_the_callers_changes_hold() {
        let mut rules = Rules::default();
        rules.deny.insert("read".into());
        rules.allow.insert("ptrace".into());
        let calls = rules.by_name(UnixSockets::Any);
        let of = |name: &str| calls.iter().find(|(called, _)| *called == name).unwrap().1.clone();
        assert_eq!(of("read"), CallRule::Closed);
        assert_eq!(of("ptrace"), CallRule::Open);
        assert_eq!(of("clone3"), CallRule::NoSys);
        assert_eq!(of("bpf"), CallRule::Closed);
        assert!(matches!(of("ioctl"), CallRule::OpenIf(_)));
        assert!(calls.windows(2).all(|pair| pair[0].0 < pair[1].0), "sorted, and no name twice");
    }
}
