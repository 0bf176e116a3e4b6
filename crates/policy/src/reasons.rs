//! The words for a denial: which rule blocked it, and what would allow it.
//!
//! Pure text. The flags are those of `ringfence run`; the rule is also given as a layer, so that
//! `ringfence denials --allow` can write it to a file.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::bound::{Bound, Cpus};
use crate::layer::Layer;
use crate::model::Clause;
use crate::network::{NetworkReason, network_layer, network_remedy};
use crate::protected::protected;
use crate::units::{ByteSize, Span, shown};

/// What was blocked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Blocked {
    Syscall {
        name: String,
    },
    /// A host path that the policy does not show.
    FileRead {
        path: PathBuf,
    },
    /// A path that is not writable.
    FileWrite {
        path: PathBuf,
    },
    /// A path that `filesystem.hide` covers.
    FileHidden {
        path: PathBuf,
    },
    /// A path on the list of secrets.
    Secret {
        path: PathBuf,
        reason: String,
    },
    /// A unix socket that a program of the host listens on.
    HostSocket {
        path: PathBuf,
    },
    /// A protected name of the workspace.
    Protected {
        name: String,
    },
    /// A connection, a lookup or a request.
    Network {
        /// The name or address as it was asked for.
        host: String,
        port: Option<u16>,
        /// The program that asked, where it is known.
        process: Option<String>,
        reason: NetworkReason,
    },
    /// A limit that was reached, with its value as the policy prints it.
    Limit {
        clause: Clause,
        value: String,
    },
}

/// A rule in a policy file. `section` is "" for a key at the top.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TomlRule {
    pub section: &'static str,
    pub key: &'static str,
    /// As it is written in TOML.
    pub value: String,
}

/// Which rule blocked it, and what would allow it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// The clause: `syscalls`, `filesystem.read`.
    pub rule: String,
    /// The flag of `ringfence run` that would allow it, quoted for a shell.
    pub flag: Option<String>,
    pub toml: Option<TomlRule>,
    /// One sentence for people and models: what was blocked and what to do.
    pub sentence: String,
}

/// The rule that blocked this, and what would allow it.
pub fn remedy(blocked: &Blocked) -> Remedy {
    match blocked {
        Blocked::Syscall { name } => Remedy {
            rule: Clause::Syscalls.to_string(),
            flag: Some(format!("--allow-syscall {}", shell(name))),
            toml: list("syscalls", "allow", name),
            sentence: format!(
                "the system call `{name}` is closed by the syscall policy, add `--allow-syscall {name}` to open it",
                name = shown(name)
            ),
        },
        Blocked::FileRead { path } => {
            file(Clause::FilesystemRead, "read", "--read", path, "is not visible in the sandbox")
        }
        Blocked::FileWrite { path } => {
            file(Clause::FilesystemWrite, "write", "--write", path, "is not writable in the sandbox")
        }
        Blocked::FileHidden { path } => Remedy {
            rule: Clause::FilesystemHide.to_string(),
            flag: None,
            toml: None,
            sentence: format!(
                "`{}` is hidden by `filesystem.hide`, which wins over every other rule; take it out of that list \
                 to show it",
                printed(path)
            ),
        },
        Blocked::HostSocket { path } => Remedy {
            rule: Clause::FilesystemHost.to_string(),
            flag: None,
            toml: None,
            sentence: format!(
                "`{}` is a socket of a program outside the sandbox, and only sockets that were made inside can be \
                 connected to; start that program inside too",
                printed(path)
            ),
        },
        Blocked::Secret { path, reason } => {
            let base = file(Clause::FilesystemHost, "read", "--read", path, "is hidden");
            let sentence = format!(
                "`{}` is hidden because it holds {reason}; add `{}` only if the command needs it",
                printed(path),
                base.flag.as_deref().unwrap_or_default()
            );
            Remedy { sentence, ..base }
        }
        Blocked::Protected { name } if !is_usual(name) => Remedy {
            rule: Clause::FilesystemProtected.to_string(),
            flag: None,
            toml: None,
            sentence: format!(
                "`{}` in the workspace is protected by the policy, take it out of `protect` to let the command \
                 change it",
                shown(name)
            ),
        },
        Blocked::Protected { name } => Remedy {
            rule: Clause::FilesystemProtected.to_string(),
            flag: Some(format!("--unprotect {}", shell(name))),
            toml: list("filesystem", "unprotect", name),
            sentence: format!(
                "`{name}` in the workspace is protected because a program on the host acts on it, add \
                 `--unprotect {name}` to let the command change it",
                name = shown(name)
            ),
        },
        Blocked::Network { host, port, reason, .. } => network_remedy(host, *port, reason),
        Blocked::Limit { clause, value } => limit(*clause, value),
    }
}

/// One of the names that are protected unless they are lifted, not one that a policy adds.
fn is_usual(name: &str) -> bool {
    protected().iter().any(|entry| entry.name == name)
}

/// The layer that would allow this, for a policy file; nothing where only removing a rule would.
pub fn rule_layer(blocked: &Blocked) -> Option<Layer> {
    let mut layer = Layer::default();
    match blocked {
        Blocked::Syscall { name } => layer.syscalls.allow.push(name.clone()),
        Blocked::FileRead { path } | Blocked::Secret { path, .. } => layer.filesystem.read.push(path.clone()),
        Blocked::FileWrite { path } => layer.filesystem.write.push(path.clone()),
        Blocked::FileHidden { .. } | Blocked::HostSocket { .. } => return None,
        Blocked::Protected { name } if !is_usual(name) => return None,
        Blocked::Protected { name } => layer.filesystem.unprotect.push(name.clone()),
        Blocked::Network { host, port, reason, .. } => return network_layer(host, *port, reason),
        Blocked::Limit { clause, value } => {
            let more = Larger::of(*clause, value)?;
            let limits = &mut layer.limits;
            match (clause, more) {
                (Clause::LimitCpus, Larger::Cpus(n)) => limits.cpus = Some(Bound::At(Cpus(n))),
                (Clause::LimitMemory, Larger::Bytes(n)) => limits.memory = Some(Bound::At(n)),
                (Clause::LimitProcesses, Larger::Count(n)) => limits.processes = Some(Bound::At(n)),
                (Clause::LimitDisk, Larger::Bytes(n)) => limits.disk = Some(Bound::At(n)),
                (Clause::LimitOpenFiles, Larger::Count(n)) => limits.open_files = Some(Bound::At(n)),
                (Clause::LimitOutput, Larger::Bytes(n)) => limits.output = Some(Bound::At(n)),
                (Clause::LimitWallTime, Larger::Time(n)) => limits.wall_time = Some(Bound::At(n)),
                (Clause::LimitConnections, Larger::Count(n)) => limits.connections = Some(Bound::At(n)),
                (Clause::LimitBandwidth, Larger::Bytes(n)) => limits.bandwidth = Some(Bound::At(n)),
                (Clause::FilesystemTmp, Larger::Bytes(n)) => layer.filesystem.tmp = Some(n),
                _ => return None,
            }
        }
    }
    Some(layer)
}

fn file(clause: Clause, key: &'static str, flag: &str, path: &Path, what: &str) -> Remedy {
    let flag = format!("{flag} {}", shell(&path.to_string_lossy()));
    Remedy {
        rule: clause.to_string(),
        sentence: format!("`{}` {what}, add `{flag}` to allow it", printed(path)),
        flag: Some(flag),
        toml: list("filesystem", key, &path.to_string_lossy()),
    }
}

fn limit(clause: Clause, value: &str) -> Remedy {
    let flag = match clause {
        Clause::LimitCpus => Some("--cpus"),
        Clause::LimitMemory => Some("--memory"),
        Clause::LimitProcesses => Some("--pids"),
        Clause::LimitDisk => Some("--disk"),
        Clause::LimitOutput => Some("--output-limit"),
        Clause::LimitWallTime => Some("--timeout"),
        Clause::LimitConnections => Some("--connections"),
        Clause::LimitBandwidth => Some("--bandwidth"),
        _ => None,
    };
    let more = Larger::of(clause, value);
    let (section, key) = clause.as_str().split_once('.').unwrap_or(("", clause.as_str()));
    let toml = more.as_ref().map(|more| TomlRule { section, key, value: more.toml() });
    let flag = flag.zip(more.as_ref()).map(|(flag, more)| format!("{flag} {}", more.text()));
    let next = match (&flag, &toml) {
        (Some(flag), _) => format!(", raise it with `{flag}`"),
        (None, Some(rule)) => format!(", raise it with `{key} = {}` under [{section}]", rule.value),
        (None, None) => String::new(),
    };
    Remedy {
        rule: clause.to_string(),
        flag,
        toml,
        sentence: format!("the limit `{clause}` of {} was reached{next}", shown(value)),
    }
}

/// Twice a limit: the next thing to try.
enum Larger {
    Cpus(f64),
    Count(u32),
    Bytes(ByteSize),
    Time(Span),
}

impl Larger {
    fn of(clause: Clause, value: &str) -> Option<Self> {
        Some(match clause {
            Clause::LimitCpus => {
                let cpus = value.parse::<f64>().ok()?;
                Larger::Cpus((cpus.is_finite() && cpus > 0.0).then_some(cpus * 2.0)?)
            }
            Clause::LimitProcesses | Clause::LimitOpenFiles | Clause::LimitConnections => {
                Larger::Count(value.parse::<u32>().ok()?.checked_mul(2)?)
            }
            Clause::LimitMemory
            | Clause::LimitDisk
            | Clause::LimitOutput
            | Clause::LimitBandwidth
            | Clause::FilesystemTmp => {
                Larger::Bytes(ByteSize(value.parse::<ByteSize>().ok()?.bytes().checked_mul(2)?))
            }
            Clause::LimitWallTime => {
                Larger::Time(Span(value.parse::<Span>().ok()?.duration().checked_mul(2)?))
            }
            _ => return None,
        })
    }

    fn text(&self) -> String {
        match self {
            Larger::Cpus(n) => n.to_string(),
            Larger::Count(n) => n.to_string(),
            Larger::Bytes(n) => n.to_string(),
            Larger::Time(n) => n.to_string(),
        }
    }

    fn toml(&self) -> String {
        match self {
            Larger::Cpus(_) | Larger::Count(_) => self.text(),
            Larger::Bytes(_) | Larger::Time(_) => format!("\"{}\"", self.text()),
        }
    }
}

fn list(section: &'static str, key: &'static str, item: &str) -> Option<TomlRule> {
    Some(TomlRule { section, key, value: format!("[{}]", toml::Value::from(item)) })
}

fn printed(path: &Path) -> String {
    shown(&path.to_string_lossy())
}

/// A word as a POSIX shell takes it back.
pub(crate) fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProfileName, profile};

    /// Every reason, and for some what depends on the host.
    fn refusals() -> Vec<Blocked> {
        let address = |text: &str| {
            let address = text.parse().unwrap();
            NetworkReason::Address { address, class: crate::address_class(address) }
        };
        let denied = NetworkReason::Denied { rule: "*.example.org of @trackers".into() };
        let http = NetworkReason::Http { method: "POST".into(), path: "/admin".into() };
        let bad = crate::HostName::parse("0x7f.1").unwrap_err().to_string();
        let api = "api.example.org";
        let rows = [
            (api, Some(443), NetworkReason::Off),
            ("192.0.2.53", Some(53), NetworkReason::Off),
            (api, None, NetworkReason::NotGranted),
            ("192.0.2.1", Some(22), NetworkReason::NotGranted),
            ("2001:db8::1", Some(22), NetworkReason::NotGranted),
            ("127.0.0.1", Some(5432), NetworkReason::NotGranted),
            ("localhost", Some(5432), NetworkReason::NotGranted),
            ("127.0.0.2", Some(5432), NetworkReason::NotGranted),
            ("169.254.169.254", Some(80), NetworkReason::NotGranted),
            (api, Some(443), denied),
            (api, Some(22), NetworkReason::Port { granted: vec![80, 443] }),
            (api, Some(443), address("10.0.0.5")),
            (api, Some(443), address("fd00::5")),
            (api, Some(443), address("64:ff9b::10.0.0.5")),
            (api, Some(443), address("127.0.0.1")),
            (api, Some(443), address("169.254.169.254")),
            (api, Some(443), address("::")),
            ("10.0.0.5", Some(443), address("10.0.0.5")),
            (api, Some(443), NetworkReason::NoSni),
            (api, Some(443), NetworkReason::Sni { found: "other.example\n".into() }),
            (api, Some(80), NetworkReason::HostHeader { found: "other.example".into() }),
            (api, Some(443), http),
            ("0x7f.1", Some(80), NetworkReason::BadName { why: bad }),
            (api, Some(80), NetworkReason::Malformed { why: "it has more than one\u{1b} Host".into() }),
            (api, Some(53), NetworkReason::Udp),
            (api, Some(443), NetworkReason::Connections { limit: 64 }),
            (api, None, NetworkReason::Names { limit: 4096 }),
            (api, Some(443), NetworkReason::NotHttp),
            (api, None, NetworkReason::Unresolved),
            (api, Some(443), NetworkReason::Certificate { why: "it has expired".into() }),
            (api, Some(443), NetworkReason::EgressGone),
        ];
        rows.map(|(host, port, reason)| Blocked::Network { host: host.into(), port, process: None, reason })
            .into()
    }

    fn all() -> Vec<Blocked> {
        let mut all = vec![
            Blocked::Syscall { name: "ptrace".into() },
            Blocked::FileRead { path: "/srv/a b".into() },
            Blocked::FileWrite { path: "/srv/it's".into() },
            Blocked::FileHidden { path: "/srv/keys".into() },
            Blocked::HostSocket { path: "/srv/db.sock".into() },
            Blocked::Secret { path: "/home/u/.netrc".into(), reason: "passwords by host name".into() },
            Blocked::Protected { name: ".git/hooks".into() },
        ];
        all.extend(refusals());
        let limits = [
            (Clause::LimitCpus, "1"),
            (Clause::LimitMemory, "1G"),
            (Clause::LimitProcesses, "128"),
            (Clause::LimitDisk, "256M"),
            (Clause::LimitOpenFiles, "1024"),
            (Clause::LimitOutput, "1M"),
            (Clause::LimitWallTime, "5m"),
            (Clause::LimitConnections, "64"),
            (Clause::LimitBandwidth, "1M"),
            (Clause::FilesystemTmp, "64M"),
        ];
        all.extend(limits.map(|(clause, value)| Blocked::Limit { clause, value: value.into() }));
        all
    }

    #[test]
    fn sentences() {
        insta::assert_json_snapshot!("remedies", all().iter().map(remedy).collect::<Vec<_>>());
    }

    #[test]
    fn the_rule_in_words_is_the_rule_as_a_layer() {
        for blocked in all() {
            let remedy = remedy(&blocked);
            let Some(rule) = remedy.toml else {
                assert_eq!(rule_layer(&blocked), None);
                continue;
            };
            let header =
                if rule.section.is_empty() { String::new() } else { format!("[{}]\n", rule.section) };
            let layer = Layer::from_toml(&format!("{header}{} = {}", rule.key, rule.value)).unwrap();
            assert_eq!(Some(&layer), rule_layer(&blocked).as_ref());
            // What allows something is by definition a loosening.
            let mut before = profile(ProfileName::Restrictive);
            before.limits.connections = Some(1);
            before.limits.bandwidth = Some(ByteSize(1));
            assert_eq!(crate::loosens(&before, &layer).len(), 1, "{blocked:?}");
        }
    }

    #[test]
    fn a_value_that_can_not_be_read_gives_no_advice() {
        let remedy = remedy(&Blocked::Limit { clause: Clause::LimitMemory, value: "x".into() });
        assert_eq!((remedy.flag, remedy.toml), (None, None));
    }
}
