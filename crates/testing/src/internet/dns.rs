//! The name server of the test internet: it knows a few names, changes its mind between two questions where it was told
//! to (rebinding), and remembers who asked what.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::dns_message::{A, AAAA, Data, Question};
use super::{DNS, Place};

/// More than this goes by TCP.
const DATAGRAM: usize = 1232;

/// What a name leads to.
#[derive(Clone, Debug)]
pub enum Answer {
    Address(IpAddr),
    Alias(String),
    Text(String),
    Service {
        target: String,
        port: u16,
    },
    /// An HTTPS record, with an address to connect to.
    Https {
        hint: Ipv4Addr,
    },
    /// The first question of a type gets the first set, the next one the next; the last set stays.
    Turns(Vec<Vec<IpAddr>>),
}

/// One question that reached the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    pub name: String,
    /// The number of the record type.
    pub kind: u16,
}

#[derive(Clone, Debug, Default)]
pub struct Dns(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<String, Vec<Answer>>,
    turns: BTreeMap<(String, u16), usize>,
    queries: Vec<Query>,
}

impl Dns {
    pub(super) fn start(place: &Place) -> Self {
        let dns = Self::default();
        let (for_udp, for_tcp) = (dns.clone(), dns.clone());
        let (udp, tcp) = place.within(|| {
            let udp = UdpSocket::bind((DNS, 53)).expect("bind the name server");
            let tcp = TcpListener::bind((DNS, 53)).expect("bind the name server");
            (udp, tcp)
        });
        place.stay("dns-udp", move || for_udp.serve_udp(&udp));
        place.stay("dns-tcp", move || {
            for stream in tcp.incoming().flatten() {
                let dns = for_tcp.clone();
                std::thread::spawn(move || dns.serve_tcp(stream));
            }
        });
        dns
    }

    /// What `name` leads to from now on; `*.name` is for every name below it.
    ///
    /// # Panics
    /// If a thread panicked while it held the names.
    pub fn set(&self, name: &str, answers: impl Into<Vec<Answer>>) {
        let mut state = self.0.lock().expect("the names");
        state.turns.retain(|(known, _), _| known != name);
        state.names.insert(name.to_owned(), answers.into());
    }

    /// An address, or several.
    ///
    /// # Panics
    /// If one of them is no address.
    pub fn point(&self, name: &str, addresses: &[&str]) {
        let address = |text: &&str| Answer::Address(text.parse().expect("an address"));
        self.set(name, addresses.iter().map(address).collect::<Vec<_>>());
    }

    /// Every question so far whose name holds `part`.
    ///
    /// # Panics
    /// If a thread panicked while it held the names.
    #[must_use]
    pub fn queries(&self, part: &str) -> Vec<Query> {
        let state = self.0.lock().expect("the names");
        state.queries.iter().filter(|query| query.name.contains(part)).cloned().collect()
    }

    fn serve_udp(&self, socket: &UdpSocket) {
        let mut bytes = [0; 4096];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            if let Some(question) = Question::read(&bytes[..length]) {
                let reply = self.answer(&question);
                let reply = if reply.len() > DATAGRAM { question.truncated() } else { reply };
                let _ = socket.send_to(&reply, from);
            }
        }
    }

    fn serve_tcp(&self, mut stream: TcpStream) {
        let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
        let mut length = [0; 2];
        while stream.read_exact(&mut length).is_ok() {
            let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
            if stream.read_exact(&mut bytes).is_err() {
                return;
            }
            let Some(question) = Question::read(&bytes) else { return };
            let reply = self.answer(&question);
            let framed = [&(reply.len() as u16).to_be_bytes()[..], &reply].concat();
            if stream.write_all(&framed).is_err() {
                return;
            }
        }
    }

    fn answer(&self, question: &Question<'_>) -> Vec<u8> {
        let mut state = self.0.lock().expect("the names");
        state.queries.push(Query { name: question.name.clone(), kind: question.kind });
        let (mut name, mut given, mut found) = (question.name.clone(), Vec::new(), false);
        // An alias is followed, as a resolver would; a ring of them ends here.
        for _ in 0..8 {
            let Some(answers) = state.look_up(&name) else { break };
            found = true;
            let data = state.resolve(&name, question.kind, &answers);
            let next = data.iter().find_map(|data| match data {
                Data::Alias(target) => Some(target.clone()),
                _ => None,
            });
            given.extend(data.into_iter().map(|data| (name.clone(), data)));
            match next {
                Some(target) => name = target,
                None => break,
            }
        }
        question.reply(found.then_some(&given))
    }
}

impl State {
    fn look_up(&self, name: &str) -> Option<Vec<Answer>> {
        let above = name.match_indices('.').map(|(at, _)| format!("*{}", &name[at..]));
        std::iter::once(name.to_owned()).chain(above).find_map(|key| self.names.get(&key).cloned())
    }

    fn resolve(&mut self, name: &str, kind: u16, answers: &[Answer]) -> Vec<Data> {
        let address = |address: &IpAddr| match address {
            IpAddr::V4(address) => Data::V4(*address),
            IpAddr::V6(address) => Data::V6(*address),
        };
        let mut all = Vec::new();
        for answer in answers {
            match answer {
                Answer::Address(one) => all.push(address(one)),
                Answer::Alias(target) => all.push(Data::Alias(target.clone())),
                Answer::Text(text) => all.push(Data::Text(text.clone())),
                Answer::Service { target, port } => {
                    all.push(Data::Service { target: target.clone(), port: *port });
                }
                Answer::Https { hint } => all.push(Data::Https { hint: *hint }),
                Answer::Turns(turns) => {
                    let turn = self.turns.entry((name.to_owned(), kind)).or_default();
                    let set = turns.get(*turn).or(turns.last());
                    if kind == A || kind == AAAA {
                        *turn += 1;
                    }
                    all.extend(set.into_iter().flatten().map(address));
                }
            }
        }
        all.retain(|data| data.kind() == kind || matches!(data, Data::Alias(_)));
        all
    }
}
