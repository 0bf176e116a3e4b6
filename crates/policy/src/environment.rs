//! Which of the caller's variables a policy passes.

use crate::model::Environment;

impl Environment {
    /// Is this variable of the caller's passed?
    pub fn passes(&self, name: &str) -> bool {
        !self.withhold.contains(name) && self.pass.iter().any(|pattern| covers(pattern, name))
    }
}

/// Does `pattern` pass everything that `other` (a name, or a pattern itself) passes?
pub(crate) fn covers(pattern: &str, other: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => other.strip_suffix('*').unwrap_or(other).starts_with(prefix),
        None => pattern == other,
    }
}

#[cfg(test)]
mod tests {
    use super::covers;
    use crate::{ProfileName, profile};

    #[test]
    fn patterns() {
        assert!(covers("LC_*", "LC_ALL"));
        assert!(covers("LC_*", "LC_*"));
        assert!(covers("LC_*", "LC_A*"));
        assert!(!covers("LC_A*", "LC_*"));
        assert!(!covers("LC_ALL", "LC_ALL*"));
        assert!(!covers("PATH", "PATHS"));
    }

    #[test]
    fn no_profile_passes_a_secret() {
        let secrets = [
            "AWS_SECRET_ACCESS_KEY",
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "CARGO_REGISTRY_TOKEN",
            "HTTP_PROXY",
            "https_proxy",
            "SSH_AUTH_SOCK",
            "GPG_AGENT_INFO",
            "DBUS_SESSION_BUS_ADDRESS",
            "XDG_RUNTIME_DIR",
            "DOCKER_HOST",
            "KUBECONFIG",
            "LD_PRELOAD",
            "BASH_ENV",
            "ENV",
            "PYTHONPATH",
            "NODE_OPTIONS",
            "PIP_INDEX_URL",
            "GOPROXY",
        ];
        for name in ProfileName::ALL {
            let environment = profile(name).environment;
            assert!(environment.passes("PATH") && environment.passes("LC_ALL"));
            for secret in secrets {
                assert!(!environment.passes(secret), "{name} passes {secret}");
            }
        }
    }
}
