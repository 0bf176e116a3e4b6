use super::*;

fn specifiers(text: &str) -> Vec<String> {
    read(text).imports.into_iter().map(|import| import.specifier).collect()
}

#[test]
fn imports_in_all_their_forms() {
    for (text, expected) in [
        ("import a from 'a'", &["a"][..]),
        ("import 'a';import \"b\"", &["a", "b"]),
        ("import a, { b as c } from \"@x/y\";", &["@x/y"]),
        ("import * as a from 'a/b.js'", &["a/b.js"]),
        ("import {\n a,\n b\n} from 'c'", &["c"]),
        ("export { a } from 'b'; export * from 'c'; export * as d from 'e'", &["b", "c", "e"]),
        ("export const a = 'x'; export default function from() {}", &[]),
        ("import type { A } from 'a'; import type from 'b'", &["b"]),
        ("const a = require('a'), b = require(\"b/c\")", &["a", "b/c"]),
        ("require.resolve('a')", &["a"]),
        ("require(name); require('a' + b); x.require('c')", &[]),
        ("await import('a'); import(`b`); import(`c${d}`)", &["a", "b"]),
        ("// import 'a'\n/* require('b') */ import 'c'", &["c"]),
        (
            "const s = \"import 'a'\"; const t = `require('b') ${require('c')} ${`${require('d')}`}`",
            &["c", "d"],
        ),
        ("const r = /require('a')/; const d = a / require('b') / 2", &["b"]),
        ("const r = /[/]'/.test(x); import 'a'", &["a"]),
        ("import.meta.url; import 'a'", &["a"]),
        ("#!/usr/bin/env node\nimport 'a'", &["a"]),
        ("import a = require('b')", &["b"]),
        ("import json from './a.json' with { type: 'json' }", &["./a.json"]),
        ("if (x) { y }\n/'/.test(z)\nimport 'a'", &["a"]),
    ] {
        assert_eq!(specifiers(text), expected, "{text}");
    }
}

#[test]
fn optional_ones_stand_in_a_try() {
    let found = read("try { require('a') } catch { b = {} }\nrequire('c')").imports;
    assert_eq!(
        found.iter().map(|import| (import.optional, import.line)).collect::<Vec<_>>(),
        [(true, 1), (false, 2)]
    );
}

#[test]
fn variables_and_programs() {
    let text = "const k = process.env.API_KEY\nprocess.env.SET_IT = '1'\nprocess.env['REGION'] ?? 'x'\n\
        process.env.OTHER || 'y'\nprocess.env.HOME\nif (process.env.MODE_X === '1') {}\nexecSync('ffmpeg -i x')\n\
        spawn(\"git\", [])\nspawn(cmd)";
    let source = read(text);
    let variables: Vec<_> =
        source.variables.iter().map(|(name, presence, _)| (name.as_str(), *presence)).collect();
    assert_eq!(
        variables,
        [
            ("API_KEY", Presence::Expected),
            ("REGION", Presence::Optional),
            ("OTHER", Presence::Optional),
            ("MODE_X", Presence::Expected),
        ]
    );
    assert_eq!(source.programs, [("ffmpeg", false, 7), ("git", false, 8)]);
}

#[test]
fn deep_and_long_input_ends() {
    for piece in
        ["`${", "{", "}", "try {", "/", "/[", "'", "\\", "import {", "import a,", "export ", "require(", "`"]
    {
        let _ = read(&piece.repeat(100_000));
    }
    // Each `/` could begin a regular expression that only the end of the line disproves.
    let _ = read(&format!("{}\n", "/[".repeat(500_000)));
}

proptest::proptest! {
    #[test]
    fn arbitrary_text_does_no_harm(text in "(?s).{0,300}") {
        let _ = read(&text);
    }

    #[test]
    fn pieces_of_javascript_do_no_harm(pieces in proptest::collection::vec(proptest::sample::select(vec![
        "import ", "from ", "'", "\"", "`", "${", "}", "{", "/", "*", "\\", "\n", "a", "é", "require(", ")", ",", "try",
        "process.env", ".A_B", "=", "//", "[", "]", "type ", "export ",
    ]), 0..60)) {
        let _ = read(&pieces.concat());
    }
}
