//! The real egress process, forked as an owner forks it: what it gives up, what it says, and how it ends.
//!
//! Without the usual harness, because a process that forks must have one thread.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use ringfence_egress::{Event, Order, Setup, SocketRole, Upstream, run};
use ringfence_linux::{Fork, Namespaces, control_pair, fork_into, recv_with_fds, send_with_fds, wait_for};
use ringfence_policy::{HostRule, Network, NetworkMode, NetworkReason};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const TESTS: [(&str, fn()); 6] = [
    ("gives_up_all_it_can", gives_up_all_it_can),
    ("ends_with_the_channel_and_reports_what_was_open", ends_with_the_channel_and_reports_what_was_open),
    ("ends_with_its_parent", ends_with_its_parent),
    ("looks_names_up_without_privileges", looks_names_up_without_privileges),
    ("says_why_it_cannot_start", says_why_it_cannot_start),
    ("serves_a_port_of_the_callers_own", serves_a_port_of_the_callers_own),
];

/// What `cargo test` and `cargo nextest` ask of a test program.
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let is_filter = |argument: &&String| !argument.starts_with('-') && *argument != "terse";
    let filters: Vec<&String> = arguments.iter().filter(is_filter).collect();
    let wanted = |name: &str| {
        filters.iter().all(|filter| if has("--exact") { name == *filter } else { name.contains(*filter) })
    };
    for (name, test) in TESTS.into_iter().filter(|(name, _)| wanted(name)) {
        if has("--list") {
            if !has("--ignored") {
                println!("{name}: test");
            }
        } else {
            test();
            println!("test {name} ... ok");
        }
    }
}

fn setup(local: u16) -> Setup {
    Setup {
        network: Network {
            mode: NetworkMode::Allow,
            allow: vec![HostRule::parse("localhost:81").unwrap()],
            deny: Vec::new(),
            private: Vec::new(),
            local: [local].into(),
            no_sni: Default::default(),
            groups: BTreeMap::new(),
            http: Vec::new(),
            secrets: Vec::new(),
        },
        secrets: Vec::new(),
        upstream: Upstream::default(),
        connections: Some(16),
        bandwidth: None,
        learn: false,
        become_id: is_root().then_some(64_123),
        secret_store: "/nonexistent".into(),
        written: Vec::new(),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

struct Child {
    pid: i32,
    channel: OwnedFd,
    heard: RefCell<VecDeque<Event>>,
}

impl Child {
    fn start(setup: &Setup) -> Self {
        let (channel, theirs) = control_pair().unwrap();
        match fork_into(Namespaces::default(), None).unwrap() {
            Fork::Child => {
                drop(channel);
                run(setup, theirs)
            }
            Fork::Parent { pid, .. } => Self { pid, channel, heard: RefCell::default() },
        }
    }

    /// `None` at the end of the channel.
    fn hear(&self) -> Option<Event> {
        if let Some(event) = self.heard.borrow_mut().pop_front() {
            return Some(event);
        }
        let mut polled = [PollFd::from_borrowed_fd(self.channel.as_fd(), PollFlags::IN)];
        let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
        assert_eq!(poll(&mut polled, Some(&patience)).unwrap(), 1, "egress says nothing");
        let message = recv_with_fds(self.channel.as_fd()).unwrap();
        if message.bytes.is_empty() {
            return None;
        }
        let event: Event = serde_json::from_slice(&message.bytes).unwrap();
        self.heard.borrow_mut().extend(event.each());
        self.heard.borrow_mut().pop_front()
    }

    fn give(&self, role: SocketRole, socket: OwnedFd) {
        let packet = serde_json::to_vec(&Order::Sockets { roles: vec![role] }).unwrap();
        send_with_fds(self.channel.as_fd(), &packet, &[socket.as_fd()]).unwrap();
    }

    fn status(&self, key: &str) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.unwrap().trim().to_owned()
    }

    fn end(self) {
        drop(self.channel);
        wait_for(self.pid).unwrap();
    }
}

fn gives_up_all_it_can() {
    let kept = fs::File::open("/proc/self/status").unwrap();
    let child = Child::start(&setup(1));
    assert_eq!(child.hear(), Some(Event::Ready { authority: None }));
    assert_eq!(child.status("NoNewPrivs"), "1");
    assert_eq!(child.status("Seccomp"), "2", "only what it needs to serve");
    for capabilities in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(child.status(capabilities), "0000000000000000", "{capabilities}");
    }
    let limits = fs::read_to_string(format!("/proc/{}/limits", child.pid)).unwrap();
    assert!(limits.lines().any(|line| line.starts_with("Max core file size        0 ")), "{limits}");
    // 256 MiB, and half a MiB for each connection that there may be: a flood from inside does not take the machine's.
    assert!(limits.lines().any(|line| line.starts_with("Max data size             276824064 ")), "{limits}");
    if is_root() {
        assert_eq!(child.status("Uid"), "64123\t64123\t64123\t64123");
        assert_eq!(child.status("Gid"), "64123\t64123\t64123\t64123");
        assert_eq!(child.status("Groups"), "");
        let mut open: Vec<String> = fs::read_dir(format!("/proc/{}/fd", child.pid))
            .unwrap()
            .map(|entry| fs::read_link(entry.unwrap().path()).unwrap().to_string_lossy().into_owned())
            .map(|target| target.split(':').next().unwrap_or_default().to_owned())
            .collect();
        open.sort();
        open.dedup();
        assert_eq!(open, ["/dev/null", "anon_inode", "socket"], "nothing of the owner's");
        let environment = fs::read(format!("/proc/{}/environ", child.pid)).unwrap();
        assert!(environment.iter().all(|&byte| byte == 0));
    } else {
        // Not dumpable: its files in /proc are root's.
        assert!(fs::read_dir(format!("/proc/{}/fd", child.pid)).is_err());
    }
    let session = fs::read_to_string(format!("/proc/{}/stat", child.pid)).unwrap();
    let session = session.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().to_owned();
    assert_eq!(session, child.pid.to_string(), "a session of its own");
    child.end();
    drop(kept);
}

/// A connection through egress to a service of the caller's, and where egress listens for it.
fn open_connection(child: &Child, service: &TcpListener) -> (TcpStream, TcpStream, SocketAddr) {
    let inside = TcpListener::bind("127.0.0.1:0").unwrap();
    let at: SocketAddr = inside.local_addr().unwrap();
    child.give(SocketRole::Local(service.local_addr().unwrap().port()), inside.into());
    let client = TcpStream::connect(at).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (server, _) = service.accept().unwrap();
    (client, server, at)
}

fn serves_a_port_of_the_callers_own() {
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let child = Child::start(&setup(service.local_addr().unwrap().port()));
    child.hear();
    let (mut client, mut server, at) = open_connection(&child, &service);
    client.write_all(b"there").unwrap();
    let mut got = [0; 5];
    server.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"there");
    // Egress dies: nothing is connected any more, and nobody listens.
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(child.pid).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    assert!(matches!(client.read(&mut got), Ok(0) | Err(_)));
    // Its descriptors close one after the other; once it is gone, all are.
    child.end();
    assert!(TcpStream::connect(at).is_err(), "somebody listens");
}

fn ends_with_the_channel_and_reports_what_was_open() {
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let child = Child::start(&setup(service.local_addr().unwrap().port()));
    child.hear();
    let (mut client, mut server, _) = open_connection(&child, &service);
    client.write_all(b"there").unwrap();
    let mut got = [0; 5];
    server.read_exact(&mut got).unwrap();
    rustix::net::shutdown(&child.channel, rustix::net::Shutdown::Write).unwrap();
    let mut closed = None;
    while let Some(event) = child.hear() {
        if let Event::Closed { sent, received, .. } = event {
            closed = Some((sent, received));
        }
    }
    assert_eq!(closed, Some((5, 0)));
    assert!(matches!(client.read(&mut got), Ok(0) | Err(_)));
    child.end();
}

fn ends_with_its_parent() {
    let (ours, theirs) = control_pair().unwrap();
    let (mut told, tell) = std::io::pipe().unwrap();
    match fork_into(Namespaces::default(), None).unwrap() {
        Fork::Child => {
            // An owner that is killed, while somebody else still holds its end of the channel.
            let channel = ours.try_clone().unwrap();
            let child = Child { pid: 0, channel, heard: RefCell::default() };
            match fork_into(Namespaces::default(), None).unwrap() {
                Fork::Child => run(&setup(1), theirs),
                Fork::Parent { pid, .. } => {
                    assert_eq!(child.hear(), Some(Event::Ready { authority: None }));
                    (&tell).write_all(&pid.to_be_bytes()).unwrap();
                    std::process::abort();
                }
            }
        }
        Fork::Parent { pid, .. } => {
            drop(theirs);
            let mut grandchild = [0; 4];
            told.read_exact(&mut grandchild).unwrap();
            wait_for(pid).unwrap();
            let path = format!("/proc/{}/stat", i32::from_be_bytes(grandchild));
            let alive = || fs::read_to_string(&path).is_ok_and(|stat| !stat.contains(") Z "));
            for _ in 0..200 {
                if !alive() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            panic!("egress outlived its parent");
        }
    }
}

/// The one name that every machine knows without asking another; its address is then refused.
fn looks_names_up_without_privileges() {
    let child = Child::start(&setup(1));
    child.hear();
    let inside = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = inside.local_addr().unwrap();
    child.give(SocketRole::SocksProxy, inside.into());
    let mut client = TcpStream::connect(at).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    client.write_all(b"\x05\x01\0").unwrap();
    client.read_exact(&mut [0; 2]).unwrap();
    client.write_all(b"\x05\x01\0\x03\x09localhost\0\x51").unwrap();
    let mut answer = [0; 2];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [5, 2], "not allowed");
    loop {
        match child.hear().expect("egress lives on") {
            Event::Denied { host, port, reason, .. } => {
                assert_eq!((host.as_str(), port), ("localhost", Some(81)));
                assert!(matches!(reason, NetworkReason::Address { .. }), "{reason:?}");
                break;
            }
            Event::Opened { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    child.end();
}

fn says_why_it_cannot_start() {
    let mut setup = setup(1);
    setup.upstream.all = Some("https://user:hidden@proxy.example".into());
    let child = Child::start(&setup);
    match child.hear() {
        Some(Event::Failed { what, why, fix }) => {
            let text = format!("{what}: {why}; {fix}");
            assert!(text.contains("https://proxy.example") && !text.contains("hidden"), "{text}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(child.hear(), None);
    child.end();
}
