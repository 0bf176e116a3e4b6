//! Levels only go up with what is asked for, and rules close as they say.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use ringfence_policy::{
    ActionFacts, ActionKind, ActionRule, ActionRules, Asker, Asks, Clause, Finding, Glob, HostRule, Level,
    ProfileName, Reach, SecretRule, Suspicion, Verdict, WordPattern, judge,
};

use crate::pick;

const ROLES: &[&str] = &["viewer", "operator", "approver", "admin"];

fn level() -> impl Strategy<Value = Level> {
    pick(&Level::ALL)
}

fn host() -> impl Strategy<Value = HostRule> {
    pick(&["a.example", "*.example", "*.com", "b.a.example:8443", "192.0.2.1:22"])
        .prop_map(|text| HostRule::parse(text).unwrap())
}

/// One more thing to ask for.
fn more() -> impl Strategy<Value = fn(&mut Asks)> {
    const MORE: &[fn(&mut Asks)] = &[
        |asks| asks.profile = Some(ProfileName::Permissive),
        |asks| asks.waived.push(Clause::Syscalls),
        |asks| asks.read.push("/srv/data".into()),
        |asks| asks.write.push("/srv/data".into()),
        |asks| asks.write.push("/etc".into()),
        |asks| asks.all_host_files = true,
        |asks| asks.unprotect.push(".git/hooks".into()),
        |asks| asks.any_host = true,
        |asks| asks.hosts.push(HostRule::parse("a.example").unwrap()),
        |asks| asks.hosts.push(HostRule::parse("*.com").unwrap()),
        |asks| asks.private.push("10.0.0.0/8".into()),
        |asks| asks.secrets.push(SecretRule::parse("A=store:A@a.example").unwrap()),
        |asks| asks.secrets.push(SecretRule::parse("B=env:B@a.example").unwrap()),
        |asks| asks.syscalls.push("ptrace".into()),
        |asks| asks.passed.push("HOME".into()),
        |asks| asks.reach = Reach::Tree,
        |asks| asks.findings.push(Finding { level: Level::Low, what: "x".into() }),
        |asks| asks.findings.push(Finding { level: Level::Critical, what: "y".into() }),
        |asks| asks.suspicions.push(Suspicion { place: "the command".into(), what: "z".into() }),
    ];
    pick(MORE)
}

fn asks() -> impl Strategy<Value = Asks> {
    let asker = pick(&[Asker::Owner, Asker::Anybody, Asker::For("ada".into())]);
    (vec(more(), 0..6), asker).prop_map(|(all, asker)| {
        let mut asks = Asks { asker, ..Asks::default() };
        all.iter().for_each(|more| more(&mut asks));
        asks
    })
}

fn rule(then: impl Strategy<Value = Verdict>) -> impl Strategy<Value = ActionRule> {
    let command = pick(&[vec!["git", "**"], vec!["git", "push"], vec!["*", "**"]]);
    (
        then,
        // A rule on what no request is of is refused.
        vec(pick(ActionKind::ALL).prop_filter("raised", |kind| *kind != ActionKind::Install), 0..3),
        of(level()),
        of(level()),
        vec(pick(&["ada", "a*", "bob"]).prop_map(Glob::new), 0..2),
        vec(pick(ROLES).prop_map(str::to_owned), 0..2),
        vec(host(), 0..2),
        of(command.prop_map(|words| WordPattern::new(&words))),
    )
        .prop_map(|(then, kinds, one, other, users, roles, hosts, command)| ActionRule {
            name: None,
            then,
            kinds,
            at_least: one.min(other),
            at_most: one.max(other),
            users,
            roles,
            profiles: Vec::new(),
            hosts,
            command,
            targets: Vec::new(),
        })
}

fn any_rule() -> impl Strategy<Value = ActionRule> {
    rule(pick(&[Verdict::Allow, Verdict::Ask, Verdict::Deny]))
}

#[derive(Clone, Debug)]
struct Case {
    kind: ActionKind,
    level: Level,
    user: &'static str,
    role: &'static str,
    hosts: Vec<HostRule>,
    more_hosts: bool,
    command: Vec<String>,
}

impl Case {
    fn facts(&self) -> ActionFacts<'_> {
        ActionFacts {
            brings: if self.hosts.is_empty() && !self.more_hosts { &[] } else { &[ActionKind::EgressGrant] },
            kind: self.kind,
            level: self.level,
            user: self.user,
            role: self.role,
            profile: None,
            hosts: &self.hosts,
            more_hosts: self.more_hosts,
            command: &self.command,
            target: None,
        }
    }
}

fn case() -> impl Strategy<Value = Case> {
    let command = pick(&[&["git", "push"][..], &["git", "status", "-s"], &["make"], &[]]);
    (
        pick(ActionKind::ALL),
        level(),
        pick(&["ada", "bob", "eve"]),
        pick(ROLES),
        vec(host(), 0..3),
        any::<bool>(),
        command,
    )
        .prop_map(|(kind, level, user, role, hosts, more_hosts, command)| Case {
            kind,
            level,
            user,
            role,
            hosts,
            more_hosts,
            command: command.iter().map(|word| (*word).to_owned()).collect(),
        })
}

fn rules(own: &[ActionRule]) -> ActionRules {
    ActionRules::new(own.to_vec(), ROLES).unwrap()
}

fn openness(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Deny => 0,
        Verdict::Ask => 1,
        Verdict::Allow => 2,
    }
}

proptest! {
    #[test]
    fn asking_for_more_never_lowers_a_level(kind in pick(ActionKind::ALL), before in asks(), more in more()) {
        let mut after = before.clone();
        more(&mut after);
        prop_assert!(judge(kind, &after).level >= judge(kind, &before).level);
    }

    #[test]
    fn what_looks_like_an_injection_is_at_least_high_and_above_what_it_was(kind in pick(ActionKind::ALL), mut asks in asks()) {
        asks.suspicions.clear();
        let plain = judge(kind, &asks).level;
        asks.suspicions.push(Suspicion { place: "a file".into(), what: "x".into() });
        let judged = judge(kind, &asks);
        prop_assert!(judged.level >= Level::High && (judged.level > plain || plain == Level::Critical));
        prop_assert!(judged.reasons.iter().any(|reason| reason.contains("a file looks like")));
    }

    #[test]
    fn one_more_deny_never_opens(own in vec(any_rule(), 0..6), deny in rule(Just(Verdict::Deny)), at in 0_usize..7, case in case()) {
        let before = rules(&own).decide(&case.facts()).verdict;
        let mut with = own;
        with.insert(at.min(with.len()), deny);
        let after = rules(&with).decide(&case.facts()).verdict;
        prop_assert!(openness(after) <= openness(before));
        prop_assert!(after == before || after == Verdict::Deny);
    }

    #[test]
    fn where_a_deny_stands_does_not_matter(own in vec(any_rule(), 1..6), from in 0_usize..6, to in 0_usize..6, case in case()) {
        let mut moved = own.clone();
        let from = from % own.len();
        prop_assume!(own[from].then == Verdict::Deny);
        let one = moved.remove(from);
        moved.insert(to.min(moved.len()), one);
        prop_assert_eq!(rules(&own).decide(&case.facts()).verdict, rules(&moved).decide(&case.facts()).verdict);
    }

    #[test]
    fn without_a_rule_of_ones_own_high_and_critical_are_asked(case in case()) {
        let expected = if case.level >= Level::High { Verdict::Ask } else { Verdict::Allow };
        prop_assert_eq!(rules(&[]).decide(&case.facts()).verdict, expected);
    }

    #[test]
    fn asking_for_one_more_host_never_opens_what_hosts_decide(own in vec(any_rule(), 0..6), extra in host(), case in case()) {
        // Among rules that differ in hosts alone, as a level does not change here.
        let with_hosts: Vec<_> = own.into_iter().filter(|rule| !rule.hosts.is_empty()).collect();
        prop_assume!(!case.hosts.is_empty());
        let denied = |case: &Case| rules(&with_hosts).decide(&case.facts()).verdict == Verdict::Deny;
        let mut more = case.clone();
        more.hosts.push(extra);
        prop_assert!(!denied(&case) || denied(&more));
    }
}
