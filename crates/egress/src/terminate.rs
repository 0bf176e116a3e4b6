//! TLS that ends here: for hosts with secrets or HTTP rules the client speaks to us, and we speak to the host, whose
//! certificate is verified against this machine's trust.
//!
//! The host is reached first: what it chooses to speak is what the client is offered, and why it can't be reached is
//! told to the client in HTTP.

mod reach;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ringfence_policy::{HostName, NetworkReason, NetworkRules};
use rustls::crypto::CryptoProvider;
use rustls::server::{Acceptor, ClientHello};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;

use crate::admission::Admission;
use crate::authority::Authority;
use crate::dial::Dialling;
use crate::http::{Answer, Exchange, Open, Prefixed, Protocol, Sender, chain, open_metered, serve_exchange};
use crate::lock::Lock;
use crate::secrets::Secrets;
use crate::setup::{Setup, StartError};
use crate::swap::{Swap, Swaps};

pub(crate) use reach::Reach;

const HANDSHAKE: Duration = Duration::from_secs(15);
const MOST_CACHED: usize = 256;

/// What it takes to end TLS: an authority towards the client, trust towards hosts, and the secrets.
pub(crate) struct Terminator {
    authority: Authority,
    trust: Arc<ClientConfig>,
    swaps: Swaps,
    reaches: Lock<BTreeMap<HostName, Arc<Reach>>>,
}

impl Terminator {
    /// Reads this machine's trust store, or the one that SSL_CERT_FILE and SSL_CERT_DIR name; so it comes before
    /// privileges are dropped.
    pub(crate) fn new(setup: &Setup, _: &NetworkRules, secrets: Secrets) -> Result<Self, StartError> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let why = found.errors.first().map_or("there is none".to_owned(), ToString::to_string);
            return Err(failed(
                "read the certificates that this machine trusts",
                why,
                "install ca-certificates, or name a bundle with SSL_CERT_FILE",
            ));
        }
        Self::trusting(roots, setup, secrets)
    }

    pub(crate) fn trusting(
        roots: RootCertStore,
        setup: &Setup,
        secrets: Secrets,
    ) -> Result<Self, StartError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let what = "make the sandbox's certificate authority";
        let fix = "report this as a bug";
        Ok(Self {
            trust: trust(roots, provider.clone()).map_err(|error| failed(what, error.to_string(), fix))?,
            authority: Authority::new(&setup.network, provider)
                .map_err(|error| failed(what, error.to_string(), fix))?,
            swaps: Swaps::new(secrets),
            reaches: Lock::default(),
        })
    }

    /// The certificate to trust inside.
    pub(crate) fn authority_pem(&self) -> String {
        self.authority.pem()
    }

    /// For a connection to a host that is no TLS which ends here, or not yet.
    pub(crate) fn mask(&self, rules: &NetworkRules, name: &HostName) -> Option<Arc<Swap>> {
        self.swaps.back_from(rules, name)
    }

    fn reach(&self, name: &HostName) -> Arc<Reach> {
        let mut reaches = self.reaches.lock();
        if reaches.len() >= MOST_CACHED && !reaches.contains_key(name) {
            reaches.clear();
        }
        reaches.entry(name.clone()).or_insert_with(|| Arc::new(Reach::new(name, &self.trust))).clone()
    }
}

fn failed(what: &str, why: String, fix: &str) -> StartError {
    StartError { what: what.to_owned(), why, fix: fix.to_owned() }
}

fn trust(roots: RootCertStore, provider: Arc<CryptoProvider>) -> Result<Arc<ClientConfig>, rustls::Error> {
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Serve a client that has begun TLS. `prefix`: its hello, at least.
pub(crate) async fn serve(client: TcpStream, prefix: Bytes, admission: Admission, upstream: Dialling) {
    let gate = admission.gate().clone();
    let (Some(terminator), Some(name)) = (gate.terminator(), admission.host().name().cloned()) else {
        return admission.fail("there is nothing to end TLS with");
    };
    let acceptor = LazyConfigAcceptor::new(Acceptor::default(), Prefixed::new(prefix, client));
    let start = match timeout(HANDSHAKE, acceptor).await {
        Ok(Ok(start)) => start,
        Ok(Err(error)) => return admission.fail(error),
        Err(_) => return admission.fail("the client's hello did not come in time"),
    };
    let hello = start.client_hello();
    // Judged before, by another parser: the two must agree.
    if let Some(other) =
        hello.server_name().filter(|found| HostName::parse_ascii(found).as_ref() != Ok(&name))
    {
        return admission.refuse(NetworkReason::Sni { found: other.to_owned() });
    }
    let offered = offered(&hello);
    let (protocol, exchange) = if offered.is_empty() {
        // The handshake below says no: what the client wants to speak is not there.
        let answer = Answer::refuse(&admission, NetworkReason::NotHttp);
        (Protocol::Http1, Exchange::hopeless(admission.clone(), answer))
    } else {
        reach_host(terminator, &name, &admission, upstream, &offered).await
    };
    let config = match terminator.authority.server_config(&name, protocol) {
        Ok(config) => config,
        Err(error) => return admission.fail(format!("no certificate could be made: {error}")),
    };
    match timeout(HANDSHAKE, start.into_stream(config)).await {
        Ok(Ok(client)) => serve_exchange(client, protocol, exchange).await,
        Ok(Err(error)) => admission.fail(format!("the client broke TLS off: {}", chain(&error))),
        Err(_) => admission.fail("the client did not finish the TLS handshake in time"),
    }
}

/// What the client can speak of what we can. One that does not say speaks HTTP/1.
fn offered(hello: &ClientHello<'_>) -> Vec<Protocol> {
    let Some(offers) = hello.alpn() else { return vec![Protocol::Http1] };
    let offers: Vec<&[u8]> = offers.collect();
    [Protocol::Http2, Protocol::Http1]
        .into_iter()
        .filter(|protocol| offers.contains(&protocol.alpn()))
        .collect()
}

/// Begin HTTP over TLS to the host, or have every request answered with why not.
async fn reach_host(
    terminator: &Terminator,
    name: &HostName,
    admission: &Admission,
    upstream: Dialling,
    offered: &[Protocol],
) -> (Protocol, Exchange) {
    let reach = terminator.reach(name);
    match begin(&reach, admission, upstream, offered).await {
        Ok((protocol, open)) => {
            let swap = terminator.swaps.towards(admission.gate().rules(), name, admission.port());
            let sender = Sender::tls(admission.clone(), protocol, reach, open);
            (protocol, Exchange::new(admission.clone(), sender).with_swap(swap))
        }
        Err(answer) => {
            let protocol = offered.iter().min().copied().unwrap_or(Protocol::Http1);
            (protocol, Exchange::hopeless(admission.clone(), answer))
        }
    }
}

async fn begin(
    reach: &Reach,
    admission: &Admission,
    upstream: Dialling,
    offered: &[Protocol],
) -> Result<(Protocol, Open), Answer> {
    let stream = upstream.await.map_err(|error| Answer::undialled(admission, &error))?;
    let shaken = reach.shake_hands(admission.meter(stream), offered).await;
    let (stream, protocol) = shaken.map_err(|error| error.answer(admission))?;
    Ok((protocol, open_metered(admission, stream, protocol, None).await?))
}

#[cfg(test)]
#[path = "terminate_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "terminate/secret_tests.rs"]
mod secret_tests;
