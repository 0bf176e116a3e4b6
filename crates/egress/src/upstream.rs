//! The user's own proxies, as their environment names them, and which connections go through them.
//!
//! Through a proxy a name goes as a name: it is the proxy that looks it up. What was decided about name and port holds
//! all the same.

mod connect;
mod except;
mod socks5;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use except::Exceptions;
use ringfence_policy::Host;
use tokio::net::TcpStream;

use crate::dial::DialError;
use crate::setup::{StartError, Upstream};

/// One of the user's proxies.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    pub(crate) kind: ProxyKind,
    pub(crate) host: Host,
    pub(crate) port: u16,
    login: Option<Login>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyKind {
    Http,
    Socks5,
}

#[derive(Clone, PartialEq, Eq)]
struct Login {
    user: String,
    password: String,
}

/// A password is nobody's business.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} proxy {}:{}", self.kind, self.host, self.port)
    }
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    PlainHttp,
    Tunnel,
}

#[derive(Debug, Default)]
pub(crate) struct Proxies {
    http: Option<Proxy>,
    other: Option<Proxy>,
    except: Exceptions,
}

impl Proxies {
    pub(crate) fn new(upstream: &Upstream) -> Result<Self, StartError> {
        let read = |url: &Option<String>| url.as_deref().filter(|url| !url.is_empty()).map(Proxy::parse);
        let all = read(&upstream.all).transpose()?;
        Ok(Self {
            http: read(&upstream.http).transpose()?.or_else(|| all.clone()),
            other: read(&upstream.https).transpose()?.or(all),
            except: Exceptions::parse(upstream.except.as_deref().unwrap_or_default()),
        })
    }

    /// The proxy that this connection goes through, if any.
    pub(crate) fn for_target(&self, host: &Host, port: u16, purpose: Purpose) -> Option<&Proxy> {
        let proxy = match purpose {
            Purpose::PlainHttp => self.http.as_ref(),
            Purpose::Tunnel => self.other.as_ref(),
        };
        proxy.filter(|_| !self.except.names(host, port))
    }
}

impl Proxy {
    /// `http://`, `socks5://` or `socks5h://`, with or without a login; no scheme means `http://`.
    fn parse(url: &str) -> Result<Self, StartError> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (login, place) = match authority.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, authority),
        };
        // The login is not shown.
        let wrong = |why: String| StartError {
            what: format!("use the proxy `{scheme}://{place}` of your environment"),
            why,
            fix: "set it to http://HOST:PORT or socks5://HOST:PORT, or unset it".to_owned(),
        };
        let (kind, default) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (ProxyKind::Http, 80),
            "socks5" | "socks5h" | "socks" => (ProxyKind::Socks5, 1080),
            other => return Err(wrong(format!("`{other}` proxies are not known here"))),
        };
        let (host, port) =
            Host::parse_with_port(place, Some(default)).map_err(|error| wrong(error.to_string()))?;
        let login = login.map(|login| {
            let (user, password) = login.split_once(':').unwrap_or((login, ""));
            Login { user: percent_decoded(user), password: percent_decoded(password) }
        });
        Ok(Self { kind, host, port, login })
    }

    /// The value of `Proxy-Authorization`.
    pub(crate) fn authorization(&self) -> Option<String> {
        let login = self.login.as_ref()?;
        Some(format!("Basic {}", STANDARD.encode(format!("{}:{}", login.user, login.password))))
    }

    /// Have it reach `host`, over a stream that leads to it.
    pub(crate) async fn reach(
        &self,
        stream: &mut TcpStream,
        host: &Host,
        port: u16,
    ) -> Result<(), DialError> {
        match self.kind {
            ProxyKind::Http => connect::tunnel(stream, host, port, self.authorization().as_deref()).await,
            ProxyKind::Socks5 => {
                let login = self.login.as_ref().map(|login| (login.user.as_str(), login.password.as_str()));
                socks5::tunnel(stream, host, port, login).await
            }
        }
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits =
            after.get(..2).filter(|_| first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `host:port`, with brackets where the host is an IPv6 address.
pub(crate) fn authority(host: &Host, port: u16) -> String {
    match host {
        Host::Address(std::net::IpAddr::V6(address)) => format!("[{address}]:{port}"),
        host => format!("{host}:{port}"),
    }
}

#[cfg(test)]
#[path = "upstream_tests.rs"]
mod tests;
