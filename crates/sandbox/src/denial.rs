//! A denial is data: what was blocked, by which rule, and what would allow it.

use ringfence_policy::{Blocked, Clause, remedy};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DenialKind {
    Syscall,
    File,
    Protected,
    Limit,
    Network,
}

/// One blocked attempt, counted if it was repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    pub kind: DenialKind,
    /// The call, path or limit.
    pub what: String,
    /// The program that tried, where that is seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// The clause that blocked it, and its value.
    pub rule: String,
    /// One sentence: what to do if this was wanted.
    pub remedy: String,
    /// The flag of `ringfence run` that would allow it, if one does.
    pub flag: Option<String>,
    /// Section, key and value of the policy file that would allow it.
    pub setting: Option<(String, String, String)>,
    pub count: u64,
    /// Guessed from the command's output and the policy, not seen.
    pub inferred: bool,
}

impl Denial {
    pub fn new(kind: DenialKind, blocked: &Blocked) -> Self {
        let remedy = remedy(blocked);
        let what = match blocked {
            Blocked::Syscall { name } | Blocked::Protected { name } => name.clone(),
            Blocked::FileRead { path }
            | Blocked::FileWrite { path }
            | Blocked::FileHidden { path }
            | Blocked::HostSocket { path }
            | Blocked::Secret { path, .. } => path.display().to_string(),
            Blocked::Network { host, port: Some(port), .. } if host.contains(':') => {
                format!("[{host}]:{port}")
            }
            Blocked::Network { host, port, .. } => port.map_or(host.clone(), |port| format!("{host}:{port}")),
            Blocked::Limit { clause, .. } => clause.as_str().to_string(),
        };
        let process = match blocked {
            Blocked::Network { process, .. } => process.clone(),
            _ => None,
        };
        Self {
            kind,
            what,
            process,
            rule: remedy.rule,
            remedy: remedy.sentence,
            flag: remedy.flag,
            setting: remedy.toml.map(|rule| (rule.section.into(), rule.key.into(), rule.value)),
            count: 1,
            inferred: false,
        }
    }

    pub fn inferred(mut self) -> Self {
        self.inferred = true;
        self
    }
}

/// How many different denials of one run are kept: a hostile command can make any number of them up.
const MOST: usize = 256;

/// The denials of one run, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Denials(Vec<Denial>);

impl Denials {
    pub(crate) fn add(&mut self, denial: Denial) {
        let same = |had: &&mut Denial| {
            had.kind == denial.kind
                && had.what == denial.what
                && had.rule == denial.rule
                && had.process == denial.process
                // That rule has many reasons: a datagram is not the same as another server name.
                && (had.rule != "network" || had.remedy == denial.remedy)
        };
        if let Some(had) = self.0.iter_mut().find(same) {
            had.count += denial.count;
            had.inferred &= denial.inferred;
        } else if self.0.len() < MOST {
            self.0.push(denial);
        }
    }

    pub(crate) fn has_limit(&self, clause: Clause) -> bool {
        self.0.iter().any(|had| had.kind == DenialKind::Limit && had.what == clause.as_str())
    }

    pub(crate) fn into_vec(self) -> Vec<Denial> {
        self.0
    }
}
