use super::*;

const ALL: [&[Pattern]; 7] = [
    changes::CHANGES,
    commands::COMMANDS,
    credentials::CREDENTIALS,
    credentials::SENDS,
    phrases::PHRASES,
    phrases::ORDERS,
    phrases::MARKUP,
];

#[test]
fn every_pattern_compiles_and_has_hints() {
    for pattern in ALL.into_iter().flatten().chain(secrets::SECRETS) {
        assert!(!pattern.hints.is_empty(), "{}", pattern.what);
        assert!(!pattern.what.is_empty() && !pattern.what.ends_with('.'), "{}", pattern.what);
        let compiled = pattern.compile();
        assert!(!compiled.regex.is_match(b""), "{} matches nothing at all", pattern.what);
    }
}
