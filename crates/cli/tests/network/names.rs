//! Tricks with names: what is not exactly a granted name is not granted, however it is spelt and whoever would read it
//! differently (a C library, a resolver, a proxy, a person).

use crate::attempt::attempt;
use crate::row::Row;

/// Labels that no host has. A name server answers them all; each is asked for below a granted wildcard.
const LABELS: &[(&str, &str)] = &[
    ("nul", r"b'evil\x00'"),
    ("newline", r"b'evil\n'"),
    ("return", r"b'evil\r\n'"),
    ("percent", r"b'evil%2etest'"),
    ("space", r"b'evil test'"),
    ("at", r"b'user@evil'"),
    ("slash", r"b'evil/x'"),
    ("backslash", r"b'evil\\x'"),
    ("colon", r"b'evil:4242'"),
    ("question", r"b'evil?x'"),
    ("hash", r"b'evil#x'"),
    ("dot-in-label", r"b'evil.test'"),
    ("utf8", r"'\u00e9vil'.encode()"),
    ("control", r"b'\x07\x1b[2J'"),
    ("high-bytes", r"b'\xff\xfe'"),
];

/// Names that look like a granted one, or hold it. With what is granted.
const LOOKALIKES: &[(&str, &str, &str)] = &[
    ("ungranted", "evil.test", "good.test:4242"),
    ("upper-case", "EVIL.TEST", "good.test:4242"),
    ("trailing-dot", "evil.test.", "good.test:4242"),
    ("granted-in-front", "good.test.evil.test", "good.test:4242"),
    ("granted-at-the-end", "evilgood.test", "good.test:4242"),
    ("granted-at-the-end-wildcard", "evilgood.test", "*.good.test:4242"),
    ("homograph", "xn--gd-fmca.test", "good.test:4242"),
    ("homograph-unicode", "g\u{43e}\u{43e}d.test", "good.test:4242"),
    ("below-a-plain-name", "sub.good.test", "good.test:4242"),
    ("above-a-wildcard", "good.test", "*.good.test:4242"),
    ("top-level", "test", "good.test:4242"),
];

/// Spellings of a denied name below a granted wildcard.
const DENIED: &[(&str, &str)] = &[
    ("plain", "secret.good.test"),
    ("upper-case", "SECRET.Good.TEST"),
    ("trailing-dot", "secret.good.test."),
    ("below", "x.y.closed.good.test"),
];

/// 192.0.2.66 as libraries read it and people don't.
const SPELLINGS: &[(&str, &str)] = &[
    ("decimal", "3221226050"),
    ("hex", "0xC0000242"),
    ("octal", "0300.0.2.0102"),
    ("short", "192.0.578"),
    ("mapped", "::ffff:192.0.2.66"),
    ("mapped-hex", "::ffff:c000:242"),
];

pub(crate) fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = LABELS
        .iter()
        .map(|(name, label)| {
            attempt(format!("label-{name}"), "asks for a name that is none, below a granted wildcard")
                .grant(["*.good.test:4242"])
                .python(&format!(
                    "code, answers, _ = ask('{{dns}}', question(labels({label}, 'good', 'test')))\n\
                     if code == 0 and answers: escaped('it has an address')\n\
                     held('code %d' % code)"
                ))
                .said("was refused")
                .row()
        })
        .collect();
    rows.extend(LOOKALIKES.iter().map(|(name, asked, granted)| {
        attempt(format!("name-{name}"), format!("connects to {asked} where {granted} is granted"))
            .set_up(|internet, _| {
                for name in ["evilgood.test", "xn--gd-fmca.test", "test"] {
                    internet.dns.point(name, &[ringfence_testing::EVIL]);
                }
                Vec::new()
            })
            .grant([*granted])
            .python(&format!("escaped(greeted('{asked}'))"))
            .denied(asked.trim_end_matches('.').to_lowercase().replace("g\u{43e}\u{43e}d", "xn--gd-fmca"))
            .row()
    }));
    rows.extend(DENIED.iter().map(|(name, asked)| {
        attempt(format!("denied-{name}"), format!("connects to {asked}, which is denied"))
            .grant(["*.good.test:4242"])
            .flags(["--deny-host", "secret.good.test", "--deny-host", "*.closed.good.test"])
            .python(&format!("escaped(greeted('{asked}'))"))
            .denied(asked.trim_end_matches('.').to_lowercase())
            .row()
    }));
    rows.extend(spelt());
    rows
}

fn spelt() -> Vec<Row> {
    let ways = [
        ("direct", "escaped(greeted('{text}'))"),
        ("connect", "escaped(greeting_on(*connect_through('{http_proxy}', '{authority}:4242')))"),
        ("socks", "escaped(greeting_on(socks_through('{socks_proxy}', '{text}', 4242)))"),
    ];
    let row = |(name, text): &(&str, &str), (way, script): &(&str, &str)| {
        let authority = if text.contains(':') { format!("[{text}]") } else { (*text).to_owned() };
        attempt(format!("address-{name}-{way}"), format!("connects to {text}, an address, by {way}"))
            .grant(["good.test:4242", "*.good.test:4242"])
            .python(&script.replace("{text}", text).replace("{authority}", &authority))
            .said("was refused")
            .row()
    };
    SPELLINGS.iter().flat_map(|spelling| ways.iter().map(move |way| row(spelling, way))).collect()
}
