//! Where a version came from: kept for `update` and `outdated`. Fetching is the caller's work.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind", deny_unknown_fields)]
pub enum SkillOrigin {
    /// Made or edited in the library itself.
    Here,
    Directory {
        path: String,
    },
    Archive {
        path: String,
    },
    Git {
        url: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subdirectory: Option<String>,
        /// A branch or tag to follow; the default branch without one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<String>,
        commit: String,
    },
}

/// Longer is no place that anybody could go to.
const MOST_BYTES: usize = 16 << 10;

impl SkillOrigin {
    /// As it is recorded, for everybody who may read the library: without the password of a URL, and of a bounded
    /// length. Nothing if it is longer.
    pub(super) fn recorded(&self) -> Option<Self> {
        let mut recorded = self.clone();
        if let Self::Git { url, .. } = &mut recorded {
            *url = without_password(url);
        }
        (recorded.to_string().len() <= MOST_BYTES).then_some(recorded)
    }
}

/// `https://name:token@host` is `https://host`; the name of `ssh://git@host` is part of the address.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let Some((user, host)) = authority.rsplit_once('@') else { return url.to_owned() };
    match user.split(':').next() {
        Some(name) if scheme.ends_with("ssh") => format!("{scheme}://{name}@{host}{path}"),
        _ => format!("{scheme}://{host}{path}"),
    }
}

impl fmt::Display for SkillOrigin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here => formatter.write_str("here"),
            Self::Directory { path } | Self::Archive { path } => formatter.write_str(path),
            Self::Git { url, subdirectory, commit, .. } => {
                write!(formatter, "{url}")?;
                if let Some(subdirectory) = subdirectory {
                    write!(formatter, "#{subdirectory}")?;
                }
                write!(formatter, "@{commit}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_recorded() {
        for (url, recorded) in [
            ("https://x:token@host/a@b.git", "https://host/a@b.git"),
            ("https://token@host:8443/a", "https://host:8443/a"),
            ("https://host/a@b", "https://host/a@b"),
            ("ssh://git:secret@host/a", "ssh://git@host/a"),
            ("git@host:a/b.git", "git@host:a/b.git"),
        ] {
            assert_eq!(without_password(url), recorded);
        }
        assert_eq!(SkillOrigin::Archive { path: "x".repeat(20_000) }.recorded(), None);
    }
}
