//! Which host a request is for: `Host`, `:authority` and an absolute target must all name the one that was admitted.

use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Uri, Version};
use ringfence_policy::{Host, HostName};

/// Whether requests go to the host in clear or through TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    pub(super) fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// What a request says of its host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// The authority to send on: the name in its normal form, with a port if the client wrote one.
    This(String),
    /// Another name, on a connection to an address: which names it has nobody can say. The authority is as above.
    Alias(HostName, String),
    Other(String),
    Malformed(&'static str),
}

/// `scheme` decides which port an authority without one means, `meant` which host an address does.
pub(crate) fn named(
    request: &Parts,
    scheme: Scheme,
    host: &Host,
    port: u16,
    meant: impl Fn(Host) -> Host,
) -> Named {
    let mut hosts = request.headers.get_all(HOST).iter();
    let header = hosts.next();
    if hosts.next().is_some() {
        return Named::Malformed("it has more than one Host");
    }
    if request.uri.scheme_str().is_some_and(|found| found != scheme.as_str()) {
        return Named::Malformed("its scheme is not that of the connection");
    }
    let header = match header.map(HeaderValue::to_str) {
        Some(Ok(text)) => Some(text),
        Some(Err(_)) => return Named::Malformed("its Host is not text"),
        None if request.uri.authority().is_none() && request.version == Version::HTTP_11 => {
            return Named::Malformed("it has no Host");
        }
        None => None,
    };
    let target = request.uri.authority().map(|authority| authority.as_str());
    let mut said = None;
    for text in [header, target].into_iter().flatten() {
        if text.contains('@') {
            return Named::Malformed("its host has a user's name");
        }
        // On the way, nothing maps a name any more: only ASCII is one.
        let parsed = text.is_ascii().then(|| Host::parse_with_port(text, Some(scheme.port())).ok()).flatten();
        let Some((parsed, on)) = parsed else { return Named::Other(text.to_owned()) };
        let parsed = (meant(parsed), on);
        if said.replace(parsed.clone()).is_some_and(|before| before != parsed) {
            return Named::Malformed("its target and its Host differ");
        }
        let is_alias = matches!((host, &parsed.0), (Host::Address(_), Host::Name(_))) && parsed.1 == port;
        if parsed != (host.clone(), port) && !is_alias {
            return Named::Other(text.to_owned());
        }
    }
    let explicit = header.or(target).is_some_and(writes_port);
    let port = (explicit || port != scheme.port()).then_some(port);
    match (host, said) {
        (Host::Address(_), Some((Host::Name(name), _))) => {
            let authority = authority(&Host::Name(name.clone()), port);
            Named::Alias(name, authority)
        }
        _ => Named::This(authority(host, port)),
    }
}

fn writes_port(authority: &str) -> bool {
    authority.rsplit(']').next().is_some_and(|rest| rest.contains(':'))
}

pub(crate) fn authority(host: &Host, port: Option<u16>) -> String {
    let host = match host {
        Host::Address(std::net::IpAddr::V6(address)) => format!("[{address}]"),
        host => host.to_string(),
    };
    port.map_or(host.clone(), |port| format!("{host}:{port}"))
}

/// The target as this kind of connection wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `/path`, and a `Host` header.
    Origin,
    /// `http://host/path`, and a `Host` header: for a proxy.
    Absolute,
    /// Everything in the target: HTTP/2 makes pseudo-headers of it.
    Pseudo,
}

/// Write target and `Host` anew.
pub(crate) fn set_target(
    uri: &mut Uri,
    headers: &mut HeaderMap,
    authority: &str,
    scheme: Scheme,
    form: Form,
) -> Result<(), hyper::http::Error> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    *uri = match form {
        Form::Origin => Uri::builder().path_and_query(path).build()?,
        // `OPTIONS *` has no path to go behind an authority.
        _ if path == "*" && form == Form::Absolute => Uri::builder().path_and_query("*").build()?,
        _ => Uri::builder().scheme(scheme.as_str()).authority(authority).path_and_query(path).build()?,
    };
    headers.remove(HOST);
    if form != Form::Pseudo {
        headers.insert(HOST, HeaderValue::from_str(authority)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn ask(version: Version, uri: &str, hosts: &[&str]) -> Named {
        let mut request = Request::builder().version(version).uri(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        named(&parts, Scheme::Https, &api(), 443, |host| match host {
            Host::Address(address) if address.to_string() == "198.18.1.0" => api(),
            host => host,
        })
    }

    fn api() -> Host {
        Host::parse("api.example.com").unwrap()
    }

    #[test]
    fn one_host_and_no_other() {
        let one = |uri, hosts: &[&str]| ask(Version::HTTP_11, uri, hosts);
        let this = |text: &str| Named::This(text.to_owned());
        assert_eq!(one("/", &["api.example.com"]), this("api.example.com"));
        assert_eq!(one("/", &["API.Example.com."]), this("api.example.com"));
        assert_eq!(one("/", &["api.example.com:443"]), this("api.example.com:443"));
        assert_eq!(one("https://api.example.com/x", &["api.example.com:443"]), this("api.example.com:443"));
        assert_eq!(ask(Version::HTTP_2, "https://api.example.com/x", &[]), this("api.example.com"));
        assert_eq!(ask(Version::HTTP_10, "/", &[]), this("api.example.com"));
        assert_eq!(one("/", &["198.18.1.0"]), this("api.example.com"));
        assert_eq!(one("https://198.18.1.0/x", &["api.example.com:443"]), this("api.example.com:443"));
        assert_eq!(one("/", &["198.18.1.1"]), Named::Other("198.18.1.1".into()));

        for other in [
            "example.com",
            "api.example.com:444",
            "api.example.com.evil.test",
            "127.0.0.1",
            "",
            "a b",
            "api.example.com:0443x",
        ] {
            assert_eq!(one("/", &[other]), Named::Other(other.into()), "{other}");
        }
        for (uri, hosts) in [
            ("/", &[][..]),
            ("/", &["api.example.com", "api.example.com"]),
            ("/", &["u@api.example.com"]),
            ("https://u:p@api.example.com/", &["api.example.com"]),
            ("http://api.example.com/", &["api.example.com"]),
            ("ftp://api.example.com/", &["api.example.com"]),
        ] {
            assert!(matches!(one(uri, hosts), Named::Malformed(_)), "{uri} {hosts:?}");
        }
        // The target names another host than `Host` does, whichever of them is the right one.
        assert!(!matches!(one("https://api.example.com/", &["evil.test"]), Named::This(_)));
        assert!(!matches!(one("https://evil.test/", &["api.example.com"]), Named::This(_)));
        assert!(!matches!(ask(Version::HTTP_2, "https://evil.test/", &["api.example.com"]), Named::This(_)));
    }

    #[test]
    fn an_address_may_be_called_by_a_name_and_by_no_other_address() {
        let to = |host: &str, port: u16, said: &str, uri: &str| {
            let request = Request::builder().version(Version::HTTP_11).uri(uri).header(HOST, said);
            let (parts, ()) = request.body(()).unwrap().into_parts();
            named(&parts, Scheme::Http, &Host::parse(host).unwrap(), port, |host| host)
        };
        let alias =
            |name: &str, authority: &str| Named::Alias(HostName::parse(name).unwrap(), authority.to_owned());
        assert_eq!(to("192.0.2.1", 80, "Www.Example.com.", "/"), alias("www.example.com", "www.example.com"));
        assert_eq!(to("192.0.2.1", 80, "a.example:80", "/"), alias("a.example", "a.example:80"));
        assert_eq!(to("192.0.2.1", 8080, "a.example:8080", "/"), alias("a.example", "a.example:8080"));
        assert_eq!(to("2001:db8::1", 80, "a.example", "/"), alias("a.example", "a.example"));
        assert_eq!(to("192.0.2.1", 80, "192.0.2.1", "/"), Named::This("192.0.2.1".into()));
        for (host, port, said) in [
            ("192.0.2.1", 80, "192.0.2.2"),
            ("192.0.2.1", 8080, "a.example"),
            ("192.0.2.1", 80, "a.example:81"),
            ("192.0.2.1", 80, "a b"),
            ("www.example.com", 80, "a.example"),
        ] {
            assert_eq!(to(host, port, said, "/"), Named::Other(said.into()), "{host}:{port} {said}");
        }
        let both = to("192.0.2.1", 80, "a.example", "http://b.example/");
        assert!(matches!(both, Named::Malformed(_)), "{both:?}");
    }

    #[test]
    fn addresses_have_brackets_in_an_authority() {
        assert_eq!(authority(&Host::parse("2001:db8::1").unwrap(), Some(80)), "[2001:db8::1]:80");
        assert_eq!(authority(&Host::parse("192.0.2.1").unwrap(), None), "192.0.2.1");
        assert!(!writes_port("[2001:db8::1]") && writes_port("[2001:db8::1]:80"));
    }

    #[test]
    fn targets() {
        for (form, path, expected, host) in [
            (Form::Origin, "http://x/a?b", "/a?b", true),
            (Form::Absolute, "/a?b", "http://h:81/a?b", true),
            (Form::Absolute, "*", "*", true),
            (Form::Pseudo, "/a", "http://h:81/a", false),
        ] {
            let mut uri: Uri = path.parse().unwrap();
            let mut headers = HeaderMap::new();
            set_target(&mut uri, &mut headers, "h:81", Scheme::Http, form).unwrap();
            assert_eq!((uri.to_string().as_str(), headers.contains_key(HOST)), (expected, host));
        }
    }
}
