//! An HTTP proxy inside, for programs that insist on one: CONNECT, and requests in absolute form.
//!
//! It grants nothing of its own: what is asked of it goes through the same gate, and a tunnel is carried like a
//! connection that was made directly.

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::HOST;
use hyper::upgrade::{OnUpgrade, Parts};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use ringfence_policy::{Host, NetworkReason};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::addresses::HTTP_PROXY;
use crate::admission::Admission;
use crate::carry::carry_to;
use crate::dial::dial;
use crate::event::Via;
use crate::gate::Gate;
use crate::http::{
    Abort, Answer, Body, Exchange, Finding, Flushed, Protocol, Sender, Watched, chain, empty, serve_requests,
};
use crate::lock::Lock;

/// One client's connection to the proxy, to its end.
pub(crate) async fn serve(gate: Gate, client: TcpStream, from: SocketAddr) {
    let finding = Finding::default();
    let client = Watched::new(client, finding.clone());
    let proxy = Arc::new(Proxy { gate, from, finding, last: Mutex::new(None), tunnel: Lock::new(None) });
    let answer = |request| {
        let proxy = proxy.clone();
        async move { proxy.answer(request).await }
    };
    let ended = serve_requests(client, Protocol::Http1, answer).await;
    let tunnel = proxy.tunnel.lock().take();
    match (ended, tunnel) {
        (Ok(()), Some(tunnel)) => tunnel.carry().await,
        // hyper has answered for itself what it could not read.
        (Err(error), _) if error.is_parse() => {
            let why = proxy.finding.why().map_or_else(|| chain(&error), str::to_owned);
            proxy.malformed(None, &why);
        }
        _ => {}
    }
}

struct Proxy {
    gate: Gate,
    from: SocketAddr,
    finding: Finding,
    /// The host of the request before: the next one is often for the same.
    last: Mutex<Option<Arc<Exchange>>>,
    /// What CONNECT was answered yes to.
    tunnel: Lock<Option<Tunnel>>,
}

struct Tunnel {
    client: OnUpgrade,
    upstream: TcpStream,
    admission: Admission,
}

impl Tunnel {
    async fn carry(self) {
        let upgraded = match self.client.await {
            Ok(upgraded) => upgraded,
            Err(error) => return self.admission.fail(error),
        };
        match upgraded.downcast::<TokioIo<Flushed<Watched<TcpStream>>>>() {
            Ok(Parts { io, read_buf, .. }) => {
                let client = io.into_inner().into_inner().into_inner();
                carry_to(self.upstream, client, read_buf, self.admission).await;
            }
            Err(_) => self.admission.fail("the tunnel has another stream than its connection"),
        }
    }
}

impl Proxy {
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Abort> {
        let version = request.version();
        let asked = match self.finding.why() {
            Some(why) => Err(self.malformed(request.uri().authority().map(|it| it.as_str()), why)),
            None if request.method() == Method::CONNECT => {
                return Ok(self.connect(request).await.unwrap_or_else(|answer| answer.response(version)));
            }
            None => self.exchange(&request).await,
        };
        match asked {
            Ok(exchange) => exchange.answer(request).await,
            Err(answer) => Ok(answer.response(version)),
        }
    }

    /// A tunnel. The target is dialled first, so that the answer says how that went.
    async fn connect(&self, mut request: Request<Incoming>) -> Result<Response<Body>, Answer> {
        let authority = request.uri().authority().map(|authority| authority.as_str().to_owned());
        let (host, port) = self.read(authority.as_deref(), None)?;
        let mut hosts = request.headers().get_all(HOST).iter();
        let same = |said: &[u8]| {
            let said =
                std::str::from_utf8(said).ok().and_then(|said| Host::parse_with_port(said, Some(port)).ok());
            said.is_some_and(|(said, on)| (self.gate.named(said), on) == (host.clone(), port))
        };
        if !hosts.all(|said| same(said.as_bytes())) {
            return Err(self.malformed(authority.as_deref(), "its target and its Host differ"));
        }
        let admission = self.admit(&host, port)?;
        let upstream =
            dial(&self.gate, &admission).await.map_err(|error| Answer::undialled(&admission, &error))?;
        let client = hyper::upgrade::on(&mut request);
        *self.tunnel.lock() = Some(Tunnel { client, upstream, admission });
        Ok(Response::new(empty()))
    }

    /// What a request in absolute form goes through.
    async fn exchange(&self, request: &Request<Incoming>) -> Result<Arc<Exchange>, Answer> {
        let uri = request.uri();
        let authority = uri.authority().map(|authority| authority.as_str());
        let wrong = match uri.scheme_str() {
            Some("http") => None,
            Some(_) => Some("a proxy is asked for https by CONNECT, and for nothing else"),
            None => Some("this is a proxy: the target must be a whole URL"),
        };
        if let Some(why) = wrong {
            return Err(self.malformed(authority, why));
        }
        let (host, port) = self.read(authority, Some(80))?;
        let mut last = self.last.lock().await;
        if let Some(exchange) = last.as_ref().filter(|exchange| exchange.is_for(&host, port)) {
            return Ok(exchange.clone());
        }
        // The connection's own task gives the place among the connections back before another is taken.
        if last.take().is_some() {
            tokio::task::yield_now().await;
        }
        let admission = self.admit(&host, port)?;
        let sender = Sender::clear(admission.clone(), Protocol::Http1, None);
        let exchange = Exchange::new(admission, sender).asked_as(host).with_finding(self.finding.clone());
        Ok(last.insert(Arc::new(exchange)).clone())
    }

    fn admit(&self, host: &Host, port: u16) -> Result<Admission, Answer> {
        let admitted = self.gate.admit(host, port, self.from, Via::HttpProxy);
        admitted.map_err(|reason| Answer::refused(&host.to_string(), Some(port), &reason))
    }

    /// A request that no careful proxy would take; recorded here. One that names no host was made to the proxy itself.
    fn malformed(&self, authority: Option<&str>, why: &str) -> Answer {
        let reason = NetworkReason::Malformed { why: why.to_owned() };
        let parsed = authority.and_then(|text| Host::parse_with_port(text, Some(80)).ok());
        let (host, port) = match (authority, parsed) {
            (_, Some((host, port))) => (host.to_string(), Some(port)),
            (Some(text), None) => (text.to_owned(), None),
            (None, None) => (HTTP_PROXY.ip().to_string(), Some(HTTP_PROXY.port())),
        };
        self.gate.refuse(&host, port, Some(self.from), reason.clone());
        Answer::refused(&host, port, &reason)
    }

    /// Host and port of an authority. What can't be one is recorded.
    fn read(&self, authority: Option<&str>, default: Option<u16>) -> Result<(Host, u16), Answer> {
        let Some(authority) = authority else { return Err(self.malformed(None, "it names no host")) };
        if authority.contains('@') {
            return Err(self.malformed(Some(authority), "its host has a user's name"));
        }
        let parsed =
            Host::parse_with_port(authority, default).map(|(host, port)| (self.gate.named(host), port));
        parsed.map_err(|error| {
            let reason = NetworkReason::BadName { why: error.to_string() };
            let answer = Answer::refused(authority, None, &reason);
            self.gate.refuse(authority, None, Some(self.from), reason);
            answer
        })
    }
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;
