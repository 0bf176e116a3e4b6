//! Hosts in the URLs that a script has in it as they are. Seen is not used, and nothing is granted by being seen.

/// Names that stand for nothing on a network: of schemas, and for examples.
const NO_HOSTS: &[&str] = &[
    "www.w3.org",
    "json-schema.org",
    "schema.org",
    "schemas.openxmlformats.org",
    "schemas.microsoft.com",
    "purl.org",
    "ns.adobe.com",
    "example.com",
    "example.org",
    "example.net",
];
const NO_DOMAINS: &[&str] = &["example", "test", "invalid", "localhost", "local", "internal"];

/// Each host, as a rule would name it, with its line from 1. Lines that are a comment are left out.
pub(super) fn hosts(text: &str) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let start = line.trim_start();
        if ["#", "//", "*", "--", ";"].iter().any(|mark| start.starts_with(mark)) {
            continue;
        }
        for scheme in ["https://", "http://"] {
            let after = line.match_indices(scheme).map(|(at, _)| &line[at + scheme.len()..]);
            let hosts = after.filter_map(|rest| host(rest, scheme == "http://"));
            found.extend(hosts.map(|host| (host, u32::try_from(number + 1).unwrap_or(u32::MAX))));
        }
    }
    found
}

/// The host at the beginning of what follows a scheme, unless it is put together at run time.
fn host(rest: &str, plain: bool) -> Option<String> {
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-.".contains(c)).unwrap_or(rest.len());
    let (name, mut rest) = rest.split_at(end);
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let mut port = if plain { ":80".to_owned() } else { String::new() };
    if let Some(after) = rest.strip_prefix(':') {
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let number: u16 = after[..digits].parse().ok()?;
        port = if number == 443 { String::new() } else { format!(":{number}") };
        rest = &after[digits..];
    }
    let goes_on = rest.starts_with(['{', '$', '%', '@', '<', '[', '*', '_']);
    (!goes_on && is_name(&name)).then(|| name + &port)
}

fn is_name(name: &str) -> bool {
    let labels: Vec<&str> = name.split('.').collect();
    let last = labels.last().copied().unwrap_or_default();
    let right =
        |label: &&str| (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-');
    name.len() <= 253
        && labels.len() >= 2
        && labels.iter().all(right)
        && last.len() >= 2
        && last.bytes().all(|letter| letter.is_ascii_alphabetic())
        && !NO_DOMAINS.contains(&last)
        && !NO_HOSTS
            .iter()
            .any(|no| name.strip_suffix(no).is_some_and(|sub| sub.is_empty() || sub.ends_with('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        hosts(text).into_iter().map(|(host, _)| host).collect()
    }

    #[test]
    fn literal_hosts_and_their_ports() {
        assert_eq!(of("get('https://API.one.io/v1')"), ["api.one.io"]);
        assert_eq!(of("curl http://two.io:8080/x https://three.io:443"), ["three.io", "two.io:8080"]);
        assert_eq!(of("u = \"http://four.io\""), ["four.io:80"]);
        assert_eq!(hosts("\n\nx = 'https://five.io.'\n"), [("five.io".to_owned(), 3)]);
    }

    #[test]
    fn what_is_no_host_or_not_whole() {
        for text in [
            "# see https://docs.one.io",
            "  // https://docs.one.io",
            "f'https://{host}/x'",
            "\"https://api.$REGION.one.io\"",
            "https://api.{region}.one.io",
            "https://user:pw@one.io",
            "https://localhost/x",
            "http://127.0.0.1:80",
            "https://one",
            "http://www.w3.org/2000/svg",
            "https://api.example.com/",
            "https://-bad.io",
            "https://one.io:99999",
        ] {
            let found = of(text);
            assert!(found.is_empty(), "{text}: {found:?}");
        }
    }
}
