//! The few things that have to be known of a URL: scheme, host, port, and whether it holds credentials.

use ringfence_policy::Host;

/// A place on the network that a client is configured with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) host: Host,
    pub(super) port: u16,
}

/// Where a URL leads. `None`: to a file or something else that needs no network. Prefixes that a client puts in front
/// of a scheme (`sparse+https`, `mirror+http`) are passed over.
pub(super) fn place(url: &str) -> Result<Option<Place>, String> {
    let Some((scheme, rest)) = url.split_once("://") else { return Ok(None) };
    let scheme = scheme.rsplit('+').next().unwrap_or(scheme).to_ascii_lowercase();
    let default = match scheme.as_str() {
        "http" => 80,
        "https" => 443,
        "ssh" => 22,
        "ftp" => 21,
        "git" => 9418,
        "file" | "copy" | "cdrom" => return Ok(None),
        _ => return Err(format!("the scheme `{scheme}` is not known")),
    };
    let authority = rest.split(['/', '?', '#', '\\', '{']).next().unwrap_or_default();
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = Host::parse_with_port(authority, Some(default)).map_err(|error| error.to_string())?;
    Ok(Some(Place { host, port }))
}

/// Does it hold a user or a password?
pub(super) fn has_credentials(url: &str) -> bool {
    without_credentials(url) != url
}

/// The same text with `user:password@` taken out of every URL in it.
pub(super) fn without_credentials(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        clean.push_str(before);
        clean.push_str("://");
        let end = after.find(|c: char| "/?#\\".contains(c) || c.is_whitespace()).unwrap_or(after.len());
        let authority = &after[..end];
        clean.push_str(authority.rsplit_once('@').map_or(authority, |(_, host)| host));
        rest = &after[end..];
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        match place(url) {
            Ok(Some(place)) => format!("{:?} {}", place.host, place.port),
            Ok(None) => "none".into(),
            Err(why) => why,
        }
    }

    #[test]
    fn hosts_and_ports() {
        let name = |text: &str, port: u16| {
            let (host, _) = Host::parse_with_port(text, Some(1)).unwrap();
            format!("{host:?} {port}")
        };
        for (url, expected) in [
            ("https://index.example/simple/", name("index.example", 443)),
            ("http://index.example:8080", name("index.example", 8080)),
            ("https://me:p@ss@Index.Example./x", name("index.example", 443)),
            ("sparse+https://crates.example/index/", name("crates.example", 443)),
            ("mirror+http://mirror.example/list", name("mirror.example", 80)),
            ("https://dl.example/{crate}/{version}", name("dl.example", 443)),
            ("https://[2001:db8::1]:8443/x", name("[2001:db8::1]", 8443)),
            ("ssh://git@git.example/x", name("git.example", 22)),
            ("/opt/wheels", "none".into()),
            ("file:///opt/wheels", "none".into()),
            ("gopher://x.example/", "the scheme `gopher` is not known".into()),
        ] {
            assert_eq!(shown(url), expected, "{url}");
        }
        for bad in ["https://", "https://a b/", "https://x.example:99999/", "https://0x7f.1/"] {
            assert!(place(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn credentials_go_and_the_rest_stays() {
        for (text, expected) in [
            ("https://u:p@h.example/x@y", "https://h.example/x@y"),
            (
                "see https://u:p@a.example and https://b.example/",
                "see https://a.example and https://b.example/",
            ),
            ("https://token@h.example", "https://h.example"),
            ("https://u:p@ss@h.example/", "https://h.example/"),
            ("no url, a@b", "no url, a@b"),
        ] {
            assert_eq!(without_credentials(text), expected);
            assert_eq!(has_credentials(text), text != expected);
        }
    }
}
