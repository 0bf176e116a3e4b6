use super::*;

const ROLES: &[&str] = &["viewer", "operator", "approver", "admin"];

#[derive(Deserialize)]
struct File {
    rules: Vec<ActionRule>,
}

fn rules(text: &str) -> Result<ActionRules, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    ActionRules::new(file.rules, ROLES)
}

fn command(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn facts<'a>(command: &'a [String], hosts: &'a [HostRule], level: Level) -> ActionFacts<'a> {
    ActionFacts {
        brings: &[],
        kind: ActionKind::Run,
        level,
        user: "ada",
        role: "operator",
        profile: Some(ProfileName::Moderate),
        hosts,
        more_hosts: false,
        command,
        target: None,
    }
}

fn hosts(text: &[&str]) -> Vec<HostRule> {
    text.iter().map(|text| HostRule::parse(text).unwrap()).collect()
}

#[test]
fn shipped_allow_up_to_medium_and_ask_for_the_rest() {
    let rules = ActionRules::default();
    let words = command("true");
    for (level, verdict) in [
        (Level::Low, Verdict::Allow),
        (Level::Medium, Verdict::Allow),
        (Level::High, Verdict::Ask),
        (Level::Critical, Verdict::Ask),
    ] {
        assert_eq!(rules.decide(&facts(&words, &[], level)).verdict, verdict, "{level}");
    }
}

#[test]
fn a_deny_wins_wherever_it_stands_else_the_first_that_matches() {
    let rules = rules(
        "[[rules]]\nname = 'git'\nthen = 'allow'\ncommand = ['git', '**']\n\
         [[rules]]\nthen = 'ask'\nusers = ['ad*']\n\
         [[rules]]\nname = 'no push'\nthen = 'deny'\ncommand = ['git', 'push', '**']\n",
    )
    .unwrap();
    let decide = |text: &str| {
        let words = command(text);
        let ruling = rules.decide(&facts(&words, &[], Level::High));
        (ruling.verdict, ruling.rule)
    };
    assert_eq!(decide("git status"), (Verdict::Allow, "git".into()));
    assert_eq!(decide("git push origin"), (Verdict::Deny, "no push".into()));
    assert_eq!(decide("make"), (Verdict::Ask, "rule 2".into()));
}

#[test]
fn what_opens_must_cover_all_hosts_and_what_closes_needs_one() {
    let words = command("true");
    let allow = rules("[[rules]]\nthen = 'allow'\nhosts = ['*.example.org', '192.0.2.1:22']").unwrap();
    let deny = rules("[[rules]]\nthen = 'deny'\nhosts = ['*.evil.example']").unwrap();
    let of = |rules: &ActionRules, asked: &[&str]| {
        let hosts = hosts(asked);
        rules.decide(&facts(&words, &hosts, Level::High)).verdict
    };
    assert_eq!(of(&allow, &["a.example.org"]), Verdict::Allow);
    for asked in [&[][..], &["a.example.org", "b.example.com"], &["a.example.org:8443"], &["*.org"]] {
        assert_eq!(of(&allow, asked), Verdict::Ask, "{asked:?}");
    }
    for asked in [
        &["x.evil.example"][..],
        &["fine.example", "x.evil.example"],
        &["*.example"],
        &["*.evil.example:443"],
    ] {
        assert_eq!(of(&deny, asked), Verdict::Deny, "{asked:?}");
    }
    assert_eq!(of(&deny, &["x.evil.example:22"]), Verdict::Ask);
    let mut open = facts(&words, &[], Level::High);
    open.more_hosts = true;
    assert_eq!(deny.decide(&open).verdict, Verdict::Deny, "every host is that host too");
    assert_eq!(allow.decide(&open).verdict, Verdict::Ask);
}

#[test]
fn kinds_roles_profiles_and_targets_are_looked_at() {
    let rules = rules(
        "[[rules]]\nname = 'a'\nthen = 'deny'\nkinds = ['skill.delete']\ntargets = ['core/*']\n\
         [[rules]]\nname = 'b'\nthen = 'deny'\nroles = ['admin']\nprofiles = ['permissive']\n",
    )
    .unwrap();
    let words: Vec<String> = Vec::new();
    let plain = facts(&words, &[], Level::Low);
    let skill = ActionFacts { kind: ActionKind::SkillDelete, target: Some("core/pdf"), ..plain };
    assert_eq!(rules.decide(&skill).rule, "a");
    assert_eq!(rules.decide(&ActionFacts { target: Some("mine/pdf"), ..skill }).rule, "shipped");
    assert_eq!(rules.decide(&ActionFacts { target: None, ..skill }).rule, "shipped");
    let admin = ActionFacts { role: "admin", profile: Some(ProfileName::Permissive), ..plain };
    assert_eq!(rules.decide(&admin).rule, "b");
    assert_eq!(rules.decide(&ActionFacts { profile: None, ..admin }).rule, "shipped");
}

#[test]
fn a_file_is_read_strictly() {
    for text in [
        "[[rules]]\n",
        "[[rules]]\nthen = 'maybe'",
        "[[rules]]\nthen = 'deny'\nlevel = 'high'",
        "[[rules]]\nthen = 'deny'\nkinds = ['runs']",
        "[[rules]]\nthen = 'deny'\nroles = ['boss']",
        "[[rules]]\nthen = 'deny'\nat_least = 'high'\nat_most = 'low'",
        "[[rules]]\nthen = 'deny'\nhosts = ['@group']",
        "[[rules]]\nthen = 'deny'\nhosts = ['not a host']",
        "[[rules]]\nthen = 'deny'\ncommand = []",
        "[[rules]]\nthen = 'deny'\ncommand = ['**', 'x']",
        "[[rules]]\nthen = 'deny'\ncommand = 'git push'",
    ] {
        assert!(rules(text).is_err(), "{text}");
    }
}

#[test]
fn what_an_action_brings_is_ruled_on_by_rules_that_name_it() {
    let rules = rules(
        "[[rules]]\nname = 'grants'\nthen = 'ask'\nkinds = ['egress.grant']\n\
         [[rules]]\nname = 'runs'\nthen = 'allow'\nkinds = ['run']\n\
         [[rules]]\nname = 'never'\nthen = 'deny'\nkinds = ['egress.grant']\nhosts = ['evil.example']\n",
    )
    .unwrap();
    let (words, good, evil) = (command("true"), hosts(&["good.example"]), hosts(&["evil.example"]));
    let plain = facts(&words, &[], Level::High);
    assert_eq!(rules.decide(&plain).rule, "runs");
    let brings = |hosts| ActionFacts { brings: &[ActionKind::EgressGrant], hosts, ..plain };
    assert_eq!(rules.decide(&brings(&good)).rule, "grants");
    assert_eq!(rules.decide(&brings(&evil)).rule, "never");
    // An allow of the grant does not open what the action itself is asked for.
    let open = super::tests::rules("[[rules]]\nthen = 'allow'\nkinds = ['egress.grant']\n").unwrap();
    assert_eq!(open.decide(&brings(&good)).verdict, Verdict::Ask);
}

#[test]
fn a_rule_on_what_no_request_is_of_is_refused() {
    let why = rules("[[rules]]\nthen = 'deny'\nkinds = ['run', 'install']\n").unwrap_err();
    assert!(why.contains("install") && why.contains("egress.grant"), "{why}");
}
