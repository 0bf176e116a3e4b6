//! The owner's side of egress: starts it, hands it the sandbox's sockets, hears what it did, ends it.
//!
//! Egress is forked before guard and fetches its secrets itself: neither this process nor any inside ever holds one.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ringfence_egress::{Event, Order, Setup, SocketRole, Upstream};
use ringfence_linux::{
    Fork, MAX_FDS, Namespaces, control_pair, fork_into, recv_with_fds, send_with_fds, wait_for,
};
use ringfence_policy::{Blocked, Host, HostName, NetworkMode, NetworkReason, NetworkRules};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Signal, pidfd_send_signal};

use super::faults::Steps;
use crate::denial::{Denial, DenialKind, Denials};
use crate::network::PlannedEgress;
use crate::network_record::{ConnectionRecord, NetworkRecord, Passed, Traffic};
use crate::refusal::Refusal;

/// A keyring or a command may have to be asked for a secret.
const READY: Duration = Duration::from_secs(60);
/// What egress has to read an order, and at the end to report.
const PATIENCE: Duration = Duration::from_secs(2);
/// What egress has to say what it knows, while its owner serves nobody else.
const SETTLE: Duration = Duration::from_millis(50);
/// So much is kept for whoever tells the processes of a session apart, between two looks.
const FRESH: usize = 4_096;
/// So many connections are remembered by who made them.
const CALLERS: usize = 16 << 10;

/// So many kinds of connections are told apart, and so many refused names are remembered: a command makes up any number of
/// names for itself and of hosts, and this process is outside its limits.
const RECORDS: usize = 4_096;
const TRIED: usize = 16 << 10;

/// What is denied when egress has ended.
const EVERYTHING: &str = "the network";

pub(super) struct Egress {
    pid: i32,
    pidfd: OwnedFd,
    channel: OwnedFd,
    rules: NetworkRules,
    open: bool,
    /// What the next sockets from inside are for.
    expected: VecDeque<SocketRole>,
    /// What has an address inside.
    names: HashMap<IpAddr, HostName>,
    callers: Callers,
    connections: HashMap<u64, Open>,
    totals: BTreeMap<Connection, ConnectionRecord>,
    tried: BTreeSet<(String, Option<u16>)>,
    orders: u64,
    /// Something was connected since egress last said all that it knows.
    stirred: bool,
    /// In a session: what is new since it was last asked for.
    fresh: Option<Vec<Traffic>>,
    /// Answered orders to listen, by number; with the reason if nothing may be there.
    listening: HashMap<u64, Option<NetworkReason>>,
    more: Option<(u8, u8)>,
    /// The namespace's own counts, held open.
    counters: Vec<File>,
    /// Datagram sockets that had no way to go, each told of by itself.
    unreachable: u64,
    gone: bool,
    /// That was told of.
    told_gone: bool,
}

/// What is counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Connection {
    process: Option<String>,
    host: String,
    port: u16,
    via: u8,
}

/// A connection that has not ended, and what of it is counted.
struct Open {
    connection: Connection,
    shim: Option<i32>,
    sent: u64,
    received: u64,
}

/// Who made a connection: the program's name, and in a session the shim above it.
#[derive(Clone, Debug, Default)]
pub(super) struct Caller {
    pub(super) process: Option<String>,
    pub(super) shim: Option<i32>,
}

/// Who made a connection, by its address inside.
#[derive(Default)]
struct Callers {
    by_address: HashMap<SocketAddr, Caller>,
    order: VecDeque<SocketAddr>,
}

impl Callers {
    fn remember(&mut self, address: SocketAddr, caller: Caller) {
        if self.by_address.insert(address, caller).is_none() {
            self.order.push_back(address);
        }
        if self.order.len() > CALLERS
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_address.remove(&oldest);
        }
    }
}

impl Egress {
    /// Fork it. Where TLS of some host ends in it, also wait for the authority that is to be trusted.
    pub(super) fn start(planned: &PlannedEgress, steps: &Steps) -> Result<(Self, Option<String>), Refusal> {
        let (channel, theirs) = steps.run("make a channel for egress", "", control_pair)?;
        steps.run("set up the channel for egress", "", || {
            Ok(set_socket_timeout(&channel, Timeout::Send, Some(PATIENCE))?)
        })?;
        let forked = steps.run("start egress", "", || fork_into(Namespaces::default(), None))?;
        let Fork::Parent { pid, pidfd } = forked else {
            drop(channel);
            let setup = Setup { upstream: upstream(), ..planned.setup.clone() };
            ringfence_egress::run(&setup, theirs);
        };
        let mut egress = Self {
            pid,
            pidfd,
            channel,
            rules: NetworkRules::new(&planned.setup.network),
            open: planned.setup.network.mode == NetworkMode::Open,
            expected: planned.roles.iter().copied().collect(),
            names: HashMap::new(),
            callers: Callers::default(),
            connections: HashMap::new(),
            totals: BTreeMap::new(),
            tried: BTreeSet::new(),
            orders: 0,
            stirred: false,
            fresh: None,
            listening: HashMap::new(),
            more: None,
            counters: Vec::new(),
            unreachable: 0,
            gone: false,
            told_gone: false,
        };
        drop(theirs);
        let authority = if planned.terminates { egress.wait_for_authority()? } else { None };
        Ok((egress, authority))
    }

    fn wait_for_authority(&mut self) -> Result<Option<String>, Refusal> {
        match self.next_event(READY) {
            Some(Event::Ready { authority }) => Ok(authority),
            Some(Event::Failed { what, why, fix }) => Err(cannot_start(what, why, fix)),
            _ => Err(cannot_start(
                "start egress".into(),
                "it ended or did not get ready in time".into(),
                "see whether a secret's command or keyring waits for an answer".into(),
            )),
        }
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// May any address be connected to, if egress listens there?
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Hold on to what the kernel counts in the network namespace of this process.
    pub(super) fn watch_counters(&mut self, process: i32) {
        let files = ["snmp", "snmp6"].map(|name| File::open(format!("/proc/{process}/net/{name}")));
        self.counters = files.into_iter().flatten().collect();
    }

    /// Hand sockets from inside on, each for what it was made for.
    pub(super) fn give(&mut self, sockets: Vec<OwnedFd>) {
        for some in sockets.chunks(MAX_FDS) {
            let roles: Vec<_> = some.iter().map_while(|_| self.expected.pop_front()).collect();
            if roles.is_empty() {
                // Nobody has asked for them.
                return;
            }
            let fds: Vec<BorrowedFd<'_>> = some.iter().take(roles.len()).map(AsFd::as_fd).collect();
            self.order(&Order::Sockets { roles }, &fds);
        }
    }

    fn order(&mut self, order: &Order, fds: &[BorrowedFd<'_>]) {
        let packet = serde_json::to_vec(order).unwrap_or_default();
        if send_with_fds(self.channel.as_fd(), &packet, fds).is_err() {
            self.gone = true;
        }
    }

    /// More sockets that egress wants from inside.
    pub(super) fn take_wish(&mut self) -> Option<(u8, u8)> {
        self.more.take()
    }

    /// Ask for a listener at an address that is about to be connected to; the number to ask for the answer by.
    pub(super) fn listen(&mut self, address: SocketAddr) -> u64 {
        self.orders += 1;
        let id = self.orders;
        self.order(&Order::Listen { id, address }, &[]);
        id
    }

    /// The answer to an order to listen, once it is there; with the reason if nothing may be there.
    pub(super) fn answer(&mut self, order: u64) -> Option<Option<NetworkReason>> {
        if self.gone { Some(Some(NetworkReason::EgressGone)) } else { self.listening.remove(&order) }
    }

    pub(super) fn remember(&mut self, from: SocketAddr, caller: Caller) {
        self.stirred = true;
        self.callers.remember(from, caller);
    }

    /// Keep what is new from here on.
    pub(super) fn tell_apart(&mut self) {
        self.fresh = Some(Vec::new());
    }

    pub(super) fn take_fresh(&mut self) -> Vec<Traffic> {
        self.fresh.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn keep_fresh(&mut self, traffic: Traffic) {
        if let Some(fresh) = self.fresh.as_mut().filter(|fresh| fresh.len() < FRESH) {
            fresh.push(traffic);
        }
    }

    /// Have egress tell all that it knows, and take that in. It is waited for only where there may be something, and never
    /// long.
    pub(super) fn settle(&mut self, denials: &mut Denials) -> Result<(), Refusal> {
        if self.gone || !self.stirred && self.connections.is_empty() {
            return self.hear(denials);
        }
        self.orders += 1;
        let id = self.orders;
        self.order(&Order::Settle { id }, &[]);
        let deadline = Instant::now() + SETTLE;
        while let Some(event) = self.next_event(deadline.saturating_duration_since(Instant::now())) {
            let is_last = event == Event::Settled { id };
            self.take_in(event, denials)?;
            if is_last {
                self.stirred = false;
                break;
            }
        }
        self.hear(denials)
    }

    /// Whom a connection to this address is meant for.
    fn meant(&self, to: SocketAddr) -> Host {
        let ip = to.ip().to_canonical();
        self.names.get(&ip).map_or(Host::Address(ip), |name| Host::Name(name.clone()))
    }

    /// A connection that may not be, by what egress said of it.
    pub(super) fn refused_for(
        &mut self,
        to: SocketAddr,
        process: Option<String>,
        reason: NetworkReason,
        denials: &mut Denials,
    ) {
        let caller = Caller { process, shim: None };
        self.deny(self.meant(to).to_string(), Some(to.port()), caller, reason, denials);
    }

    /// A datagram socket that was to be connected to where no way leads.
    pub(super) fn refused_datagram(
        &mut self,
        to: SocketAddr,
        process: Option<String>,
        denials: &mut Denials,
    ) {
        self.unreachable += 1;
        self.refused_for(to, process, NetworkReason::Udp, denials);
    }

    /// May this connection be? If not, it is recorded, and there is nobody to connect to.
    pub(super) fn admits(
        &mut self,
        to: SocketAddr,
        process: impl FnOnce() -> Option<String>,
        denials: &mut Denials,
    ) -> bool {
        let host = self.meant(to);
        match self.rules.decide(&host, to.port()) {
            Ok(_) if self.gone => self.refused_for(to, process(), NetworkReason::EgressGone, denials),
            Ok(_) => return true,
            Err(reason) => self.refused_for(to, process(), reason, denials),
        }
        false
    }

    fn deny(
        &mut self,
        host: String,
        port: Option<u16>,
        Caller { process, shim }: Caller,
        reason: NetworkReason,
        denials: &mut Denials,
    ) {
        // What a rule would help with.
        if matches!(reason, NetworkReason::Off | NetworkReason::NotGranted | NetworkReason::Port { .. }) {
            self.remember_tried(host.clone(), port);
            let what = Passed::Tried(host.clone(), port);
            self.keep_fresh(Traffic { shim: shim.or_else(|| denials.caller_shim()), what });
        }
        let blocked = Blocked::Network { host, port, process, reason };
        denials.add(Denial::new(DenialKind::Network, &blocked));
    }

    fn remember_tried(&mut self, host: String, port: Option<u16>) {
        if self.tried.len() < TRIED {
            self.tried.insert((host, port));
        }
    }

    /// Take in all that egress has said by now.
    pub(super) fn hear(&mut self, denials: &mut Denials) -> Result<(), Refusal> {
        while !self.gone {
            match self.next_event(Duration::ZERO) {
                Some(event) => self.take_in(event, denials)?,
                None => break,
            }
        }
        if self.gone && !std::mem::replace(&mut self.told_gone, true) {
            // Nothing has an address any more: what comes next may be a name that is not found, and no connection.
            self.deny(EVERYTHING.into(), None, Caller::default(), NetworkReason::EgressGone, denials);
        }
        Ok(())
    }

    /// The next event, or `None` after `patience` or if egress is gone.
    fn next_event(&mut self, patience: Duration) -> Option<Event> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let mut polled = [PollFd::from_borrowed_fd(self.channel.as_fd(), PollFlags::IN)];
            match poll(&mut polled, Some(&left)) {
                Ok(0) => return None,
                Err(rustix::io::Errno::INTR) => continue,
                _ => {}
            }
            let message = recv_with_fds(self.channel.as_fd()).unwrap_or_default();
            if message.bytes.is_empty() {
                self.gone = true;
                return None;
            }
            // One that can't be read is from a broken egress; what it grants ends with it, here nothing is lost.
            if let Ok(event) = serde_json::from_slice(&message.bytes) {
                return Some(event);
            }
        }
    }

    fn take_in(&mut self, event: Event, denials: &mut Denials) -> Result<(), Refusal> {
        match event {
            Event::Ready { .. } => {}
            Event::Several { events } => {
                return events.into_iter().try_for_each(|event| self.take_in(event, denials));
            }
            Event::Failed { what, why, fix } => return Err(cannot_start(what, why, fix)),
            Event::Named { name, v4, v6 } => {
                if let Ok(name) = HostName::parse(&name) {
                    // Where rules are learned, names without a rule have addresses too.
                    let decided = self.rules.decide(&Host::Name(name.clone()), 443);
                    if matches!(decided, Err(NetworkReason::Off | NetworkReason::NotGranted)) {
                        self.remember_tried(name.to_string(), None);
                    }
                    self.names.insert(v4.into(), name.clone());
                    self.names.insert(v6.into(), name);
                }
            }
            Event::NeedSockets { v4, v6 } => {
                self.expected.extend(std::iter::repeat_n(SocketRole::SpareV4, v4.into()));
                self.expected.extend(std::iter::repeat_n(SocketRole::SpareV6, v6.into()));
                let (more4, more6) = self.more.unwrap_or_default();
                self.more = Some((more4.saturating_add(v4), more6.saturating_add(v6)));
            }
            Event::Listening { id, refused } => {
                self.listening.insert(id, refused);
            }
            Event::Denied { from, host, port, reason } => {
                let caller = from.and_then(|from| self.callers.by_address.get(&from).cloned());
                self.deny(host, port, caller.unwrap_or_default(), reason, denials);
            }
            Event::Opened { id, from, host, port, via } => {
                let Caller { process, shim } =
                    self.callers.by_address.get(&from).cloned().unwrap_or_default();
                let connection = Connection { process, host, port, via: via as u8 };
                let connection = told_apart(&self.totals, connection, RECORDS);
                let none = ConnectionRecord {
                    process: connection.process.clone(),
                    host: connection.host.clone(),
                    port: connection.port,
                    via,
                    address: None,
                    count: 1,
                    sent: 0,
                    received: 0,
                    errors: 0,
                };
                match self.totals.get_mut(&connection) {
                    Some(total) => total.count += 1,
                    None => drop(self.totals.insert(connection.clone(), none.clone())),
                }
                self.connections.insert(id, Open { connection, shim, sent: 0, received: 0 });
                self.keep_fresh(Traffic { shim, what: Passed::More { id, is_last: false, more: none } });
            }
            Event::Passed { id, sent, received } => self.count(id, None, (sent, received), None),
            Event::Closed { id, address, sent, received, error } => {
                self.count(id, address, (sent, received), Some(error.is_some()));
            }
            Event::Settled { .. } => {}
        }
        Ok(())
    }

    /// What has gone through a connection so far, and whether it has ended with an error if it has.
    fn count(&mut self, id: u64, address: Option<IpAddr>, so_far: (u64, u64), failed: Option<bool>) {
        let Some(open) = self.connections.get_mut(&id) else { return };
        let (sent, received) = (so_far.0.saturating_sub(open.sent), so_far.1.saturating_sub(open.received));
        (open.sent, open.received) = (open.sent + sent, open.received + received);
        let shim = open.shim;
        if let Some(total) = self.totals.get_mut(&open.connection) {
            let errors = u64::from(failed == Some(true));
            let more = ConnectionRecord { address, count: 0, sent, received, errors, ..total.clone() };
            total.add(&more);
            self.keep_fresh(Traffic { shim, what: Passed::More { id, is_last: failed.is_some(), more } });
        }
        if failed.is_some() {
            self.connections.remove(&id);
        }
    }

    /// What was heard of so far.
    pub(super) fn record(&self) -> NetworkRecord {
        NetworkRecord {
            connections: self.totals.values().cloned().collect(),
            tried: self.tried.iter().cloned().collect(),
        }
    }

    /// Tell it to end, take in its last words, and see that it is gone.
    pub(super) fn finish(mut self, denials: &mut Denials) -> NetworkRecord {
        let _ = shutdown(&self.channel, Shutdown::Write);
        let deadline = Instant::now() + PATIENCE;
        while let Some(event) = self.next_event(deadline.saturating_duration_since(Instant::now())) {
            let _ = self.take_in(event, denials);
        }
        let datagrams = unsent_datagrams(&self.counters).saturating_sub(self.unreachable);
        if datagrams > 0 {
            let blocked = Blocked::Network {
                host: "datagrams".into(),
                port: None,
                process: None,
                reason: NetworkReason::Udp,
            };
            denials.add(Denial { count: datagrams, ..Denial::new(DenialKind::Network, &blocked) });
        }
        self.record()
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        let _ = wait_for(self.pid);
    }
}

/// As what a connection is counted: by itself, and where there are too many kinds already by its host, or with all others.
fn told_apart<T>(totals: &BTreeMap<Connection, T>, connection: Connection, most: usize) -> Connection {
    if totals.len() < most || totals.contains_key(&connection) {
        return connection;
    }
    let by_host = Connection { process: None, ..connection };
    match totals.contains_key(&by_host) {
        true => by_host,
        false => Connection { host: "other".into(), port: 0, ..by_host },
    }
}

/// What found no way out. No call waits for its owner to be sent, so that only the kernel knows how many there were.
fn unsent_datagrams(counters: &[File]) -> u64 {
    let mut datagrams = 0;
    for file in counters {
        let mut text = String::new();
        let _ = (&*file).read_to_string(&mut text);
        // IPv6: a name and a number on each line. IPv4: a line of names, then one of numbers.
        let v6 = text.lines().find_map(|line| line.strip_prefix("Ip6OutNoRoutes")?.trim().parse().ok());
        datagrams += v6.unwrap_or(0);
        let mut ip = text.lines().filter(|line| line.starts_with("Ip: ")).map(str::split_whitespace);
        if let (Some(names), Some(values)) = (ip.next(), ip.next()) {
            let found = names.zip(values).find(|(name, _)| *name == "OutNoRoutes");
            datagrams += found.and_then(|(_, value)| value.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    datagrams
}

fn cannot_start(step: String, why: String, fix: String) -> Refusal {
    Refusal::Failed { step, subject: String::new(), why, fix }
}

/// The caller's own proxies. Only for the egress process: a URL may hold a password.
fn upstream() -> Upstream {
    let read = |name: &str| {
        let lower = std::env::var(name.to_lowercase()).ok();
        lower.or_else(|| std::env::var(name).ok()).filter(|value| !value.is_empty())
    };
    Upstream {
        http: read("HTTP_PROXY"),
        https: read("HTTPS_PROXY"),
        all: read("ALL_PROXY"),
        except: read("NO_PROXY"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_names_are_not_told_apart_for_ever() {
        let mut totals = BTreeMap::new();
        let of = |process: String, host: &str| Connection {
            process: Some(process),
            host: host.into(),
            port: 443,
            via: 0,
        };
        let known = Connection { process: None, ..of(String::new(), "a.test") };
        totals.insert(known.clone(), 1);
        for number in 0..100 {
            let connection = told_apart(&totals, of(format!("p{number}"), "a.test"), 10);
            *totals.entry(connection).or_insert(0) += 1;
            let connection = told_apart(&totals, of(format!("p{number}"), &format!("h{number}.test")), 10);
            *totals.entry(connection).or_insert(0) += 1;
        }
        assert!(totals.len() <= 11, "{}", totals.len());
        assert_eq!(totals.values().sum::<i32>(), 201);
        assert!(totals[&known] > 50, "a host that is known is still told");
    }
}
