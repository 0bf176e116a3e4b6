//! Headers that belong to one connection and not to the message, and those that a secret does not go together with.

use hyper::body::SizeHint;
use hyper::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, FORWARDED, HeaderMap, HeaderName,
    HeaderValue, IF_RANGE, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, RANGE, SEC_WEBSOCKET_EXTENSIONS, TE,
    TRANSFER_ENCODING, UPGRADE,
};

use hyper::http::request::Parts;
use ringfence_policy::{Host, NetworkReason};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
/// Asks for differences to an earlier answer.
const A_IM: HeaderName = HeaderName::from_static("a-im");

/// Every token of a list header.
pub(super) fn tokens(headers: &HeaderMap, name: HeaderName) -> Vec<String> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|token| token.trim().to_ascii_lowercase()).collect()
}

/// Leave out what is for the next hop only. `TE: trailers` and `Trailer` go on: trailers are carried.
pub(super) fn strip_connection(headers: &mut HeaderMap) {
    let trailers = tokens(headers, TE).iter().any(|token| token == "trailers");
    let named = tokens(headers, CONNECTION).into_iter().filter_map(|token| token.parse::<HeaderName>().ok());
    for name in named.collect::<Vec<_>>() {
        headers.remove(name);
    }
    for name in [
        CONNECTION,
        KEEP_ALIVE,
        PROXY_CONNECTION,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        TE,
        TRANSFER_ENCODING,
        UPGRADE,
        HTTP2_SETTINGS,
    ] {
        headers.remove(name);
    }
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// hyper has the body asked for when it is read, so that the host need not ask again.
pub(super) fn strip_expectation(headers: &mut HeaderMap) {
    headers.remove(EXPECT);
}

/// What a head takes in memory, about.
pub(super) fn size(head: &Parts) -> usize {
    const EACH: usize = 64;
    let headers = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + EACH);
    let target = head.uri.path_and_query().map_or(0, |path| path.as_str().len());
    headers.sum::<usize>() + target + EACH
}

/// A length is only ever ours: what the body turns out to have.
pub(super) fn set_length(headers: &mut HeaderMap, size: &SizeHint, is_empty: bool) {
    let had = headers.remove(CONTENT_LENGTH).is_some();
    match size.exact() {
        // An empty body with a length stays one with a length: some servers want it of a POST.
        Some(0) if is_empty && !had => {}
        Some(length) => {
            headers.insert(CONTENT_LENGTH, length.into());
        }
        None => {}
    }
}

/// Ask for an answer in which a value can be found: whole, and not compressed.
pub(super) fn ask_for_plain(headers: &mut HeaderMap) {
    for name in [RANGE, IF_RANGE, A_IM, SEC_WEBSOCKET_EXTENSIONS] {
        headers.remove(name);
    }
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}

/// Can a value be found in this answer's body?
pub(super) fn is_plain(headers: &HeaderMap) -> bool {
    tokens(headers, CONTENT_ENCODING).iter().all(|token| token == "identity" || token.is_empty())
        && tokens(headers, TRANSFER_ENCODING).iter().all(|token| token == "chunked")
}

/// Headers by which some servers let a request have another method.
pub(super) const METHOD_OVERRIDES: [HeaderName; 3] = [
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-http-method"),
    HeaderName::from_static("x-method-override"),
];
/// The same for the path.
pub(super) const PATH_OVERRIDES: [HeaderName; 5] = [
    HeaderName::from_static("x-original-url"),
    HeaderName::from_static("x-rewrite-url"),
    HeaderName::from_static("x-original-uri"),
    HeaderName::from_static("x-forwarded-uri"),
    HeaderName::from_static("x-forwarded-path"),
];
/// The same for the host.
const HOST_OVERRIDES: [HeaderName; 5] = [
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-host"),
    HeaderName::from_static("x-original-host"),
    HeaderName::from_static("x-forwarded-server"),
    HeaderName::from_static("x-http-host-override"),
];

/// Does a header say another host than the one that `is_it` knows? What can't be read is another one.
pub(super) fn other_host(headers: &HeaderMap, is_it: impl Fn(Host) -> bool) -> Result<(), NetworkReason> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let listed = HOST_OVERRIDES.into_iter().flat_map(|name| headers.get_all(name)).map(text);
    let listed =
        listed.flat_map(|value| value.split(',').map(|host| host.trim().to_owned()).collect::<Vec<_>>());
    let forwarded = headers.get_all(FORWARDED).iter().map(text);
    let forwarded = forwarded.flat_map(|value| {
        let hosts = value.split([',', ';']).filter_map(|pair| {
            let (name, host) = pair.split_once('=')?;
            name.trim().eq_ignore_ascii_case("host").then(|| host.trim().trim_matches('"').to_owned())
        });
        hosts.collect::<Vec<_>>()
    });
    let is_other = |host: &String| {
        let parsed = host.is_ascii().then(|| Host::parse_with_port(host, Some(443)).ok()).flatten();
        !parsed.is_some_and(|(host, _)| is_it(host))
    };
    match listed.chain(forwarded).find(is_other) {
        Some(found) => Err(NetworkReason::HostHeader { found }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn what_is_for_one_connection_is_left_out() {
        let mut headers = map(&[
            ("connection", "close, X-Mine"),
            ("connection", "upgrade"),
            ("x-mine", "1"),
            ("upgrade", "h2c"),
            ("http2-settings", "x"),
            ("te", "gzip, trailers"),
            ("transfer-encoding", "chunked"),
            ("proxy-authorization", "Basic x"),
            ("trailer", "x-sum"),
            ("accept", "*/*"),
        ]);
        strip_connection(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "te", "trailer"]);
        assert_eq!(headers["te"], "trailers");
    }

    #[test]
    fn headers_that_say_another_host_are_found() {
        let own = Host::parse("api.example.com").unwrap();
        let say = |name: &'static str, value: &'static str| {
            other_host(&map(&[(name, value)]), |host| host == own).is_ok()
        };
        for (name, value) in [
            ("x-forwarded-host", "api.example.com"),
            ("x-forwarded-host", "API.example.com:443, api.example.com"),
            ("x-host", "api.example.com"),
            ("forwarded", "for=192.0.2.1;host=api.example.com;proto=https"),
            ("forwarded", "Host=\"api.example.com:443\""),
            ("forwarded", "for=192.0.2.1"),
            ("x-other", "evil.test"),
        ] {
            assert!(say(name, value), "{name}: {value}");
        }
        for (name, value) in [
            ("x-forwarded-host", "evil.test"),
            ("x-forwarded-host", "api.example.com, evil.test"),
            ("x-forwarded-host", ""),
            ("x-forwarded-host", "a b"),
            ("x-host", "evil.test:443"),
            ("x-original-host", "evil.test"),
            ("x-forwarded-server", "evil.test"),
            ("x-http-host-override", "evil.test"),
            ("forwarded", "host=evil.test"),
            ("forwarded", "host=api.example.com, for=x; HOST=\"evil.test\""),
        ] {
            assert!(!say(name, value), "{name}: {value}");
        }
    }

    #[test]
    fn lengths_are_ours() {
        for (said, size, is_empty, expected) in [
            (Some("9"), SizeHint::with_exact(5), false, Some("5")),
            (None, SizeHint::with_exact(5), false, Some("5")),
            (Some("9"), SizeHint::default(), false, None),
            (Some("0"), SizeHint::with_exact(0), true, Some("0")),
            (Some("9"), SizeHint::with_exact(0), true, Some("0")),
            (None, SizeHint::with_exact(0), true, None),
        ] {
            let mut headers = said.map(|said| map(&[("content-length", said)])).unwrap_or_default();
            set_length(&mut headers, &size, is_empty);
            assert_eq!(headers.get("content-length").map(|value| value.to_str().unwrap()), expected);
        }
    }

    #[test]
    fn compressed_answers_are_known() {
        assert!(is_plain(&map(&[])) && is_plain(&map(&[("content-encoding", "Identity")])));
        for (name, value) in [
            ("content-encoding", "gzip"),
            ("content-encoding", "identity, br"),
            ("transfer-encoding", "gzip, chunked"),
        ] {
            assert!(!is_plain(&map(&[(name, value)])), "{value}");
        }
    }
}
