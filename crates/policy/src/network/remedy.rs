//! The words for a refused connection: which rule refused it, and what would let it through.

use std::net::IpAddr;

use super::address::{AddressClass, address_class};
use super::host::Host;
use super::name::HostName;
use super::range::AddressRange;
use super::reason::NetworkReason;
use super::rule::HostRule;
use super::rules::is_own_loopback;
use crate::bound::Bound;
use crate::layer::Layer;
use crate::reasons::{Remedy, TomlRule, shell};
use crate::units::shown;

/// The one thing that would let it through.
enum Fix {
    Allow(HostRule),
    Private(AddressRange),
    NoSni(HostName),
    Local(u16),
    Connections(u32),
}

/// The rule that refused this, and what would let it through.
pub(crate) fn network_remedy(host: &str, port: Option<u16>, reason: &NetworkReason) -> Remedy {
    let fix = fix(host, port, reason);
    let flag = fix.as_ref().map(Fix::flag);
    let what = match port {
        Some(port) if host.contains(':') => format!("`[{}]:{port}`", shown(host)),
        Some(port) => format!("`{}:{port}`", shown(host)),
        None => format!("`{}`", shown(host)),
    };
    let advice = match (&flag, advice(host, port, reason)) {
        (Some(flag), _) => {
            let ports = fix.as_ref().and_then(Fix::without_port);
            format!(", add `{flag}` to allow it{}", ports.unwrap_or_default())
        }
        (None, Some(advice)) => format!("; {advice}"),
        (None, None) => String::new(),
    };
    Remedy {
        rule: rule(reason),
        sentence: format!("{what} was refused: {}{advice}", why(reason)),
        flag,
        toml: fix.as_ref().map(Fix::toml),
    }
}

/// The same as a layer.
pub(crate) fn network_layer(host: &str, port: Option<u16>, reason: &NetworkReason) -> Option<Layer> {
    let mut layer = Layer::default();
    match fix(host, port, reason)? {
        Fix::Allow(rule) => layer.network.allow.push(rule),
        Fix::Private(range) => layer.network.private.push(range),
        Fix::NoSni(name) => layer.network.no_sni.push(name),
        Fix::Local(port) => layer.network.local.push(port),
        Fix::Connections(limit) => layer.limits.connections = Some(Bound::At(limit)),
    }
    Some(layer)
}

fn fix(host: &str, port: Option<u16>, reason: &NetworkReason) -> Option<Fix> {
    let host = Host::parse(host).ok();
    match reason {
        // A name server: the sandbox has one of its own as soon as it has a network.
        NetworkReason::Off if port == Some(53) => None,
        NetworkReason::OwnLoopback => port.map(Fix::Local),
        NetworkReason::Off | NetworkReason::NotGranted | NetworkReason::Port { .. } => grant(host?, port),
        NetworkReason::Address { address, class } => match (host?, class) {
            // Nothing but private addresses is opened to names: one that leads elsewhere may be somebody's attack.
            (Host::Name(_), class) if class.is_private() => {
                AddressRange::single(*address).ok().map(Fix::Private)
            }
            (Host::Name(_), _) => None,
            (typed @ Host::Address(_), _) => grant(typed, port),
        },
        NetworkReason::NoSni => host?.name().cloned().map(Fix::NoSni),
        NetworkReason::Connections { limit } => limit.checked_mul(2).map(Fix::Connections),
        _ => None,
    }
}

fn grant(host: Host, port: Option<u16>) -> Option<Fix> {
    let local = match &host {
        Host::Name(name) => name.is_localhost(),
        Host::Address(_) => is_own_loopback(&host),
    };
    if local {
        return port.map(Fix::Local);
    }
    // Somebody who wants the machine's credentials inside has to think of it: no message should talk a person or a
    // model into it.
    if is_metadata(&host) {
        return None;
    }
    let rule = HostRule::of(host, port);
    rule.grantable().ok()?;
    Some(Fix::Allow(rule))
}

impl Fix {
    /// Who only looked a name up did not say which port it wants: the flag may not be the one that helps.
    fn without_port(&self) -> Option<String> {
        let Fix::Allow(rule) = self else { return None };
        rule.without_port().map(|ports| format!("; that {ports}"))
    }

    fn flag(&self) -> String {
        match self {
            // Brackets and stars mean something to a shell.
            Fix::Allow(rule) => format!("--allow-host {}", shell(&rule.to_string())),
            Fix::Private(range) => format!("--allow-private {range}"),
            Fix::NoSni(name) => format!("--allow-no-sni {name}"),
            Fix::Local(port) => format!("--allow-local {port}"),
            Fix::Connections(limit) => format!("--connections {limit}"),
        }
    }

    fn toml(&self) -> TomlRule {
        let (section, key, value) = match self {
            Fix::Allow(rule) => ("network", "allow", format!("[\"{rule}\"]")),
            Fix::Private(range) => ("network", "private", format!("[\"{range}\"]")),
            Fix::NoSni(name) => ("network", "no_sni", format!("[\"{name}\"]")),
            Fix::Local(port) => ("network", "local", format!("[{port}]")),
            Fix::Connections(limit) => ("limits", "connections", limit.to_string()),
        };
        TomlRule { section, key, value }
    }
}

fn rule(reason: &NetworkReason) -> String {
    match reason {
        NetworkReason::Off => "network.mode",
        NetworkReason::NotGranted | NetworkReason::Port { .. } => "network.allow",
        NetworkReason::OwnLoopback => "network.local",
        NetworkReason::Denied { rule } => return format!("network.deny {rule}"),
        NetworkReason::Address { .. } => "network.private",
        NetworkReason::NoSni => "network.no_sni",
        NetworkReason::Http { .. } | NetworkReason::NotHttp => "network.http",
        NetworkReason::Connections { .. } => "limits.connections",
        _ => "network",
    }
    .to_owned()
}

/// The middle of a sentence: why it was refused.
fn why(reason: &NetworkReason) -> String {
    match reason {
        NetworkReason::Off => "the sandbox has no network".to_owned(),
        NetworkReason::NotGranted => "no rule allows this host".to_owned(),
        NetworkReason::OwnLoopback => {
            "the sandbox's loopback is its own, where nothing listens on that port; if a program of the host was meant".to_owned()
        }
        NetworkReason::Denied { rule } => format!("`network.deny` has `{}`", shown(rule)),
        NetworkReason::Port { granted } => {
            let ports: Vec<String> = granted.iter().map(u16::to_string).collect();
            format!("the host is allowed only on port {}", ports.join(" or "))
        }
        NetworkReason::Address { address, class: AddressClass::Own } => {
            format!("{address} is this machine's own")
        }
        NetworkReason::Address { address, class } => {
            format!("{address} is {} {class} address{}", class.article(), carried(*address))
        }
        NetworkReason::NoSni => "the TLS handshake does not say which server it wants".to_owned(),
        NetworkReason::Sni { found } => {
            format!("the TLS handshake asks for another server, `{}`", shown(found))
        }
        NetworkReason::HostHeader { found } => format!("the request is for another host, `{}`", shown(found)),
        NetworkReason::Http { method, path } => {
            format!("no `network.http` rule of this host allows {} {}", shown(method), shown(path))
        }
        NetworkReason::BadName { why } => shown_long(why),
        NetworkReason::Malformed { why } => format!("the HTTP request is malformed: {}", shown_long(why)),
        NetworkReason::Udp => "UDP is not carried, apart from the sandbox's own DNS".to_owned(),
        NetworkReason::Connections { limit } => format!("{limit} connections are open, the most at one time"),
        NetworkReason::Names { limit } => {
            format!("{limit} different names were asked for, the most there can be")
        }
        NetworkReason::NotHttp => "the host has secrets or HTTP rules, and this is not HTTP".to_owned(),
        NetworkReason::Unresolved => "the name has no address".to_owned(),
        NetworkReason::Certificate { why } => {
            format!("the server's certificate does not hold: {}", shown_long(why))
        }
        NetworkReason::EgressGone => "the process that carries the network has ended".to_owned(),
    }
}

/// The end of a sentence, where no flag helps: what to do.
fn advice(host: &str, port: Option<u16>, reason: &NetworkReason) -> Option<&'static str> {
    if Host::parse(host).is_ok_and(|host| is_metadata(&host)) {
        return Some("a machine gets its credentials there, and only a rule for this very address opens it");
    }
    let open_to_nobody =
        matches!(reason, NetworkReason::Off | NetworkReason::NotGranted | NetworkReason::Port { .. });
    if open_to_nobody && Host::parse(host).is_ok_and(|host| is_loopback(&host)) {
        return Some(
            "`--allow-local PORT` opens that port of 127.0.0.1 and ::1 only, connect to one of those",
        );
    }
    Some(match reason {
        NetworkReason::Off if port == Some(53) => {
            "grant what the command needs by name, with `--allow-host NAME`, and names are answered too"
        }
        NetworkReason::Off
        | NetworkReason::NotGranted
        | NetworkReason::OwnLoopback
        | NetworkReason::Port { .. } => "nothing can be connected to there",
        NetworkReason::Denied { .. } => {
            "that wins over every other rule, take it out of that list to allow it"
        }
        NetworkReason::Address { class: AddressClass::Own, .. } => {
            "no name may lead there, `--allow-local PORT` opens a port of 127.0.0.1, and a rule for the very address \
             opens it"
        }
        NetworkReason::Address { .. } => "no name may lead there",
        NetworkReason::NoSni => "connect by a name that has a rule",
        NetworkReason::Sni { .. } | NetworkReason::HostHeader { .. } => {
            "connect to that host by its own name, with a rule for it"
        }
        NetworkReason::Http { .. } => "add a [[network.http]] rule with this method and path to allow it",
        NetworkReason::Malformed { .. } => {
            "servers read such a request in different ways, send it as the standard says"
        }
        NetworkReason::Udp => "use TCP",
        NetworkReason::Connections { .. } => "raise limits.connections",
        NetworkReason::Names { .. } => "use fewer names in one run",
        NetworkReason::NotHttp => "connect with TLS or HTTP, or take the secret or the rule away",
        NetworkReason::Unresolved => "check the name, and the resolver of this machine",
        NetworkReason::Certificate { .. } => {
            "if the server is the right one, put its authority where SSL_CERT_FILE names it"
        }
        NetworkReason::EgressGone => "start the command again, or make the session again",
        NetworkReason::BadName { .. } => return None,
    })
}

fn is_loopback(host: &Host) -> bool {
    matches!(host, Host::Address(address) if address_class(*address) == AddressClass::Loopback)
}

fn is_metadata(host: &Host) -> bool {
    matches!(host, Host::Address(address) if address_class(*address) == AddressClass::Metadata)
}

/// An address that reads like another one says what it carries.
fn carried(address: IpAddr) -> &'static str {
    match address {
        IpAddr::V6(address) if address.segments()[..2] == [0x64, 0xff9b] => ", through a NAT64 translator",
        _ => "",
    }
}

fn shown_long(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}
