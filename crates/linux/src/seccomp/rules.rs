//! What a caller asks of the filter, and what it means for one call. `decide` answers in plain code what the
//! compiled program answers in the kernel: the listener uses it to tell a closed call from a traced one.

use std::collections::BTreeSet;

use super::args;
use super::table::{Arch, ArgRule, Entry, Verdict, X32_BIT, X32_FIRST, entries, entry_of};

/// Changes to the table's verdicts. `deny` wins over `allow`; an allowed name loses its argument rule too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub allow: BTreeSet<String>,
    pub deny: BTreeSet<String>,
    /// Opens i386 and x32 entry on x86_64, under the same verdicts.
    pub compat: bool,
    pub closed: ClosedAction,
    /// Closes unix sockets that send without `connect`: where a listener carries out every `connect`, those would
    /// get past it.
    pub no_unix_datagrams: bool,
    /// `socket` makes inet sockets only.
    pub inet_only: bool,
    /// Calls that go to the listener where they would be allowed: tracing.
    pub notify_also: Vec<&'static str>,
}

/// How a closed call fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClosedAction {
    /// The listener is told and answers. Without a living listener the call fails with ENOSYS.
    #[default]
    Notify,
    /// EPERM from the kernel, unreported.
    Errno,
}

/// What the rules say about one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow,
    /// Allowed, but it goes to the listener first.
    Trace,
    Closed,
    NoSys,
}

impl Rules {
    /// Nothing but these calls, each with its argument rule. What is closed fails with EPERM.
    pub fn only(names: &[&str]) -> Self {
        let closed = entries().map(|entry| entry.name).filter(|name| !names.contains(name));
        Self { deny: closed.map(str::to_owned).collect(), closed: ClosedAction::Errno, ..Self::default() }
    }

    /// The decision on a call with these registers. `native` is the architecture the filter was compiled for,
    /// `audit` the one the call came in by.
    pub fn decide(&self, native: Arch, audit: u32, nr: u32, args: &[u64; 6]) -> Decision {
        let arch = match Arch::from_audit(audit) {
            Some(arch) if arch == native => arch,
            Some(Arch::I386) if native == Arch::X86_64 && self.compat => Arch::I386,
            _ => return Decision::Closed,
        };
        let x32 = arch == Arch::X86_64 && nr & (X32_BIT | 1 << 31) == X32_BIT;
        if x32 && !self.compat {
            return Decision::Closed;
        }
        // The filter strips the x32 bit, so it takes x32's own numbers without it too (the kernel does not).
        let bit = if self.compat && arch == Arch::X86_64 && nr as usize >= X32_FIRST { X32_BIT } else { 0 };
        match entry_of(arch, nr | bit) {
            Some(entry) if nr < 1 << 31 => self.decide_entry(entry, args),
            _ => Decision::NoSys,
        }
    }

    /// The table's rule, or the tighter one that is asked for.
    pub(super) fn rule(&self, rule: ArgRule) -> ArgRule {
        match rule {
            ArgRule::Socket if self.inet_only => ArgRule::SocketInet,
            ArgRule::Socket if self.no_unix_datagrams => ArgRule::SocketNoDatagram,
            ArgRule::SocketPair if self.no_unix_datagrams => ArgRule::SocketPairNoDatagram,
            rule => rule,
        }
    }

    fn decide_entry(&self, entry: &Entry, args: &[u64; 6]) -> Decision {
        let allowed = match entry.verdict {
            _ if self.deny.contains(entry.name) => return Decision::Closed,
            _ if self.allow.contains(entry.name) => true,
            Verdict::Allow => true,
            Verdict::Args(rule) => args::permits(self.rule(rule), args),
            Verdict::Closed => false,
            Verdict::NoSys => return Decision::NoSys,
        };
        match allowed {
            false => Decision::Closed,
            true if self.notify_also.contains(&entry.name) => Decision::Trace,
            true => Decision::Allow,
        }
    }
}
