//! Connections of the client: to the server itself or through a proxy, in clear or over TLS.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::job::{Job, Trust, Via};
use crate::look_up::look_up;

/// Far more than anything takes: a hang is an error that says so.
const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that need not be found out again for each connection.
pub(crate) struct Target {
    address: SocketAddr,
    authority: String,
    via: Via,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// For the server and, in clear, for the proxy.
    headers: String,
    /// For a proxy.
    credentials: String,
}

impl Target {
    pub(crate) fn find(job: &Job) -> Result<Self> {
        let (address, credentials) = match (job.via, job.address) {
            (Via::Nothing, Some(address)) => (address, String::new()),
            (Via::Nothing, None) => (SocketAddr::new(look_up(&job.name)?, job.port), String::new()),
            (Via::Tunnel | Via::Proxy, _) => {
                let found = proxy(&std::env::var("HTTP_PROXY").context("no HTTP_PROXY")?)?;
                wait_for(found.0);
                found
            }
        };
        let mut headers = String::new();
        if let Some(name) = &job.token {
            let value = std::env::var(name).with_context(|| format!("no variable {name}"))?;
            headers = format!("Authorization: Bearer {value}\r\n");
        }
        let tls = match &job.tls {
            Some(trust) => Some((config(trust)?, ServerName::try_from(job.name.clone())?)),
            None => None,
        };
        let authority = format!("{}:{}", job.name, job.port);
        Ok(Self { address, authority, via: job.via, tls, headers, credentials })
    }

    pub(crate) fn request(&self, bytes: usize) -> String {
        let Self { authority, headers, credentials, .. } = self;
        let (place, credentials) = match self.via {
            Via::Proxy => (format!("http://{authority}"), credentials.as_str()),
            Via::Nothing | Via::Tunnel => (String::new(), ""),
        };
        format!(
            "GET {place}/{bytes} HTTP/1.1\r\nHost: {authority}\r\n{headers}{credentials}Connection: close\r\n\r\n"
        )
    }

    pub(crate) fn connect(&self) -> Result<Connection> {
        let mut stream = TcpStream::connect(self.address)
            .with_context(|| format!("cannot connect to {}", self.address))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        if self.via == Via::Tunnel {
            self.open_tunnel(&mut stream)?;
        }
        let Some((config, name)) = &self.tls else { return Ok(Connection::Clear(stream)) };
        let mut session = ClientConnection::new(config.clone(), name.clone())?;
        while session.is_handshaking() {
            session.complete_io(&mut stream).context("the TLS handshake failed")?;
        }
        Ok(Connection::Tls(StreamOwned::new(session, stream).into()))
    }

    fn open_tunnel(&self, stream: &mut TcpStream) -> Result<()> {
        let Self { authority, credentials, .. } = self;
        let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{credentials}\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut buffer = [0; 1024];
            let read = stream.read(&mut buffer)?;
            ensure!(read > 0, "the proxy hung up");
            answer.extend_from_slice(&buffer[..read]);
        }
        let said = String::from_utf8_lossy(&answer);
        ensure!(said.split(' ').nth(1) == Some("200"), "the proxy refused: {said}");
        Ok(())
    }
}

pub(crate) enum Connection {
    Clear(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.read(buffer),
            Self::Tls(stream) => match stream.read(buffer) {
                // The length says whether all has come.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            },
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Clear(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// Address and credentials of `http://[USER:PASSWORD@]HOST:PORT`.
fn proxy(url: &str) -> Result<(SocketAddr, String)> {
    let place = url.trim_start_matches("http://").trim_end_matches('/');
    let (credentials, place) = match place.rsplit_once('@') {
        Some((user, place)) => (format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(user)), place),
        None => (String::new(), place),
    };
    let (host, port) = place.rsplit_once(':').context("a proxy without a port")?;
    let host = if host == "localhost" { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { host.parse()? };
    Ok((SocketAddr::new(host, port.parse()?), credentials))
}

/// Some sandboxes start their proxy beside the command. That is no part of what is measured.
fn wait_for(proxy: SocketAddr) {
    for _ in 0..500 {
        if TcpStream::connect(proxy).is_ok() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Each connection makes a whole handshake: a new program has nothing to resume.
fn config(trust: &Trust) -> Result<Arc<ClientConfig>> {
    let path = match trust {
        Trust::File(path) => path.clone(),
        Trust::Variable => std::env::var_os("SSL_CERT_FILE").context("no SSL_CERT_FILE")?.into(),
    };
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&text).flatten());
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(config.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_may_have_credentials() {
        let at = |port| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
        assert_eq!(proxy("http://127.0.0.1:3128").unwrap(), (at(3128), String::new()));
        let with = "Proxy-Authorization: Basic dTpw\r\n".to_owned();
        assert_eq!(proxy("http://u:p@localhost:1/").unwrap(), (at(1), with));
        assert!(proxy("http://localhost").is_err());
    }
}
