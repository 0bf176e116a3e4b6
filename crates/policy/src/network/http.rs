//! What may be asked of a host by HTTP: methods and path prefixes. A host with such rules has its TLS terminated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::name::HostName;
use super::path::{is_below, plain_path};

/// Requests that may pass. A host with several rules takes what any of them takes, one with none takes everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpRule {
    /// The host, by its exact name. The rule itself grants nothing.
    pub host: HostName,
    /// Methods, in upper case; none: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// Path prefixes: "/repos" is /repos and what is below it; none: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}

impl HttpRule {
    /// What the types can't say: the problem, for a message.
    pub(crate) fn problem(&self) -> Option<String> {
        use crate::units::shown;
        let token = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b"-_".contains(&b);
        if let Some(method) = self
            .methods
            .iter()
            .find(|method| method.is_empty() || method.len() > 32 || !method.bytes().all(token))
        {
            return Some(format!("`{}` is not a method, write it in upper case, like GET", shown(method)));
        }
        if self.methods.iter().any(|method| method == "CONNECT") {
            return Some("CONNECT asks for a tunnel, not for a path, and is never let through".to_owned());
        }
        self.paths.iter().find(|path| plain_path(path).as_deref() != Some(path.as_str())).map(|path| {
            format!(
                "`{}` is not a path prefix, write it like /repos/ with nothing encoded, no `..` and no query",
                shown(path)
            )
        })
    }

    /// May this request pass? `path` is as it was sent, up to `?`.
    pub fn allows(&self, method: &str, path: &str) -> bool {
        if !self.methods.is_empty() && !self.methods.iter().any(|known| known == method) {
            return false;
        }
        // A path that can be read in more than one way is below no prefix.
        self.paths.is_empty()
            || plain_path(path).is_some_and(|path| self.paths.iter().any(|prefix| is_below(&path, prefix)))
    }

    /// Does this rule let everything through that `other` does?
    pub(crate) fn covers(&self, other: &HttpRule) -> bool {
        let methods = self.methods.is_empty()
            || (!other.methods.is_empty()
                && other.methods.iter().all(|method| self.methods.contains(method)));
        let paths = self.paths.is_empty()
            || (!other.paths.is_empty()
                && other.paths.iter().all(|path| self.paths.iter().any(|prefix| is_below(path, prefix))));
        self.host == other.host && methods && paths
    }
}

impl std::fmt::Display for HttpRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let any = |list: &[String]| if list.is_empty() { "*".to_owned() } else { list.join(",") };
        write!(f, "{} {} {}", self.host, any(&self.methods), any(&self.paths))
    }
}
