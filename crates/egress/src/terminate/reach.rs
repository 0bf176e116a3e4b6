//! The TLS handshake with a host, and the words for why it failed.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringfence_policy::{HostName, NetworkReason};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, ClientConfig, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::HANDSHAKE;
use crate::admission::Admission;
use crate::http::{Answer, Protocol, chain};

/// How to speak TLS with one host; kept, so that sessions are resumed.
pub(crate) struct Reach {
    name: HostName,
    config: ClientConfig,
    asked: Arc<Asked>,
}

/// Why there is no TLS with a host.
#[derive(Debug)]
pub(crate) enum TlsError {
    Refused(NetworkReason),
    Failed(String),
}

impl TlsError {
    /// Recorded here.
    pub(crate) fn answer(self, admission: &Admission) -> Answer {
        match self {
            Self::Refused(reason) => Answer::refuse(admission, reason),
            Self::Failed(why) => {
                admission.fail(&why);
                Answer::failed(admission, &why)
            }
        }
    }
}

impl Reach {
    pub(super) fn new(name: &HostName, trust: &ClientConfig) -> Self {
        let asked = Arc::new(Asked::default());
        let mut config = trust.clone();
        config.client_auth_cert_resolver = asked.clone();
        // Sessions are this host's: a ticket of another is of no use to it.
        config.resumption = rustls::client::Resumption::in_memory_sessions(8);
        Self { name: name.clone(), config, asked }
    }

    /// Has the host ever asked for a client certificate? One that insists breaks off, often only after the handshake.
    pub(crate) fn wants_certificate(&self) -> bool {
        self.asked.0.load(Ordering::Relaxed)
    }

    pub(crate) fn certificate_wanted(&self) -> TlsError {
        let why = "it asks for a client certificate, which a host whose TLS ends here can't be given";
        TlsError::Refused(NetworkReason::Certificate { why: why.to_owned() })
    }

    /// Verified, and agreed on one of these protocols.
    pub(crate) async fn shake_hands<S>(
        &self,
        stream: S,
        offered: &[Protocol],
    ) -> Result<(TlsStream<S>, Protocol), TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut config = self.config.clone();
        config.alpn_protocols = offered.iter().map(|protocol| protocol.alpn().to_vec()).collect();
        let name = ServerName::try_from(self.name.as_str().to_owned())
            .map_err(|_| TlsError::Failed("its name can't be in a certificate".to_owned()))?;
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let stream = match timeout(HANDSHAKE, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(self.explain(&error)),
            Err(_) => return Err(TlsError::Failed("TLS did not begin in time".to_owned())),
        };
        let protocol = match stream.get_ref().1.alpn_protocol() {
            Some(chosen) => offered.iter().find(|protocol| protocol.alpn() == chosen),
            // A host that does not choose speaks HTTP/1.
            None => offered.iter().find(|protocol| **protocol == Protocol::Http1),
        };
        match protocol {
            Some(protocol) => Ok((stream, *protocol)),
            None => Err(TlsError::Failed("it does not speak the HTTP that the client asks for".to_owned())),
        }
    }

    fn explain(&self, error: &io::Error) -> TlsError {
        let certificate = |why: String| TlsError::Refused(NetworkReason::Certificate { why });
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::InvalidCertificate(problem)) => certificate(words(problem)),
            Some(rustls::Error::NoCertificatesPresented) => certificate("it shows none".to_owned()),
            Some(rustls::Error::AlertReceived(_)) if self.wants_certificate() => self.certificate_wanted(),
            _ => TlsError::Failed(format!("TLS failed: {}", chain(error))),
        }
    }
}

fn words(problem: &CertificateError) -> String {
    match problem {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another name".to_owned()
        }
        CertificateError::UnknownIssuer => {
            "it is self-signed, or its issuer is not trusted on this machine".to_owned()
        }
        CertificateError::BadSignature => "its signature is not its issuer's".to_owned(),
        CertificateError::Revoked => "it is revoked".to_owned(),
        CertificateError::Other(other) => chain(&*other.0 as &dyn Error),
        other => format!("{other:?}"),
    }
}

/// Has no certificate to give, and remembers that it was asked for one.
#[derive(Debug, Default)]
struct Asked(AtomicBool);

impl ResolvesClientCert for Asked {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.store(true, Ordering::Relaxed);
        None
    }

    fn has_certs(&self) -> bool {
        true
    }
}
