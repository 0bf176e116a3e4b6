//! Is a client hello for the host that was admitted?

use ringfence_policy::{Host, HostName, NetworkReason};

use crate::admission::Admission;
use crate::sniff::Hello;

/// The outer server name must be the admitted name. An address has no name to hold it to, but a name that a rule denies
/// is denied there too.
pub(super) fn judge_hello(admission: &Admission, hello: &Hello) -> Result<(), NetworkReason> {
    let rules = admission.gate().rules();
    let found = match &hello.server_name {
        None => None,
        Some(text) => Some(read(text)?),
    };
    match (admission.host(), found) {
        (Host::Name(name), Some(Host::Name(found))) if *name == found => Ok(()),
        (Host::Name(_), Some(found)) => Err(NetworkReason::Sni { found: found.to_string() }),
        (Host::Name(name), None) if rules.needs_sni(name) => Err(NetworkReason::NoSni),
        (Host::Name(_), None) => Ok(()),
        (Host::Address(_), None) => Ok(()),
        // Its requests are looked at, so that it is reached by its own name.
        (Host::Address(_), Some(Host::Name(found))) if rules.terminates(&found) => {
            Err(NetworkReason::Sni { found: found.to_string() })
        }
        (Host::Address(_), Some(found)) => match rules.decide(&found, admission.port()) {
            Err(reason @ NetworkReason::Denied { .. }) => Err(reason),
            _ => Ok(()),
        },
    }
}

/// Some clients put an address there, against the letter of RFC 6066.
fn read(text: &str) -> Result<Host, NetworkReason> {
    match HostName::parse_ascii(text) {
        Ok(name) => Ok(Host::Name(name)),
        Err(_) => match text.parse() {
            Ok(Host::Address(address)) => Ok(Host::Address(address)),
            _ => Err(NetworkReason::Sni { found: text.chars().take(253).collect() }),
        },
    }
}
