//! Rules: who decides on an action. A `deny` that matches wins wherever it stands; otherwise the first rule that matches
//! decides; where none does, a person is asked.
//!
//! Shipped rules come after an admin's own: low and medium are allowed, the rest is asked.
//!
//! What an action brings with it, such as hosts, is a kind beside its own. Rules that name that kind are asked too, and the
//! strictest decision holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::glob::{Glob, WordPattern};
use super::kind::{ActionKind, Level};
use crate::model::ProfileName;
use crate::network::{HostPattern, HostRule};

/// What a rule says. Ordered: the later is the stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Allow,
    /// A person decides, or has decided.
    Ask,
    Deny,
}

impl Verdict {
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Ask => "ask",
            Verdict::Deny => "deny",
        }
    }
}

/// One rule. It matches where all that it says holds; what it leaves out matches everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionRule {
    /// What answers and the audit call it; else its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub then: Verdict,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<ActionKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<Level>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Level>,
    /// Names of users; `*` is any characters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<Glob>,
    /// viewer, operator, approver, admin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<ProfileName>,
    /// Hosts that are asked for. `allow`: there are some, and these rules cover every one. `ask` and `deny`: one of these may
    /// be reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostRule>,
    /// The command, a pattern for each word; `**` at the end is the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<WordPattern>,
    /// The skill, path, workspace, secret or sandbox that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Glob>,
}

/// What rules look at.
#[derive(Clone, Copy, Debug)]
pub struct ActionFacts<'a> {
    pub kind: ActionKind,
    /// What it brings with it: `Asks::brings`.
    pub brings: &'a [ActionKind],
    pub level: Level,
    pub user: &'a str,
    pub role: &'a str,
    pub profile: Option<ProfileName>,
    pub hosts: &'a [HostRule],
    /// Hosts beyond those: every public one, private addresses, loopback.
    pub more_hosts: bool,
    pub command: &'a [String],
    pub target: Option<&'a str>,
}

/// What was decided, and by which rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    pub verdict: Verdict,
    pub rule: String,
}

/// All rules of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionRules(Vec<ActionRule>);

impl ActionRules {
    /// An admin's own, before the shipped one; or why one of them is none.
    pub fn new(mut own: Vec<ActionRule>, roles: &[&str]) -> Result<Self, String> {
        for (at, rule) in own.iter_mut().enumerate() {
            let name = rule.name.get_or_insert_with(|| format!("rule {}", at + 1)).clone();
            rule.check(roles).map_err(|why| format!("actions.rules: {name}: {why}"))?;
        }
        own.push(shipped());
        Ok(Self(own))
    }

    pub fn decide(&self, facts: &ActionFacts<'_>) -> Ruling {
        let own = decided(self.0.iter().filter(|rule| rule.matches(facts)));
        let own = own.unwrap_or_else(|| Ruling { verdict: Verdict::Ask, rule: "no rule".into() });
        facts.brings.iter().fold(own, |strictest, kind| {
            let facts = ActionFacts { kind: *kind, brings: &[], ..*facts };
            let named = self.0.iter().filter(|rule| rule.kinds.contains(kind) && rule.matches(&facts));
            match decided(named) {
                Some(ruling) if ruling.verdict > strictest.verdict => ruling,
                _ => strictest,
            }
        })
    }
}

/// By rules that match, in their order.
fn decided<'a>(mut matching: impl Iterator<Item = &'a ActionRule>) -> Option<Ruling> {
    let first = matching.next()?;
    let denied = std::iter::once(first).chain(matching).find(|rule| rule.then == Verdict::Deny);
    let rule = denied.unwrap_or(first);
    Some(Ruling { verdict: rule.then, rule: rule.name.clone().unwrap_or_default() })
}

impl Default for ActionRules {
    fn default() -> Self {
        Self(vec![shipped()])
    }
}

/// What goes beyond medium matches no shipped rule, and so is asked.
fn shipped() -> ActionRule {
    ActionRule {
        name: Some("shipped".into()),
        then: Verdict::Allow,
        kinds: Vec::new(),
        at_least: None,
        at_most: Some(Level::Medium),
        users: Vec::new(),
        roles: Vec::new(),
        profiles: Vec::new(),
        hosts: Vec::new(),
        command: None,
        targets: Vec::new(),
    }
}

impl ActionRule {
    fn check(&self, roles: &[&str]) -> Result<(), String> {
        if let (Some(least), Some(most)) = (self.at_least, self.at_most)
            && least > most
        {
            return Err(format!("at_least {least} is more than at_most {most}: it would never match"));
        }
        if self.kinds.contains(&ActionKind::Install) {
            return Err(
                "nothing that is asked of a server is of the kind `install`, so it would never match: packages of skills \
                 are installed by the machine's owner; what a command can fetch comes by hosts, of the kind `egress.grant`"
                    .into(),
            );
        }
        if let Some(role) = self.roles.iter().find(|role| !roles.contains(&role.as_str())) {
            return Err(format!("`{role}` is no role: one of {}", roles.join(", ")));
        }
        if let Some(rule) = self.hosts.iter().find(|rule| matches!(rule.pattern, HostPattern::Group(_))) {
            return Err(format!("`{rule}`: a group belongs to a policy; write its hosts out"));
        }
        self.command.as_ref().map_or(Ok(()), WordPattern::check)
    }

    fn matches(&self, facts: &ActionFacts<'_>) -> bool {
        let any =
            |globs: &[Glob], text: &str| globs.is_empty() || globs.iter().any(|glob| glob.matches(text));
        (self.kinds.is_empty() || self.kinds.contains(&facts.kind))
            && self.at_least.is_none_or(|least| facts.level >= least)
            && self.at_most.is_none_or(|most| facts.level <= most)
            && any(&self.users, facts.user)
            && (self.roles.is_empty() || self.roles.iter().any(|role| role == facts.role))
            && (self.profiles.is_empty() || facts.profile.is_some_and(|name| self.profiles.contains(&name)))
            && (self.hosts.is_empty() || self.matches_hosts(facts))
            && self.command.as_ref().is_none_or(|pattern| pattern.matches(facts.command))
            && (self.targets.is_empty() || facts.target.is_some_and(|target| any(&self.targets, target)))
    }

    /// What opens must cover all that is asked for; what closes needs to touch some of it.
    fn matches_hosts(&self, facts: &ActionFacts<'_>) -> bool {
        let covered = |asked: &HostRule| self.hosts.iter().any(|known| known.covers(asked));
        match self.then {
            Verdict::Allow => !facts.more_hosts && !facts.hosts.is_empty() && facts.hosts.iter().all(covered),
            Verdict::Ask | Verdict::Deny => {
                let touched = |asked: &HostRule| self.hosts.iter().any(|known| touch(known, asked));
                facts.more_hosts || facts.hosts.iter().any(touched)
            }
        }
    }
}

/// Is there a host and port that both name?
fn touch(one: &HostRule, other: &HostRule) -> bool {
    (one.pattern.covers(&other.pattern) || other.pattern.covers(&one.pattern))
        && one.ports().iter().any(|port| other.ports().contains(port))
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
