//! Verdicts that are known, one a line. The same table is put to the reference where there is one.

use ringfence_skills::validate;

/// The directory of every case.
pub(crate) const DIRECTORY: &str = "pdf";

const VALID: &[&str] = &[];
const YAML: &[&str] = &["yaml-invalid"];
const FLOW: &[&str] = &["yaml-flow-style"];
const NOT_A_MAPPING: &[&str] = &["frontmatter-not-a-mapping"];
const MISSING: &[&str] = &["frontmatter-missing"];
const UNKNOWN: &[&str] = &["unknown-field"];
const CHARACTER: &[&str] = &["yaml-character"];
const DUPLICATE: &[&str] = &["yaml-duplicate-key"];

/// Whole files.
#[rustfmt::skip]
const FILES: &[(&str, &[&str])] = &[
    ("---\nname: pdf\ndescription: d\n---\n", VALID),
    ("---\nname: pdf\ndescription: d\n---", VALID),
    ("---\r\nname: pdf\r\ndescription: d\r\n---\r\n", VALID),
    ("---\rname: pdf\rdescription: d\r---\r", VALID),
    ("---\nname: pdf\ndescription: d\n---\n\0 a NUL in the body", VALID),
    ("---name: pdf\ndescription: d\n---\n", VALID),
    ("---\nname: pdf\ndescription: d --- the end\n", VALID),
    ("---\nname: pdf\ndescription: d\n...\n---\n", VALID),
    ("---\nname: pdf\ndescription: d\n... # the end\n---\n", VALID),
    ("---\u{feff}\nname: pdf\ndescription: d\n---\n", VALID),
    ("--- # comment\nname: pdf\ndescription: d\n---\n", VALID),
    ("---\n\n\n# comment\n\nname: pdf\n\n# comment\ndescription: d\n\n---\n", VALID),
    ("---\nname: pdf\ndescription: d\n----\n", VALID),
    ("--- name: pdf\ndescription: d\n---\n", YAML),
    ("----\nname: pdf\ndescription: d\n---\n", YAML),
    ("---\nname: pdf\ndescription: d\n...\n...\n---\n", YAML),
    ("---\nname: pdf\n...\ndescription: d\n---\n", YAML),
    ("---\n%YAML 1.2\nname: pdf\ndescription: d\n---\n", YAML),
    ("\u{feff}---\nname: pdf\ndescription: d\n---\n", MISSING),
    ("\n---\nname: pdf\ndescription: d\n---\n", MISSING),
    (" ---\nname: pdf\ndescription: d\n---\n", MISSING),
    ("<!-- x -->\n---\nname: pdf\ndescription: d\n---\n", MISSING),
    ("# Title\n", MISSING),
    ("", MISSING),
    ("---\nname: pdf\ndescription: d\n", &["frontmatter-unclosed"]),
    ("---\n---\n", NOT_A_MAPPING),
    ("------", NOT_A_MAPPING),
    ("---\n# nothing\n---\n", NOT_A_MAPPING),
    ("---\njust text\n---\n", NOT_A_MAPPING),
    ("---\n- name: pdf\n- description: d\n---\n", NOT_A_MAPPING),
    ("---\nname: pdf\n---\n", &["description-missing"]),
    ("---\ndescription: d\n---\n", &["name-missing"]),
    ("---\nother: x\n---\n", &["unknown-field", "name-missing", "description-missing"]),
    ("---\nname: pdf\ndescription:\n---\n", &["description-empty"]),
    ("---\nname: pdf\ndescription: \"  \"\n---\n", &["description-empty"]),
    ("---\nname: pdf\ndescription: =\n---\n", &["description-empty"]),
    ("---\nname: pdf\ndescription:\n- d\n---\n", &["description-empty"]),
    ("---\nname: pdf\ndescription: null\n---\n", VALID),
    ("---\nname: pdf\ndescription: >-\n  folded\n  text\n---\n", VALID),
    ("---\nname: pdf\ndescription: |\n  one\n\n  two\n---\n", VALID),
    ("---\nname: pdf\ndescription: on\n  two lines\n---\n", VALID),
    ("---\nname: pdf\ndescription: \"on\n two lines\"\n---\n", VALID),
    ("---\nname: pdf\ndescription: use when: asked\n---\n", YAML),
    ("---\nname: pdf\ndescription: | text\n---\n", YAML),
    ("---\nname: pdf\ndescription: \"a\" b\n---\n", YAML),
    ("---\nname: pdf\ndescription: 'open\n---\n", YAML),
    ("---\nname: pdf\ndescription: http://example.com/a:b#c\n---\n", VALID),
    ("---\nname: 'pdf'\ndescription: \"\\u0064\"\n---\n", VALID),
    ("---\nname: \" pdf \"\ndescription: d\n---\n", VALID),
    ("---\n\"name\": pdf\n'description' : d\n---\n", VALID),
    ("---\n? name\n: pdf\n? description\n: d\n---\n", VALID),
    ("---\n  name: pdf\n  description: d\n---\n", VALID),
    ("---\nname: pdf\n description: d\n---\n", YAML),
    ("---\nname:\n- pdf\ndescription: d\n---\n", &["name-empty"]),
    ("---\nname: \"\"\ndescription: d\n---\n", &["name-empty"]),
    ("---\nname: word\ndescription: d\n---\n", &["name-not-directory"]),
    ("---\nname: PDF\ndescription: d\n---\n", &["name-not-lower-case", "name-not-directory"]),
    ("---\nname: -pdf\ndescription: d\n---\n", &["name-hyphen-at-end", "name-not-directory"]),
    ("---\nname: a--b\ndescription: d\n---\n", &["name-double-hyphen", "name-not-directory"]),
    ("---\nname: a_b\ndescription: d\n---\n", &["name-characters", "name-not-directory"]),
    ("---\nname: ｐｄｆ\ndescription: d\n---\n", VALID),
    ("---\nname: pdf\nname: pdf\ndescription: d\n---\n", DUPLICATE),
];

/// What follows `name: pdf` and `description: d`.
#[rustfmt::skip]
const LINES: &[(&str, &[&str])] = &[
    ("license: MIT", VALID),
    ("license:", VALID),
    ("license: ~", VALID),
    ("license: =", VALID),
    ("license: MIT # comment", VALID),
    ("license: a\u{a0}b", VALID),
    ("license: \"\\ud83d\"", VALID),
    ("license: \"\\U00110000\"", YAML),
    ("license: \"\\q\"", YAML),
    ("license:\tMIT", YAML),
    ("license: MIT\t", YAML),
    ("license: a\tb", YAML),
    ("license: 'a\tb'", VALID),
    ("\tlicense: MIT", YAML),
    ("license: 'MIT'\n\n\t", VALID),
    ("license: a\u{85}b", VALID),
    ("license: |2\n    a\n  b", VALID),
    ("license: |0\n  a", YAML),
    ("license: |\n  a\n b", YAML),
    ("license: \u{7}", CHARACTER),
    ("license: \u{0}", CHARACTER),
    ("license: \u{7f}", CHARACTER),
    ("license: \u{fffe}", CHARACTER),
    ("license: [MIT]", FLOW),
    ("license: {a: b}", FLOW),
    ("license: &a MIT", &["yaml-anchor"]),
    ("license: *a", &["yaml-alias"]),
    ("allowed-tools: *", &["yaml-alias"]),
    ("license: !!str MIT", &["yaml-tag"]),
    ("license: @MIT", YAML),
    ("license: `MIT`", YAML),
    ("license: %MIT", YAML),
    ("license: - MIT", YAML),
    ("license: -MIT", VALID),
    ("license", YAML),
    ("version: 1", UNKNOWN),
    ("Name: pdf", UNKNOWN),
    ("\"<<\": x", UNKNOWN),
    ("<<:\n  anything: goes", VALID),
    ("<<: x", YAML),
    ("metadata:\n  a: b\n  c: 1.10", VALID),
    ("metadata: text", VALID),
    ("metadata:\n- a", VALID),
    ("metadata:\n  a:\n    b: c\n  d:\n    e: f", VALID),
    ("metadata:\n  a:\n    b: c\n  d:\n      e: f", &["yaml-indentation"]),
    ("metadata:\n  a: b\n  'a': c", DUPLICATE),
    ("metadata:\n  ? - a\n  : b", YAML),
    ("metadata:\n  ? a: b\n  : c", YAML),
    ("metadata:\n  : empty key", VALID),
    ("metadata:\n  a: b\n c: d", YAML),
    ("metadata:\n  # one\n  a: b # two\n  # three\n\n  c: d\n# four", VALID),
    ("allowed-tools: Bash(git:*) Read", VALID),
    ("allowed-tools:\n- Read\n- Write", VALID),
    ("allowed-tools:\n  -\n  - Write", VALID),
    ("compatibility: python 3", VALID),
    ("compatibility:", VALID),
    ("compatibility:\n- python", &["compatibility-not-text"]),
    ("compatibility:\n  python: 3", &["compatibility-not-text"]),
    ("compatibility: =", &["compatibility-not-text"]),
];

/// Each with what is wrong with it, in order; nothing if it is valid.
pub(crate) fn all() -> Vec<(Vec<u8>, Vec<&'static str>)> {
    let files = FILES.iter().map(|(file, codes)| (file.as_bytes().to_vec(), codes.to_vec()));
    let lines = LINES.iter().map(|(lines, codes)| {
        (format!("---\nname: pdf\ndescription: d\n{lines}\n---\n").into_bytes(), codes.to_vec())
    });
    files.chain(lines).chain(limits()).collect()
}

/// What is too long to write down, or not UTF-8.
fn limits() -> Vec<(Vec<u8>, Vec<&'static str>)> {
    let with = |name: &str, description: &str, more: &str| {
        format!("---\nname: {name}\ndescription: {description}\n{more}---\n").into_bytes()
    };
    let levels = |count: usize| {
        let nested: String = (1..=count).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
        format!("metadata:\n{nested}")
    };
    let long_name = "a".repeat(65);
    vec![
        (with("pdf", &"技".repeat(1024), ""), vec![]),
        (with("pdf", &"技".repeat(1025), ""), vec!["description-too-long"]),
        (with("pdf", &format!("\"{} \"", "a".repeat(1024)), ""), vec!["description-too-long"]),
        (with("pdf", &format!("|\n  {}", "a".repeat(1023)), ""), vec![]),
        (with("pdf", &format!("|\n  {}", "a".repeat(1024)), ""), vec!["description-too-long"]),
        (with("pdf", "d", &format!("compatibility: {}\n", "é".repeat(500))), vec![]),
        (with("pdf", "d", &format!("compatibility: {}\n", "é".repeat(501))), vec!["compatibility-too-long"]),
        (with(&long_name, "d", ""), vec!["name-too-long", "name-not-directory"]),
        (with("pdf", "d", &format!("\"{}\": x\n", "k".repeat(2000))), vec!["yaml-invalid"]),
        (with("pdf", "d", &levels(90)), vec![]),
        (b"---\nname: pdf\ndescription: \xff\n---\n".to_vec(), vec!["not-utf8"]),
        (b"---\nname: pdf\ndescription: d\n---\n\xc3(".to_vec(), vec!["not-utf8"]),
        (b"---\nname: pdf\ndescription: \xed\xa0\x80\n---\n".to_vec(), vec!["not-utf8"]),
    ]
}

#[test]
fn every_verdict_is_as_written() {
    let cases = all();
    assert!(cases.len() >= 80);
    for (manifest, codes) in cases {
        let problems = validate(&manifest, DIRECTORY);
        let found: Vec<_> = problems.iter().map(|problem| problem.code).collect();
        assert_eq!(found, codes, "{:?}: {problems:?}", String::from_utf8_lossy(&manifest));
    }
}

#[test]
fn a_problem_names_its_line() {
    let line = |manifest: &str| validate(manifest.as_bytes(), DIRECTORY)[0].line;
    assert_eq!(line("---\nname: pdf\ndescription: d\nversion: 1\n---\n"), Some(4));
    assert_eq!(line("---\nname: pdf\n\ndescription: a: b\n---\n"), Some(4));
    assert_eq!(line("---\nname: pdf\ndescription: d\nmetadata:\n  a: b\n  a: c\n---\n"), Some(6));
    assert_eq!(line("---\r\nname: pdf\r\ndescription: [d]\r\n---\r\n"), Some(3));
    assert_eq!(line("text"), Some(1));
}
