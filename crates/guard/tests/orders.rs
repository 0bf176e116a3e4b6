//! guard and its shims given any orders, in any sequence, with any descriptors: a session's guard stays, obeys the next one,
//! and ends with its channel. It stops and kills whoever it sees, so it is in a pid namespace of its own here.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use ringfence_guard::{FromGuard, OomScore, Program, SessionGuard, ToGuard, ToShim, serve_session};
use ringfence_linux::{control_pair, recv_with_fds, send_with_fds};
use rustix::fs::{MemfdFlags, memfd_create};

const GUARD: &str = "RINGFENCE_TEST_GUARD";
/// Far longer than an answer takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Not a test of its own: guard of the others.
#[test]
fn a_guard() {
    if std::env::var_os(GUARD).is_none() {
        return;
    }
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).unwrap();
    let session =
        SessionGuard { score: OomScore::open().unwrap(), private: &[("/tmp", 1)], processes: Some(64) };
    serve_session(control, &session)
}

struct Guard {
    child: Child,
    control: OwnedFd,
    /// Our ends of what shims and file workers were given.
    channels: Vec<OwnedFd>,
}

/// What may come with an order.
#[derive(Clone, Debug)]
enum Thing {
    Pipe,
    File,
    /// A channel, with what is said on it, and so many descriptors beside that.
    Channel(Vec<u8>, usize),
}

impl Guard {
    fn start() -> Self {
        let (control, theirs) = control_pair().unwrap();
        rustix::io::ioctl_fionbio(&control, true).unwrap();
        let flags = ["--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
        let child = Command::new("unshare")
            .args(flags)
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "a_guard", "--test-threads=1", "--nocapture"])
            .env(GUARD, "1")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, control, channels: Vec::new() }
    }

    /// Take in what it says, until there is nothing; whether `wanted` was among it.
    fn hears(&self, wanted: Option<&FromGuard>) -> bool {
        let mut found = false;
        while let Ok(message) = recv_with_fds(self.control.as_fd()) {
            assert!(!message.bytes.is_empty(), "guard has ended");
            let said = FromGuard::decode(&message.bytes).expect("guard says what can be understood");
            assert!(!matches!(said, FromGuard::Failed { .. }), "{said:?}");
            found |= wanted == Some(&said);
        }
        found
    }

    fn order(&mut self, bytes: &[u8], things: &[Thing]) {
        let fds: Vec<OwnedFd> = things.iter().map(|thing| self.make(thing)).collect();
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        let until = Instant::now() + PATIENCE;
        loop {
            match send_with_fds(self.control.as_fd(), bytes, &fds) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    assert!(Instant::now() < until, "guard takes no order");
                    self.hears(None);
                    std::thread::sleep(Duration::from_millis(1));
                }
                sent => return sent.expect("guard is there"),
            }
        }
    }

    fn make(&mut self, thing: &Thing) -> OwnedFd {
        match thing {
            Thing::Pipe => rustix::pipe::pipe().unwrap().0,
            Thing::File => memfd_create("test", MemfdFlags::CLOEXEC).unwrap(),
            Thing::Channel(said, count) => {
                let (ours, theirs) = control_pair().unwrap();
                let files: Vec<OwnedFd> = (0..*count).map(|_| self.make(&Thing::File)).collect();
                let files: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
                if !said.is_empty() {
                    send_with_fds(ours.as_fd(), said, &files).unwrap();
                }
                self.channels.push(ours);
                theirs
            }
        }
    }

    /// It is as it was, and ends when nobody has its other end any more.
    fn must_be_in_order(mut self) {
        let id = 0x7eed_beef;
        self.order(&ToGuard::ContinueAll.encode(), &[]);
        self.order(&ToGuard::Plug { id }.encode(), &[]);
        let until = Instant::now() + PATIENCE;
        while !self.hears(Some(&FromGuard::Plug { id })) {
            assert!(Instant::now() < until, "guard does not answer any more");
            std::thread::sleep(Duration::from_millis(1));
        }
        drop((self.control, self.channels));
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "guard stays without an owner");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn program(argv: &[&str]) -> Vec<u8> {
    let text = |text: &&str| std::ffi::CString::new(*text).unwrap();
    let program = Program {
        argv: argv.iter().map(text).collect(),
        environment: Vec::new(),
        path: "/usr/bin:/bin".into(),
        directory: "/".into(),
        terminal: None,
    };
    ToShim::Program(program.encode()).encode()
}

fn said() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(Vec::new()),
        Just(program(&["true"])),
        Just(program(&["sh", "-c", "sleep 1000 & exit 1"])),
        Just(program(&["sleep", "1000"])),
        Just(program(&[])),
        Just(ToShim::Elsewhere.encode()),
        // Nothing that a file worker could take for a request: it has this machine's files before it.
        (prop_oneof![Just(b'p'), 0x80..=0xffu8], vec(any::<u8>(), 0..60)).prop_map(|(first, rest)| [
            vec![first],
            rest
        ]
        .concat()),
    ]
}

fn thing() -> impl Strategy<Value = Thing> {
    prop_oneof![
        1 => Just(Thing::Pipe),
        1 => Just(Thing::File),
        4 => (said(), 0..5usize).prop_map(|(said, count)| Thing::Channel(said, count)),
    ]
}

fn order() -> impl Strategy<Value = Vec<u8>> {
    let id = || prop_oneof![8 => 0..5u32, 1 => any::<u32>()];
    let order = prop_oneof![
        8 => id().prop_map(|id| ToGuard::Shim { id }),
        4 => id().prop_map(|id| ToGuard::KillTree { id }),
        2 => (-3..12i32, -1..70i32).prop_map(|(group, signal)| ToGuard::SignalGroup { group, signal }),
        1 => any::<i32>().prop_map(ToGuard::Signal),
        1 => Just(ToGuard::StopAll),
        1 => Just(ToGuard::ContinueAll),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(v4, v6)| ToGuard::Sockets { v4, v6 }),
        2 => Just(ToGuard::Files),
        1 => id().prop_map(|id| ToGuard::Plug { id }),
        1 => id().prop_map(|id| ToGuard::Space { id }),
    ];
    prop_oneof![
        12 => order.prop_map(|order| order.encode()),
        1 => vec(any::<u8>(), 1..40),
        1 => (any::<u8>(), 4_000..9_000usize).prop_map(|(byte, length)| vec![byte; length]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 24, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn no_orders_bring_guard_out_of_order(orders in vec((order(), vec(thing(), 0..4)), 1..40)) {
        let mut guard = Guard::start();
        for (bytes, things) in &orders {
            guard.order(bytes, things);
            guard.hears(None);
        }
        guard.must_be_in_order();
    }
}
