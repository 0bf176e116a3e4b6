//! The network part of a policy: names, rules, addresses, HTTP rules, secrets, and what they decide.
//!
//! A name is normalised once, when it is parsed, and compared as it is from then on. Whatever does not parse strictly
//! is refused: a resolver, a proxy and a server each have their own idea of what a loose spelling means.

mod address;
mod host;
mod http;
mod metadata;
mod name;
mod path;
mod range;
mod reason;
mod remedy;
mod rule;
mod rule_set;
mod rules;
mod secret;

pub use address::{AddressClass, address_class};
pub use host::{Host, HostError};
pub use http::HttpRule;
pub use name::{HostName, HostNameError};
pub use range::{AddressRange, AddressRangeError};
pub use reason::NetworkReason;
pub(crate) use remedy::{network_layer, network_remedy};
pub(crate) use rule::is_group_name;
pub use rule::{DEFAULT_PORTS, HostPattern, HostRule, HostRuleError};
pub use rules::{Granted, GrantedPorts, NetworkRules};
pub use secret::{SecretRule, SecretRuleError, SecretSource};
