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

use crate::admission::Admission;
use crate::carry::carry_to;
use crate::dial::dial;
use crate::event::Via;
use crate::gate::Gate;
use crate::http::{Abort, Answer, Body, Exchange, Finding, Protocol, Sender, Watched, empty, serve_requests};
use crate::lock::Lock;

/// One client's connection to the proxy, to its end.
pub(crate) async fn serve(gate: Gate, client: TcpStream, from: SocketAddr) {
    let (client, finding) = Watched::new(client);
    let proxy = Arc::new(Proxy { gate, from, finding, last: Mutex::new(None), tunnel: Lock::new(None) });
    let answer = |request| {
        let proxy = proxy.clone();
        async move { proxy.answer(request).await }
    };
    let ended = serve_requests(client, Protocol::Http1, answer).await;
    let tunnel = proxy.tunnel.lock().take();
    if let (Ok(()), Some(tunnel)) = (ended, tunnel) {
        tunnel.carry().await;
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
        match upgraded.downcast::<TokioIo<Watched<TcpStream>>>() {
            Ok(Parts { io, read_buf, .. }) => {
                let client = io.into_inner().into_inner();
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
            Some(why) => Err(Answer::malformed(why)),
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
            said.is_some_and(|said| said == (host.clone(), port))
        };
        if !hosts.all(|said| same(said.as_bytes())) {
            return Err(Answer::malformed("its target and its Host differ"));
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
        match uri.scheme_str() {
            Some("http") => {}
            Some(_) => {
                return Err(Answer::malformed("a proxy is asked for https by CONNECT, and for nothing else"));
            }
            None => return Err(Answer::malformed("this is a proxy: the target must be a whole URL")),
        }
        let (host, port) = self.read(uri.authority().map(|authority| authority.as_str()), Some(80))?;
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

    /// Host and port of an authority. What can't be one is recorded.
    fn read(&self, authority: Option<&str>, default: Option<u16>) -> Result<(Host, u16), Answer> {
        let Some(authority) = authority else { return Err(Answer::malformed("it names no host")) };
        if authority.contains('@') {
            return Err(Answer::malformed("its host has a user's name"));
        }
        Host::parse_with_port(authority, default).map_err(|error| {
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
