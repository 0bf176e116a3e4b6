//! The level of an action: the highest that any of its facts has, one more where it looks like an attack on a model.

use std::path::Path;

use super::asks::{Asker, Asks, Reach};
use super::kind::{ActionKind, Level};
use crate::model::ProfileName;
use crate::network::{HostPattern, SecretSource};

/// A level, and every reason for it, the weightiest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    pub level: Level,
    /// `high: any public host can be reached`.
    pub reasons: Vec<String>,
}

/// How dangerous is this? The same facts have the same level, and more facts never a lower one.
pub fn judge(kind: ActionKind, asks: &Asks) -> Judgement {
    let (base, why) = kind.base();
    let mut reasons = vec![(base, why.to_owned())];
    for factor in FACTORS {
        reasons.extend((factor.found)(asks).into_iter().map(|what| (factor.level, what)));
    }
    reasons.extend(asks.findings.iter().map(|finding| (finding.level, format!("lint: {}", finding.what))));
    let level = reasons.iter().map(|(level, _)| *level).max().unwrap_or_default();
    let level = match asks.suspicions.is_empty() {
        true => level,
        false => level.raised().max(Level::High),
    };
    reasons.extend(
        asks.suspicions.iter().map(|one| {
            (level, format!("{} looks like an attempt to steer a model: {}", one.place, one.what))
        }),
    );
    reasons.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
    reasons.truncate(MOST_REASONS);
    Judgement {
        level,
        reasons: reasons.into_iter().map(|(level, what)| format!("{level}: {what}")).collect(),
    }
}

/// Who asks for a thousand paths need not read of each.
const MOST_REASONS: usize = 50;

struct Factor {
    level: Level,
    /// One reason for each thing that is asked for.
    found: fn(&Asks) -> Vec<String>,
}

const fn factor(level: Level, found: fn(&Asks) -> Vec<String>) -> Factor {
    Factor { level, found }
}

fn each<T>(items: &[T], reason: impl Fn(&T) -> Option<String>) -> Vec<String> {
    items.iter().filter_map(reason).collect()
}

fn when(holds: bool, reason: &str) -> Vec<String> {
    if holds { vec![reason.to_owned()] } else { Vec::new() }
}

/// Reviewed: what is asked for, and how much that weighs.
const FACTORS: &[Factor] = &[
    // Walls
    factor(Level::Critical, |asks| {
        each(&asks.waived, |clause| Some(format!("the clause {} is given up", clause.as_str())))
    }),
    factor(Level::High, |asks| {
        each(&asks.syscalls, |name| Some(format!("{name}: a system call beyond the reviewed ones")))
    }),
    factor(Level::Medium, |asks| {
        when(asks.profile == Some(ProfileName::Permissive), "the profile is permissive")
    }),
    // Files of the host
    factor(Level::Critical, |asks| {
        each(&asks.write, |path| {
            is_broad(path).then(|| format!("{} of the host is writable", path.display()))
        })
    }),
    factor(Level::High, |asks| {
        each(&asks.write, |path| Some(format!("the host's {} is writable", path.display())))
    }),
    factor(Level::High, |asks| {
        each(&asks.unprotect, |name| {
            Some(format!("the protected name {name} is writable: programs outside obey it"))
        })
    }),
    factor(Level::High, |asks| when(asks.all_host_files, "all files of the host but secrets are readable")),
    factor(Level::Medium, |asks| {
        each(&asks.read, |path| Some(format!("the host's {} is readable", path.display())))
    }),
    factor(Level::High, |asks| {
        each(&asks.passed, |name| Some(format!("the variable {name} of whoever makes the sandbox is passed")))
    }),
    // The way out
    factor(Level::High, |asks| when(asks.any_host, "any public host can be reached")),
    factor(Level::High, |asks| {
        each(&asks.private, |what| Some(format!("what is not public can be reached: {what}")))
    }),
    factor(Level::High, |asks| {
        each(&asks.hosts, |rule| match &rule.pattern {
            HostPattern::Below(name) if !name.as_str().contains('.') => {
                Some(format!("a whole top-level domain can be reached: {rule}"))
            }
            _ => None,
        })
    }),
    factor(Level::Medium, |asks| each(&asks.hosts, |rule| Some(format!("{rule} can be reached")))),
    // Secrets
    factor(Level::Critical, |asks| {
        each(&asks.secrets, |secret| match secret.from {
            SecretSource::Store(_) => None,
            _ => Some(format!("the secret {} is read from the machine itself", secret.name)),
        })
    }),
    factor(Level::High, |asks| {
        each(&asks.secrets, |secret| Some(format!("the secret {} is used", secret.name)))
    }),
    // What can't be taken back, and whose it is
    factor(Level::Medium, |asks| when(asks.reach == Reach::Tree, "a directory with all that is in it")),
    factor(Level::High, |asks| match &asks.asker {
        Asker::For(user) => vec![format!("it is {user}'s, and somebody else asks")],
        _ => Vec::new(),
    }),
    factor(Level::Medium, |asks| {
        when(asks.asker == Asker::Anybody, "whoever reaches the server asked: it serves without keys")
    }),
];

/// The root, or a directory right below it.
fn is_broad(path: &Path) -> bool {
    path.components().filter(|part| matches!(part, std::path::Component::Normal(_))).count() <= 1
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
