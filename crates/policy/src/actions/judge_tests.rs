use super::*;
use crate::actions::asks::{Finding, Suspicion};
use crate::{Asks as Whole, Layer, Origin, merge};

fn level_of(text: &str) -> Level {
    let layer = Layer::from_toml(text).unwrap();
    let policy = merge(ProfileName::Moderate, &[(Origin::flag("test"), layer)]).unwrap().policy;
    judge(ActionKind::Run, &Whole::of(&policy)).level
}

#[test]
fn each_thing_that_is_asked_for_has_its_level() {
    for (text, level) in [
        ("", Level::Low),
        ("profile = 'restrictive'", Level::Low),
        ("[limits]\nmemory = '1G'", Level::Low),
        ("[environment]\nset = { A = 'b' }", Level::Low),
        ("[network]\nallow = ['api.example.com']", Level::Medium),
        ("[network]\nallow = ['*.example.com:443']", Level::Medium),
        ("[network]\nmode = 'off'\nallow = ['api.example.com']", Level::Low),
        ("[filesystem]\nread = ['/srv/data']", Level::Medium),
        ("[network]\nallow = ['*.com']", Level::High),
        ("[network]\nallow = ['@g']\ngroups = { g = ['*.com'] }", Level::High),
        ("[network]\nmode = 'open'", Level::High),
        ("[network]\nlocal = [5432]", Level::High),
        ("[network]\nallow = ['a.example']\nprivate = ['10.0.0.0/8']", Level::High),
        ("[filesystem]\nhost = 'all'", Level::High),
        ("[filesystem]\nwrite = ['/srv/data/out']", Level::High),
        ("[filesystem]\nunprotect = ['.git/hooks']", Level::High),
        ("[syscalls]\nallow = ['ptrace']", Level::High),
        ("[syscalls]\ncompat = true", Level::High),
        ("[environment]\npass = ['AWS_*']", Level::High),
        (
            "[[network.secrets]]\nname = 'T'\nfrom = 'store:T'\nhosts = ['a.example']\n[network]\nallow = ['a.example']",
            Level::High,
        ),
        (
            "[[network.secrets]]\nname = 'T'\nfrom = 'env:T'\nhosts = ['a.example']\n[network]\nallow = ['a.example']",
            Level::Critical,
        ),
        ("[filesystem]\nwrite = ['/etc']", Level::Critical),
        ("[filesystem]\nwrite = ['/']", Level::Critical),
        ("waive = ['syscalls']", Level::Critical),
    ] {
        // A table of its own after a value of `network` is no TOML.
        let text = match text.split_once("\n[network]\n") {
            Some((secret, network)) if secret.starts_with("[[") => format!("[network]\n{network}\n{secret}"),
            _ => text.to_owned(),
        };
        assert_eq!(level_of(&text), level, "{text}");
    }
    assert!(level_of("profile = 'permissive'") >= Level::Medium);
}

#[test]
fn kinds_findings_reach_and_asker_count() {
    let level = |kind, asks: Asks| judge(kind, &asks).level;
    assert_eq!(level(ActionKind::Exec, Asks::default()), Level::Low);
    assert_eq!(level(ActionKind::SkillUpload, Asks::default()), Level::Medium);
    assert_eq!(level(ActionKind::FileDelete, Asks::default()), Level::Low);
    assert_eq!(level(ActionKind::FileDelete, Asks { reach: Reach::Tree, ..Asks::default() }), Level::Medium);
    for found in Level::ALL {
        let findings = vec![Finding { level: found, what: "pipe-to-shell".into() }];
        assert_eq!(level(ActionKind::SkillRun, Asks { findings, ..Asks::default() }), found);
    }
    assert_eq!(level(ActionKind::Run, Asks { asker: Asker::Anybody, ..Asks::default() }), Level::Medium);
    assert_eq!(
        level(ActionKind::Exec, Asks { asker: Asker::For("ada".into()), ..Asks::default() }),
        Level::High
    );
}

#[test]
fn what_looks_like_an_injection_raises_the_level_and_says_why() {
    let suspicions = vec![Suspicion { place: "the command".into(), what: "sets instructions aside".into() }];
    let raised = judge(ActionKind::Run, &Asks { suspicions: suspicions.clone(), ..Asks::default() });
    assert_eq!(raised.level, Level::High);
    assert_eq!(
        raised.reasons[0],
        "high: the command looks like an attempt to steer a model: sets instructions aside"
    );
    let more = judge(ActionKind::Run, &Asks { suspicions, any_host: true, ..Asks::default() });
    assert_eq!(more.level, Level::Critical);
}

#[test]
fn reasons_are_bounded_and_the_weightiest_come_first() {
    let read = (0..1000).map(|n| format!("/srv/{n}").into()).collect();
    let asks = Asks { read, write: vec!["/etc".into()], ..Asks::default() };
    let judged = judge(ActionKind::Run, &asks);
    assert_eq!(judged.reasons.len(), MOST_REASONS);
    assert!(judged.reasons[0].starts_with("critical: "), "{}", judged.reasons[0]);
}
