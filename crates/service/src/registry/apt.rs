//! apt: `apt-get indextargets` lists every place that `apt-get update` would read, whichever file and form it is in.
//!
//! Packages are below the same address as their index. `/etc/apt` is shown in every sandbox.

use std::collections::BTreeSet;

use super::client::{Call, ClientError};
use super::found::Found;
use super::surroundings::Surroundings;

pub(super) fn ask(surroundings: &Surroundings) -> Result<Found<'_>, ClientError> {
    let apt_get = surroundings.program("apt-get").ok_or(ClientError::Missing("apt-get"))?;
    let said =
        Call::new(surroundings, &apt_get).args(["indextargets", "--format", "$(REPO_URI)"]).answer()?;
    let mut found = Found::new(surroundings);
    for url in said.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<BTreeSet<_>>() {
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
        if scheme.starts_with("mirror") {
            found.note(format!(
                "{url} is a list of mirrors: those that it names have to be granted with --allow-host"
            ));
        }
        match scheme {
            // Hosts by Tor and by programs of their own are no hosts of this network.
            _ if scheme.starts_with("tor") => {
                found.note(format!("{url} is not granted: it is reached by Tor"))
            }
            "mirror" => found.grant(&url.replacen("mirror", "http", 1))?,
            _ => found.grant(url)?,
        }
    }
    if let Some(apt_config) = surroundings.program("apt-config") {
        let names = ["shell", "HTTP", "Acquire::http::Proxy", "HTTPS", "Acquire::https::Proxy"];
        let proxies = Call::new(surroundings, &apt_config).args(names).answer().unwrap_or_default();
        let set = proxies
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(_, value)| value.trim_matches('\''));
        if set.into_iter().any(|value| !value.is_empty() && !value.eq_ignore_ascii_case("DIRECT")) {
            found.note("apt's own proxy setting leads nowhere inside: set HTTPS_PROXY for ringfence, and run apt with -o Acquire::http::Proxy=DIRECT");
        }
    }
    Ok(found)
}
