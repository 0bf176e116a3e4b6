//! What can be checked only when all layers are there: one layer's rule may stand on another layer's.

use crate::merge::MergeError;
use crate::model::{NetworkMode, Policy};
use crate::nearest::nearest;
use crate::network::{HostPattern, HostRule};
use crate::origin::{Origin, Origins};
use crate::validate::LayerError;

pub(crate) fn check_whole(policy: &Policy, origins: &Origins) -> Result<(), MergeError> {
    for (key, rules) in [("network.allow", &policy.network.allow), ("network.deny", &policy.network.deny)] {
        for rule in rules {
            group(policy, key, rule)
                .map_err(|reason| error(origins.of_item(key, &rule.to_string()), reason))?;
        }
    }
    for secret in &policy.network.secrets {
        let origin = origins.of_item("network.secrets", &secret.to_string());
        if policy.environment.set.contains_key(&secret.name) {
            let problem = format!(
                "`{0}` is a secret that stays outside, and `environment.set` gives `{0}` a value inside; take one of \
                 them out",
                secret.name
            );
            return Err(error(origin, LayerError::value("network.secrets", problem)));
        }
        if !network_matters(policy, origins) {
            continue;
        }
        if let Some(host) = secret.hosts.iter().find(|host| !policy.network.grants(host)) {
            let problem = format!(
                "secret `{}` is for `{host}`, which is not allowed; add --allow-host {host} (network.allow)",
                secret.name
            );
            return Err(error(origin, LayerError::value("network.secrets", problem)));
        }
    }
    Ok(())
}

fn error(origin: &Origin, reason: LayerError) -> MergeError {
    MergeError { origin: origin.clone(), reason }
}

/// A group that nobody defined: in `deny` it would close nothing, and nobody would notice.
fn group(policy: &Policy, key: &str, rule: &HostRule) -> Result<(), LayerError> {
    let groups = &policy.network.groups;
    let HostPattern::Group(name) = &rule.pattern else { return Ok(()) };
    if groups.contains_key(name) {
        return Ok(());
    }
    let hint = match nearest(name, groups.keys().map(String::as_str)) {
        Some(near) => format!("did you mean `@{near}`?"),
        None => "write it under [network.groups]".to_owned(),
    };
    Err(LayerError::value(key, format!("there is no group `{rule}`, {hint}")))
}

/// `open` grants every name, and who writes `off` wants no network, whatever else the files say. A network that is off
/// only because nobody has said otherwise is a rule forgotten.
fn network_matters(policy: &Policy, origins: &Origins) -> bool {
    match policy.network.mode {
        NetworkMode::Open => false,
        NetworkMode::Allow => true,
        NetworkMode::Off => matches!(origins.of("network.mode"), Origin::Profile(_)),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Layer, Merged, Origin, ProfileName, merge};

    const SECRET: &str =
        "[[network.secrets]]\nname = 'TOKEN'\nfrom = 'env:TOKEN'\nhosts = ['api.example.com']\n";

    fn merged(layers: &[&str]) -> Result<Merged, String> {
        let layer =
            |(i, text): (usize, &&str)| (Origin::flag(format!("layer {i}")), Layer::from_toml(text).unwrap());
        let layers: Vec<_> = layers.iter().enumerate().map(layer).collect();
        merge(ProfileName::Moderate, &layers).map_err(|error| error.to_string())
    }

    fn wrong(layers: &[&str]) -> String {
        merged(layers).unwrap_err()
    }

    #[test]
    fn a_group_must_be_there() {
        let group = "[network.groups]\nwork = ['a.example']";
        assert!(merged(&["[network]\nallow = ['@work']", group]).is_ok(), "in any order");
        insta::assert_snapshot!(wrong(&[group, "[network]\nallow = ['@wrok']"]), @"layer 1: `network.allow`: there is no group `@wrok`, did you mean `@work`?");
        insta::assert_snapshot!(wrong(&["[network]\ndeny = ['@trackers']"]), @"layer 0: `network.deny`: there is no group `@trackers`, write it under [network.groups]");
    }

    #[test]
    fn a_secret_needs_its_hosts_granted() {
        insta::assert_snapshot!(wrong(&[SECRET]), @"layer 0: `network.secrets`: secret `TOKEN` is for `api.example.com`, which is not allowed; add --allow-host api.example.com (network.allow)");
        insta::assert_snapshot!(wrong(&["[network]\nallow = ['b.example']", SECRET]), @"layer 1: `network.secrets`: secret `TOKEN` is for `api.example.com`, which is not allowed; add --allow-host api.example.com (network.allow)");
        for fine in [
            "[network]\nallow = ['api.example.com:443']",
            "[network]\nallow = ['*.example.com']",
            "[network]\nallow = ['@g']\ngroups = { g = ['*.com'] }",
            "[network]\nmode = 'open'",
            "[network]\nmode = 'off'",
        ] {
            assert!(merged(&[SECRET, fine]).is_ok(), "{fine}");
        }
        let port = SECRET.replace("api.example.com", "api.example.com:8443");
        assert!(
            wrong(&[&port, "[network]\nallow = ['api.example.com']"])
                .contains("--allow-host api.example.com:8443")
        );
        let below = SECRET.replace("api.example.com", "*.example.com");
        assert!(
            wrong(&[&below, "[network]\nallow = ['api.example.com']"]).contains("--allow-host *.example.com")
        );
    }

    #[test]
    fn a_secret_is_not_set_or_passed_as_well() {
        let open = "[network]\nmode = 'open'";
        insta::assert_snapshot!(wrong(&[open, SECRET, "[environment.set]\nTOKEN = 'x'"]), @"layer 1: `network.secrets`: `TOKEN` is a secret that stays outside, and `environment.set` gives `TOKEN` a value inside; take one of them out");
        let other = SECRET.replace("name = 'TOKEN'", "name = 'INSIDE'");
        let policy = merged(&[open, "[environment]\npass = ['TOK*', 'INSIDE']", &other]).unwrap().policy;
        assert!(policy.environment.passes("TOKENS"));
        assert!(!policy.environment.passes("TOKEN"), "the source stays outside");
        assert!(!policy.environment.passes("INSIDE"), "the placeholder has this name");
    }
}
