//! A stage for tests: the real server, its owner's end of the channel, and loopback addresses in place of a sandbox's.
//!
//! Names get addresses of 127.0.0.0/8 that no other test has, and lead to servers that the test itself runs.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use ringfence_linux::{control_pair, recv_with_fds, send_with_fds};
use ringfence_policy::{HostRule, Network, NetworkMode, NetworkRules};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use tokio::io::Interest;
use tokio::net::{TcpStream, UdpSocket, UnixDatagram};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::channel::Channel;
use crate::event::{Event, Order, SocketRole};
use crate::gate::{Gate, Shared};
use crate::limits::{Bandwidth, Budget, Connections};
use crate::listeners::Caps;
use crate::lock::Lock;
use crate::names::Names;
use crate::outbox::Outbox;
use crate::resolve::{Files, Resolver};
use crate::server::Server;
use crate::setup::Upstream;
use crate::terminate::Terminator;
use crate::upstream::Proxies;

/// What a stage is set up with; change what a test is about.
pub(crate) struct Scene {
    pub(crate) network: Network,
    /// Where names lead, instead of being looked up.
    pub(crate) stand_ins: BTreeMap<String, SocketAddr>,
    pub(crate) upstream: Upstream,
    pub(crate) files: Files,
    pub(crate) terminator: Option<Terminator>,
    pub(crate) connections: u32,
    pub(crate) bandwidth: Option<u64>,
    pub(crate) heads: usize,
    pub(crate) learn: bool,
    pub(crate) names: u32,
    pub(crate) caps: Caps,
    /// Spare sockets given at the start, of each family; more are given when they are asked for.
    pub(crate) spares: usize,
}

impl Scene {
    /// Mode `allow` with these rules.
    pub(crate) fn allow(rules: &[&str]) -> Self {
        Self {
            network: network(NetworkMode::Allow, rules),
            stand_ins: BTreeMap::new(),
            upstream: Upstream::default(),
            files: Files { servers: "/nonexistent".into(), hosts: "/nonexistent".into() },
            terminator: None,
            connections: 4096,
            bandwidth: None,
            heads: 1 << 20,
            learn: false,
            names: 200,
            caps: Caps { listeners: 500, accepted: 4096 },
            spares: 4,
        }
    }

    /// The same, with a name, or `NAME:PORT`, that leads to a server of the test's.
    pub(crate) fn leading(mut self, name: &str, to: SocketAddr) -> Self {
        self.stand_ins.insert(name.to_owned(), to);
        self
    }
}

pub(crate) fn network(mode: NetworkMode, allow: &[&str]) -> Network {
    Network {
        mode,
        allow: rules(allow),
        deny: Vec::new(),
        private: Vec::new(),
        local: Default::default(),
        no_sni: Default::default(),
        groups: Default::default(),
        http: Vec::new(),
        secrets: Vec::new(),
    }
}

pub(crate) fn rules(rules: &[&str]) -> Vec<HostRule> {
    rules.iter().map(|rule| HostRule::parse(rule).unwrap()).collect()
}

/// The server, running, as its owner and the program inside see it.
pub(crate) struct Stage {
    owner: Arc<UnixDatagram>,
    events: Arc<Lock<Vec<Event>>>,
    arrived: Arc<Notify>,
    pub(crate) gate: Gate,
    pub(crate) dns: SocketAddr,
    pub(crate) dns_tcp: SocketAddr,
    pub(crate) http_proxy: SocketAddr,
    pub(crate) socks_proxy: SocketAddr,
    pub(crate) server: JoinHandle<std::io::Result<()>>,
}

impl Stage {
    pub(crate) async fn start(scene: Scene) -> Self {
        let (ours, theirs) = control_pair().unwrap();
        let channel = Arc::new(Channel::new(theirs).unwrap());
        let outbox = Outbox::new(channel.clone());
        let gate = Gate::new(Shared {
            rules: NetworkRules::new(&scene.network),
            names: Names::with(scene.names, place()),
            outbox: outbox.clone(),
            connections: Connections::new(scene.connections),
            bandwidth: Bandwidth::new(scene.bandwidth),
            heads: Budget::new(scene.heads),
            resolver: Resolver::new(scene.files.clone()),
            proxies: Proxies::new(&scene.upstream).unwrap(),
            terminator: scene.terminator,
            next_id: Default::default(),
            open: Default::default(),
            stand_ins: scene.stand_ins,
        });
        let server = Server::new(gate.clone(), scene.learn, scene.caps);
        let server = tokio::spawn(async move { server.serve(&channel).await });

        let ours = std::os::unix::net::UnixDatagram::from(ours);
        ours.set_nonblocking(true).unwrap();
        let owner = Arc::new(UnixDatagram::from_std(ours).unwrap());
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let listeners: [_; 3] = std::array::from_fn(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let dns = udp.local_addr().unwrap();
        let [dns_tcp, http_proxy, socks_proxy] = listeners.each_ref().map(|it| it.local_addr().unwrap());
        let [first, second, third] = listeners.map(OwnedFd::from);
        let stage = Self {
            owner,
            events: Arc::default(),
            arrived: Arc::default(),
            gate,
            dns,
            dns_tcp,
            http_proxy,
            socks_proxy,
            server,
        };
        stage.give(vec![
            (SocketRole::DnsUdp, udp.into()),
            (SocketRole::DnsTcp, first),
            (SocketRole::HttpProxy, second),
            (SocketRole::SocksProxy, third),
        ]);
        stage.give(spares(scene.spares, scene.spares));
        tokio::spawn(listen(stage.owner.clone(), stage.events.clone(), stage.arrived.clone()));
        stage
    }

    pub(crate) fn give(&self, sockets: Vec<(SocketRole, OwnedFd)>) {
        give(&self.owner, sockets);
    }

    pub(crate) async fn order(&self, order: &Order) {
        let packet = serde_json::to_vec(order).unwrap();
        self.owner.send(&packet).await.unwrap();
    }

    /// The first event so far, or to come, of which `pick` makes something.
    pub(crate) async fn event<T>(&self, mut pick: impl FnMut(&Event) -> Option<T>) -> T {
        timeout(Duration::from_secs(10), async {
            loop {
                let arrived = self.arrived.notified();
                tokio::pin!(arrived);
                arrived.as_mut().enable();
                if let Some(found) = self.events.lock().iter().find_map(&mut pick) {
                    return found;
                }
                arrived.await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("no such event among {:#?}", self.events.lock()))
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.lock().clone()
    }

    /// Wait until the owner has so many events of which `pick` makes something.
    pub(crate) async fn all<T>(&self, count: usize, pick: impl Fn(&Event) -> Option<T>) -> Vec<T> {
        let mut found = Vec::new();
        for _ in 0..500 {
            found = self.events.lock().iter().filter_map(&pick).collect();
            if found.len() >= count {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        found
    }

    /// The owner closes its end.
    pub(crate) fn hang_up(&self) {
        let _ = rustix::net::shutdown(self.owner.as_fd(), rustix::net::Shutdown::Both);
    }

    pub(crate) async fn ask(&self, name: &str, kind: RecordType) -> Message {
        let mut message = Message::query();
        message.metadata.recursion_desired = true;
        message.add_query(Query::query(Name::from_ascii(format!("{name}.")).unwrap(), kind));
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.send_to(&message.to_vec().unwrap(), self.dns).await.unwrap();
        let mut buffer = [0; 1500];
        let length =
            timeout(Duration::from_secs(10), socket.recv(&mut buffer)).await.expect("no answer").unwrap();
        let answer = Message::from_vec(&buffer[..length]).unwrap();
        assert_eq!(answer.metadata.id, message.metadata.id);
        answer
    }

    /// The IPv4 address that stands for a name inside.
    pub(crate) async fn address_of(&self, name: &str) -> Result<IpAddr, ResponseCode> {
        let answer = self.ask(name, RecordType::A).await;
        match answer.answers.first().map(|record| &record.data) {
            Some(RData::A(address)) => Ok(IpAddr::from(address.0)),
            _ => Err(answer.metadata.response_code),
        }
    }

    /// As a program inside does it: ask for the name, connect to the address.
    pub(crate) async fn connect(&self, name: &str, port: u16) -> TcpStream {
        let address = self.address_of(name).await.unwrap();
        TcpStream::connect((address, port)).await.unwrap()
    }
}

/// Its listeners go with it.
impl Drop for Stage {
    fn drop(&mut self) {
        self.server.abort();
        self.hang_up();
    }
}

/// Addresses that no other stage of this machine has.
fn place() -> Box<dyn Fn(u32) -> Option<(Ipv4Addr, Ipv6Addr)> + Send + Sync> {
    static STAGES: AtomicU32 = AtomicU32::new(0);
    let stage = std::process::id() + STAGES.fetch_add(1, Ordering::Relaxed) * 16_411;
    let [.., high, low] = stage.to_be_bytes();
    Box::new(move |index| {
        let last = u8::try_from(index + 1).ok()?;
        Some((Ipv4Addr::new(127, high.max(1), low, last), Ipv6Addr::LOCALHOST))
    })
}

pub(crate) fn spares(v4: usize, v6: usize) -> Vec<(SocketRole, OwnedFd)> {
    let make = |family| socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    let four = (0..v4).map(|_| (SocketRole::SpareV4, make(AddressFamily::INET)));
    let six = (0..v6).map(|_| (SocketRole::SpareV6, make(AddressFamily::INET6)));
    four.chain(six).collect()
}

fn give(owner: &UnixDatagram, sockets: Vec<(SocketRole, OwnedFd)>) {
    for part in sockets.chunks(32) {
        let roles = part.iter().map(|(role, _)| *role).collect();
        let packet = serde_json::to_vec(&Order::Sockets { roles }).unwrap();
        let fds: Vec<_> = part.iter().map(|(_, socket)| socket.as_fd()).collect();
        send_with_fds(owner.as_fd(), &packet, &fds).unwrap();
    }
}

/// What the owner does: keep events, give sockets.
async fn listen(owner: Arc<UnixDatagram>, events: Arc<Lock<Vec<Event>>>, arrived: Arc<Notify>) {
    loop {
        let message = owner.async_io(Interest::READABLE, || recv_with_fds(owner.as_fd())).await;
        let Ok(message) = message else { return };
        if message.bytes.is_empty() {
            return;
        }
        assert!(message.bytes.len() < 8192);
        let event: Event = serde_json::from_slice(&message.bytes).unwrap();
        if let Event::NeedSockets { v4, v6 } = event {
            give(&owner, spares(usize::from(v4), usize::from(v6)));
        }
        events.lock().extend(event.each());
        arrived.notify_waiters();
    }
}
