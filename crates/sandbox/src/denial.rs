//! A denial is data: what was blocked, by which rule, and what would allow it.

use ringfence_linux::read_kernel_file;
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
pub(crate) struct Denials {
    all: Vec<Denial>,
    /// In a session: guard, and what was blocked since it was last asked for, by the shim above whoever tried.
    guard: Option<i32>,
    caller: Option<u32>,
    fresh: Vec<(Option<i32>, Denial)>,
}

impl Denials {
    /// For a session with this guard, whose commands are told apart.
    pub(crate) fn of_session(guard: i32) -> Self {
        Self { guard: Some(guard), ..Self::default() }
    }

    /// Who is being answered, by the id that it has out here.
    pub(crate) fn answer(&mut self, caller: Option<u32>) {
        self.caller = caller;
    }

    /// In a session: the shim above this process, by the id that it has inside.
    pub(crate) fn shim_above(&self, process: u32) -> Option<i32> {
        self.guard.and_then(|guard| child_of(guard, process))
    }

    /// The same of who is being answered.
    pub(crate) fn caller_shim(&self) -> Option<i32> {
        self.caller.and_then(|caller| self.shim_above(caller))
    }

    /// What is new since the last time.
    pub(crate) fn take_fresh(&mut self) -> Vec<(Option<i32>, Denial)> {
        std::mem::take(&mut self.fresh)
    }

    pub(crate) fn to_vec(&self) -> Vec<Denial> {
        self.all.clone()
    }

    pub(crate) fn add(&mut self, denial: Denial) {
        if let Some(guard) = self.guard
            && self.fresh.len() < MOST
        {
            // Now, while whoever tried waits for its answer.
            let shim = self.caller.and_then(|caller| child_of(guard, caller));
            self.fresh.push((shim, denial.clone()));
        }
        let same = |had: &&mut Denial| {
            had.kind == denial.kind
                && had.what == denial.what
                && had.rule == denial.rule
                && had.process == denial.process
                // That rule has many reasons: a datagram is not the same as another server name.
                && (had.rule != "network" || had.remedy == denial.remedy)
        };
        if let Some(had) = self.all.iter_mut().find(same) {
            had.count += denial.count;
            had.inferred &= denial.inferred;
        } else if self.all.len() < MOST {
            self.all.push(denial);
        }
    }

    pub(crate) fn has_limit(&self, clause: Clause) -> bool {
        self.all.iter().any(|had| had.kind == DenialKind::Limit && had.what == clause.as_str())
    }

    pub(crate) fn into_vec(self) -> Vec<Denial> {
        self.all
    }
}

/// The child of guard that this process descends from, by the id that it has inside.
fn child_of(guard: i32, process: u32) -> Option<i32> {
    /// No tree of processes is that deep; a loop would be a bug of the kernel's.
    const DEEPEST: usize = 100_000;
    let mut pid = process;
    for _ in 0..DEEPEST {
        let status = read_kernel_file(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let parent: u32 = field("PPid:")?.trim().parse().ok()?;
        if i32::try_from(parent) == Ok(guard) {
            return field("NSpid:")?.split_whitespace().last()?.parse().ok();
        }
        if parent <= 1 {
            return None;
        }
        pid = parent;
    }
    None
}
