//! The system-call table: names, numbers, verdicts and reasons for x86_64, aarch64 and i386.
//! The entries themselves are in `data/`; here they are laid out, at compile time, for look-up by number.

use super::data::{TOPICS, X32};

/// An instruction set as seccomp sees it. i386 is only ever the 32-bit entry of an x86_64 kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    X86_64,
    Aarch64,
    I386,
}

impl Arch {
    /// The architecture this program was built for.
    #[cfg(target_arch = "x86_64")]
    pub const NATIVE: Arch = Arch::X86_64;
    /// The architecture this program was built for.
    #[cfg(target_arch = "aarch64")]
    pub const NATIVE: Arch = Arch::Aarch64;

    /// The kernel's `AUDIT_ARCH_*` value.
    pub const fn audit(self) -> u32 {
        match self {
            Arch::X86_64 => 0xc000_003e,
            Arch::Aarch64 => 0xc000_00b7,
            Arch::I386 => 0x4000_0003,
        }
    }

    /// The architecture of an `AUDIT_ARCH_*` value, as a notification carries it.
    pub const fn from_audit(audit: u32) -> Option<Arch> {
        match audit {
            0xc000_003e => Some(Arch::X86_64),
            0xc000_00b7 => Some(Arch::Aarch64),
            0x4000_0003 => Some(Arch::I386),
            _ => None,
        }
    }
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// Known and closed: EPERM, and reported.
    Closed,
    /// Always ENOSYS, so that libc falls back to an older call.
    NoSys,
    /// Allowed for some arguments, else closed.
    Args(ArgRule),
}

/// Rules on register values. Each looks only at what the kernel looks at: all the arguments checked are `int`,
/// `unsigned int` or `umode_t` (or `unsigned long` flags of which the kernel uses the low word), so it is the
/// low word that counts and a set high word changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgRule {
    /// Flags in argument 0 without any `CLONE_NEW*`. 0x80 is `CLONE_NEWTIME` to unshare; to clone it would be
    /// part of an exit signal beyond the last one.
    Namespaces,
    /// unix; route netlink; inet with stream or datagram and a common protocol.
    Socket,
    /// unix only.
    SocketPair,
    /// The same two without unix datagrams, which can be sent to any path with no `connect` before.
    SocketNoDatagram,
    SocketPairNoDatagram,
    /// Inet alone.
    SocketInet,
    /// Argument 1 is no request that feeds, captures or reprograms a terminal.
    Ioctl,
    /// Argument 0 is 0xffffffff (ask) or has only `PER_LINUX32` and `ADDR_NO_RANDOMIZE` set.
    Personality,
    /// Argument 0 is neither `PR_SET_MM` nor `PR_SCHED_CORE`.
    Prctl,
    /// The pid in argument 0 is 0, the caller.
    PidArg0Zero,
    /// `PRIO_PROCESS` of the caller.
    PrioritySelf,
    /// `IOPRIO_WHO_PROCESS` of the caller.
    IoPrioritySelf,
    /// The mode in argument 1 has no setuid bit.
    ModeArg1,
    /// The mode in argument 2 has no setuid bit.
    ModeArg2,
    /// The mode in argument 1 is no device and has no setuid bit.
    NodeArg1,
    /// The mode in argument 2 is no device and has no setuid bit.
    NodeArg2,
    /// The flags in argument 1 ask for no listener.
    Seccomp,
}

/// One system call. A number is `None` where the architecture lacks the call.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub name: &'static str,
    pub x86_64: Option<u32>,
    pub aarch64: Option<u32>,
    pub i386: Option<u32>,
    pub verdict: Verdict,
    pub reason: &'static str,
}

impl Entry {
    pub const fn number(&self, arch: Arch) -> Option<u32> {
        match arch {
            Arch::X86_64 => self.x86_64,
            Arch::Aarch64 => self.aarch64,
            Arch::I386 => self.i386,
        }
    }
}

/// The bit that marks an x32 call in an x86_64 number.
pub(super) const X32_BIT: u32 = 0x4000_0000;
/// Room for the highest number: x32's own calls end at 547.
pub(super) const NUMBERS: usize = 548;
/// x32's own calls begin here; no architecture has other calls from here on.
pub(super) const X32_FIRST: usize = 512;
/// "No call has this number" in the arrays by number.
const NONE: u16 = u16::MAX;

/// Every entry, topic by topic.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    ENTRIES.iter()
}

/// The entry of a name.
pub fn entry(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

/// The entry of a number; an x32 number is understood too.
pub fn entry_of(arch: Arch, nr: u32) -> Option<&'static Entry> {
    let x32 = arch == Arch::X86_64 && nr & X32_BIT != 0;
    let nr = if x32 { nr & !X32_BIT } else { nr } as usize;
    if nr >= if x32 { NUMBERS } else { X32_FIRST } {
        return None;
    }
    let index = match arch {
        Arch::X86_64 => X86_64[nr],
        Arch::Aarch64 => AARCH64[nr],
        Arch::I386 => I386[nr],
    };
    ENTRIES.get(usize::from(index))
}

/// The name of a number.
pub fn name_of(arch: Arch, nr: u32) -> Option<&'static str> {
    entry_of(arch, nr).map(|entry| entry.name)
}

/// Calls `change` with each place an entry has in the arrays by number.
pub(super) fn for_each_place(entry: &Entry, arch: Arch, mut change: impl FnMut(usize)) {
    if let Some(number) = entry.number(arch) {
        change(number as usize);
    }
    if arch == Arch::X86_64 {
        X32.iter().filter(|(_, name)| *name == entry.name).for_each(|(number, _)| change(*number as usize));
    }
}

/// Why a call has the verdict it has.
pub fn reason_of(name: &str) -> Option<&'static str> {
    entry(name).map(|entry| entry.reason)
}

/// The verdicts by number, `None` where there is no call. Kept apart from the entries: the compiler reads only
/// this, and it holds no pointers, so it costs no relocations and dirties no page.
pub(super) fn verdicts(arch: Arch) -> &'static [Option<Verdict>; NUMBERS] {
    match arch {
        Arch::X86_64 => &X86_64_VERDICTS,
        Arch::Aarch64 => &AARCH64_VERDICTS,
        Arch::I386 => &I386_VERDICTS,
    }
}

const COUNT: usize = {
    let (mut count, mut topic) = (0, 0);
    while topic < TOPICS.len() {
        count += TOPICS[topic].len();
        topic += 1;
    }
    count
};

static ENTRIES: [Entry; COUNT] = {
    let mut flat = [TOPICS[0][0]; COUNT];
    let (mut at, mut topic) = (0, 0);
    while topic < TOPICS.len() {
        let mut i = 0;
        while i < TOPICS[topic].len() {
            flat[at] = TOPICS[topic][i];
            at += 1;
            i += 1;
        }
        topic += 1;
    }
    flat
};

static X86_64: [u16; NUMBERS] = by_number(Arch::X86_64);
static AARCH64: [u16; NUMBERS] = by_number(Arch::Aarch64);
static I386: [u16; NUMBERS] = by_number(Arch::I386);
static X86_64_VERDICTS: [Option<Verdict>; NUMBERS] = verdicts_by_number(Arch::X86_64);
static AARCH64_VERDICTS: [Option<Verdict>; NUMBERS] = verdicts_by_number(Arch::Aarch64);
static I386_VERDICTS: [Option<Verdict>; NUMBERS] = verdicts_by_number(Arch::I386);

/// Lays the entries out by number. A number that is given twice stops the build.
const fn by_number(arch: Arch) -> [u16; NUMBERS] {
    let mut indices = [NONE; NUMBERS];
    let mut i = 0;
    while i < COUNT {
        if let Some(number) = ENTRIES[i].number(arch) {
            assert!((number as usize) < X32_FIRST && indices[number as usize] == NONE);
            indices[number as usize] = i as u16;
        }
        i += 1;
    }
    if matches!(arch, Arch::X86_64) {
        let mut i = 0;
        while i < X32.len() {
            let (number, name) = X32[i];
            assert!(indices[number as usize] == NONE);
            indices[number as usize] = index_of(name);
            i += 1;
        }
    }
    indices
}

const fn verdicts_by_number(arch: Arch) -> [Option<Verdict>; NUMBERS] {
    let indices = by_number(arch);
    let mut verdicts = [None; NUMBERS];
    let mut number = 0;
    while number < NUMBERS {
        if indices[number] != NONE {
            verdicts[number] = Some(ENTRIES[indices[number] as usize].verdict);
        }
        number += 1;
    }
    verdicts
}

const fn index_of(name: &str) -> u16 {
    let mut i = 0;
    while i < COUNT {
        if same(ENTRIES[i].name.as_bytes(), name.as_bytes()) {
            return i as u16;
        }
        i += 1;
    }
    panic!("an x32 call is not in the table")
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
