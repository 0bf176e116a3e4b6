use std::time::Instant;

use super::super::emulate;
use super::super::rules::Decision;
use super::super::table::{entry_of, name_of};
use super::*;

/// xorshift64*: enough for tests, and the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Values near every border of the argument rules, with and without a high word, and arbitrary ones.
    fn arg(&mut self) -> u64 {
        let low = match self.below(4) {
            0 => u64::from(self.next() as u32),
            1 => 1 << self.below(32),
            2 => self.below(300) as u64,
            _ => self.pick(&[
                0,
                1,
                2,
                3,
                10,
                16,
                17,
                18,
                35,
                40,
                58,
                62,
                262,
                0x5411,
                0x5412,
                0x5413,
                0x541c,
                0x541d,
                0x541e,
                0x5423,
                0x40000,
                0x40008,
                0x400000,
                0xffff_ffff,
                0o100644,
                0o104755,
                0o020600,
                0o060600,
                0o010600,
                0o140600,
                0o120777,
                0o4755,
                0o2755,
                0x1000_0000,
                0x0120_0011,
                0x3d0f00,
                0x80001,
                0x80003,
            ]),
        };
        match self.below(3) {
            0 => low | self.next() << 32,
            _ => low,
        }
    }

    fn args(&mut self) -> [u64; 6] {
        std::array::from_fn(|_| self.arg())
    }

    fn names(&mut self) -> Vec<&'static str> {
        let all: Vec<_> = entries().map(|entry| entry.name).collect();
        (0..self.below(12)).map(|_| self.pick(&all)).collect()
    }
}

/// The value the program must return for a decision.
fn value(decision: Decision, closed: ClosedAction) -> u32 {
    match (decision, closed) {
        (Decision::Allow, _) => libc::SECCOMP_RET_ALLOW,
        (Decision::NoSys, _) => libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32,
        (Decision::Closed, ClosedAction::Errno) => libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        (Decision::Closed, ClosedAction::Notify) | (Decision::Trace, _) => libc::SECCOMP_RET_USER_NOTIF,
    }
}

/// Holds the program against the table for every number of every entry, with several argument sets each.
fn assert_program_obeys(arch: Arch, rules: &Rules, random: &mut Random, rounds: usize) {
    let program = compile(arch, rules).unwrap();
    let audits = [
        Arch::X86_64.audit(),
        Arch::Aarch64.audit(),
        Arch::I386.audit(),
        0x4000_0028,
        0,
        random.next() as u32,
    ];
    for audit in audits {
        let edges = [1 << 31, u32::MAX, X32_BIT - 1, X32_BIT | 1 << 31, X32_BIT | 1 << 20, u32::MAX - 1];
        for nr in (0..1024).chain(X32_BIT..X32_BIT + 1024).chain(edges) {
            for _ in 0..rounds {
                let args = random.args();
                let expected = value(rules.decide(arch, audit, nr, &args), rules.closed);
                let actual = emulate::run(&program, audit, nr, &args).value;
                assert_eq!(
                    actual,
                    expected,
                    "{arch:?} audit {audit:#x} nr {nr:#x} ({:?}) args {args:x?} rules {rules:?}",
                    Arch::from_audit(audit).and_then(|arch| name_of(arch, nr)),
                );
            }
        }
    }
}

#[test]
fn the_default_programs_obey_the_table() {
    let mut random = Random(1);
    for arch in [Arch::X86_64, Arch::Aarch64] {
        for closed in [ClosedAction::Notify, ClosedAction::Errno] {
            for no_unix_datagrams in [false, true] {
                let rules = Rules { closed, no_unix_datagrams, ..Rules::default() };
                assert_program_obeys(arch, &rules, &mut random, 40);
            }
        }
    }
}

#[test]
fn with_compat_the_other_entries_obey_the_table_too() {
    let mut random = Random(2);
    for closed in [ClosedAction::Notify, ClosedAction::Errno] {
        assert_program_obeys(
            Arch::X86_64,
            &Rules { compat: true, closed, ..Rules::default() },
            &mut random,
            20,
        );
    }
}

#[test]
fn random_changes_are_obeyed() {
    let mut random = Random(3);
    for round in 0..150 {
        let arch = random.pick(&[Arch::X86_64, Arch::Aarch64]);
        let rules = Rules {
            allow: random.names().into_iter().map(str::to_owned).collect(),
            deny: random.names().into_iter().map(str::to_owned).collect(),
            compat: arch == Arch::X86_64 && random.below(3) == 0,
            closed: random.pick(&[ClosedAction::Notify, ClosedAction::Errno]),
            no_unix_datagrams: random.below(2) == 0,
            inet_only: random.below(3) == 0,
            notify_also: random.names(),
        };
        assert_program_obeys(arch, &rules, &mut random, 1 + round % 2);
    }
}

/// The worst case for the tree and for jump offsets: neighbours that never agree.
#[test]
fn a_program_too_long_for_short_jumps_is_still_right() {
    let mut random = Random(4);
    let numbered = |test: fn(u32) -> bool| {
        entries().filter(move |entry| entry.x86_64.or(entry.i386).is_some_and(test)).map(|entry| entry.name)
    };
    let rules = Rules {
        deny: numbered(|number| number % 4 == 1 || number % 11 == 0).map(str::to_owned).collect(),
        notify_also: numbered(|number| number % 2 == 0).collect(),
        closed: ClosedAction::Errno,
        compat: true,
        ..Rules::default()
    };
    let program = compile(Arch::X86_64, &rules).unwrap();
    assert!(program.instructions().len() > 500, "{}", program.instructions().len());
    assert!(program.instructions().iter().any(|insn| insn.code == 0x05), "no long jump was needed");
    assert_program_obeys(Arch::X86_64, &rules, &mut random, 3);
}

#[test]
fn what_the_issue_names_comes_out_as_it_says() {
    let rules = Rules { closed: ClosedAction::Errno, ..Rules::default() };
    let program = compile(Arch::X86_64, &rules).unwrap();
    let eperm = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let enosys = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    let allow = libc::SECCOMP_RET_ALLOW;
    let call = |name: &str, args: [u64; 6]| {
        let nr = entry(name).and_then(|entry| entry.x86_64).unwrap();
        emulate::run(&program, Arch::X86_64.audit(), nr, &args).value
    };
    let cases: &[(&str, [u64; 6], u32)] = &[
        ("clone3", [0; 6], enosys),
        ("keyctl", [0; 6], eperm),
        ("ptrace", [0; 6], eperm),
        ("clone", [0x3d0f00, 0, 0, 0, 0, 0], allow),
        ("clone", [0x1200011, 0, 0, 0, 0, 0], allow),
        ("clone", [0x1000_0011, 0, 0, 0, 0, 0], eperm),
        ("unshare", [0x200, 0, 0, 0, 0, 0], allow),
        ("unshare", [0x1000_0000, 0, 0, 0, 0, 0], eperm),
        ("unshare", [0x80, 0, 0, 0, 0, 0], eperm),
        ("ioctl", [0, 0x5401, 0, 0, 0, 0], allow),
        ("ioctl", [0, 0x5412, 0, 0, 0, 0], eperm),
        // The kernel takes the request as an `unsigned int`, so a set high word is still TIOCSTI.
        ("ioctl", [0, 0xdead_beef_0000_5412, 0, 0, 0, 0], eperm),
        ("socket", [1, 0x80002, 0, 0, 0, 0], allow),
        ("socket", [2, 0x80801, 6, 0, 0, 0], allow),
        ("socket", [10, 2, 58, 0, 0, 0], allow),
        ("socket", [2, 1, 262, 0, 0, 0], allow),
        ("socket", [2, 3, 1, 0, 0, 0], eperm),
        ("socket", [2, 1, 132, 0, 0, 0], eperm),
        ("socket", [16, 3, 0, 0, 0, 0], allow),
        ("socket", [16, 3, 9, 0, 0, 0], eperm),
        ("socket", [17, 3, 0, 0, 0, 0], eperm),
        ("socket", [38, 5, 0, 0, 0, 0], eperm),
        ("socket", [40, 1, 0, 0, 0, 0], eperm),
        ("socketpair", [1, 1, 0, 0, 0, 0], allow),
        ("socketpair", [2, 1, 0, 0, 0, 0], eperm),
        ("prlimit64", [0, 7, 0, 0, 0, 0], allow),
        ("prlimit64", [1, 0, 0, 0, 0, 0], eperm),
        ("prlimit64", [1 << 32, 0, 0, 0, 0, 0], allow),
        ("setpriority", [0, 0, 10, 0, 0, 0], allow),
        ("setpriority", [0, 1, 10, 0, 0, 0], eperm),
        ("setpriority", [2, 0, 10, 0, 0, 0], eperm),
        ("ioprio_set", [1, 0, 0, 0, 0, 0], allow),
        ("ioprio_set", [3, 0, 0, 0, 0, 0], eperm),
        ("chmod", [0, 0o2755, 0, 0, 0, 0], allow),
        ("chmod", [0, 0o4755, 0, 0, 0, 0], eperm),
        ("fchmodat2", [0, 0, 0o4755, 0, 0, 0], eperm),
        ("mknodat", [0, 0, 0o010644, 0, 0, 0], allow),
        ("mknodat", [0, 0, 0o020644, 0, 0, 0], eperm),
        ("mknodat", [0, 0, 0o104755, 0, 0, 0], eperm),
        ("personality", [0xffff_ffff, 0, 0, 0, 0, 0], allow),
        ("personality", [0x40000, 0, 0, 0, 0, 0], allow),
        ("personality", [0x400000, 0, 0, 0, 0, 0], eperm),
        ("prctl", [22, 2, 0, 0, 0, 0], allow),
        ("prctl", [35, 0, 0, 0, 0, 0], eperm),
        ("seccomp", [1, 0, 0, 0, 0, 0], allow),
        ("seccomp", [1, 8, 0, 0, 0, 0], eperm),
    ];
    for (name, args, expected) in cases {
        assert_eq!(call(name, *args), *expected, "{name} {args:x?}");
    }
    let run = |arch, nr| emulate::run(&program, arch, nr, &[0; 6]).value;
    assert_eq!(run(Arch::X86_64.audit(), 470), enosys);
    assert_eq!(run(Arch::X86_64.audit(), u32::MAX), enosys, "syscall(-1) probes for support");
    assert_eq!(run(Arch::X86_64.audit(), X32_BIT), eperm);
    assert_eq!(run(Arch::I386.audit(), 3), eperm);
}

#[test]
fn a_few_calls_and_no_others_can_be_open() {
    let mut random = Random(5);
    for arch in [Arch::X86_64, Arch::Aarch64] {
        let rules = Rules { inet_only: true, ..Rules::only(&["read", "socket", "exit_group"]) };
        assert_program_obeys(arch, &rules, &mut random, 40);
        let program = compile(arch, &rules).unwrap();
        let allowed = |name: &str, args: [u64; 6]| {
            let nr = entry(name).and_then(|entry| entry.number(arch)).unwrap();
            emulate::run(&program, arch.audit(), nr, &args).value == ALLOW
        };
        let socket = |family: i32| allowed("socket", [family as u64, libc::SOCK_STREAM as u64, 0, 0, 0, 0]);
        assert!(socket(libc::AF_INET) && socket(libc::AF_INET6) && allowed("read", [0; 6]));
        for family in [libc::AF_UNIX, libc::AF_NETLINK, libc::AF_PACKET, libc::AF_VSOCK] {
            assert!(!socket(family), "{family}");
        }
        for name in ["write", "execve", "openat", "ptrace"] {
            assert!(!allowed(name, [0; 6]), "{name}");
        }
    }
}

#[test]
fn unix_datagrams_can_be_closed() {
    let rules = Rules { closed: ClosedAction::Errno, no_unix_datagrams: true, ..Rules::default() };
    let program = compile(Arch::X86_64, &rules).unwrap();
    let open = |name: &str, family: u64, kind: u64| {
        let nr = entry(name).and_then(|entry| entry.x86_64).unwrap();
        let result = emulate::run(&program, Arch::X86_64.audit(), nr, &[family, kind, 0, 0, 0, 0]);
        result.value == libc::SECCOMP_RET_ALLOW
    };
    for name in ["socket", "socketpair"] {
        // Stream and packets, with and without flags; datagrams, and raw, which the kernel makes datagrams of.
        let kinds = [1, 0x80001, 5, 0x80805, 2, 0x80002, 3, 0x803];
        let unix = kinds.map(|kind| open(name, 1, kind));
        assert_eq!(unix, [true, true, true, true, false, false, false, false], "{name}");
    }
    assert!(open("socket", 2, 2), "UDP stays");
}

#[test]
fn deny_wins_and_allow_is_honoured() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let rules = Rules {
        allow: set(&["clone3", "mount", "unshare", "keyctl"]),
        deny: set(&["keyctl", "socket"]),
        closed: ClosedAction::Errno,
        ..Rules::default()
    };
    let program = compile(Arch::X86_64, &rules).unwrap();
    let call = |name: &str, args: [u64; 6]| {
        let nr = entry(name).and_then(|entry| entry.x86_64).unwrap();
        emulate::run(&program, Arch::X86_64.audit(), nr, &args).value
    };
    for name in ["clone3", "mount"] {
        assert_eq!(call(name, [0; 6]), libc::SECCOMP_RET_ALLOW, "{name}");
    }
    assert_eq!(call("unshare", [0x1000_0000, 0, 0, 0, 0, 0]), libc::SECCOMP_RET_ALLOW);
    for name in ["keyctl", "socket"] {
        assert_eq!(call(name, [1; 6]), libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, "{name}");
    }
}

#[test]
fn mistakes_are_named() {
    let rules = Rules { allow: ["mont".to_owned()].into(), ..Rules::default() };
    let error = compile(Arch::X86_64, &rules).unwrap_err();
    assert_eq!(error.to_string(), "no system call is named `mont`; the nearest name is `mount`");
    let rules = Rules { deny: ["io_uring".to_owned()].into(), ..Rules::default() };
    assert!(matches!(compile(Arch::Aarch64, &rules), Err(CompileError::UnknownCall { .. })));
    let rules = Rules { notify_also: vec!["opemat"], ..Rules::default() };
    assert!(compile(Arch::Aarch64, &rules).unwrap_err().to_string().contains("`openat`"));
    let rules = Rules { compat: true, ..Rules::default() };
    assert_eq!(compile(Arch::Aarch64, &rules), Err(CompileError::NoCompat(Arch::Aarch64)));
    assert_eq!(compile(Arch::I386, &rules), Err(CompileError::NotNative(Arch::I386)));
}

/// Install time grows with both, and the kernel must find plain calls constant, so that they cost nothing later.
#[test]
fn the_programs_are_short() {
    for (arch, limit) in [(Arch::X86_64, 130), (Arch::Aarch64, 130)] {
        let program = compile(arch, &Rules::default()).unwrap();
        let (mut worst, mut sum) = (0, 0);
        for nr in 0..470 {
            let outcome = emulate::run(&program, arch.audit(), nr, &[0; 6]);
            worst = worst.max(outcome.steps);
            sum += outcome.steps;
            let plain = entry_of(arch, nr).is_some_and(|entry| entry.verdict == Verdict::Allow);
            assert!(!plain || outcome.constant, "nr {nr} is not constant");
        }
        let length = program.instructions().len();
        println!("{arch:?}: {length} instructions, worst path {worst}, mean {:.1}", sum as f64 / 470.0);
        assert!(length < limit, "{arch:?} has {length} instructions");
        assert!(worst <= 22, "{arch:?} has a path of {worst}");
    }
    let rules = Rules { compat: true, ..Rules::default() };
    println!(
        "x86_64 with compat: {} instructions",
        compile(Arch::X86_64, &rules).unwrap().instructions().len()
    );
}

/// Prints the time to compile; no bar, because the machine may be busy.
#[test]
fn compile_time_is_printed() {
    let rules = Rules::default();
    let traced =
        Rules { notify_also: entries().map(|entry| entry.name).step_by(8).collect(), ..Rules::default() };
    for (what, rules) in [("default", rules), ("traced", traced)] {
        let mut times: Vec<_> = (0..200)
            .map(|_| {
                let start = Instant::now();
                let program = compile(Arch::X86_64, std::hint::black_box(&rules)).unwrap();
                let time = start.elapsed();
                assert!(!std::hint::black_box(program).instructions().is_empty());
                time
            })
            .collect();
        let first = times[0];
        times.sort();
        println!("{what}: first compile {first:?}, median {:?}", times[times.len() / 2]);
    }
}
