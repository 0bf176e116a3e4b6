//! Loading: what is accepted, repaired and refused.

use ringfence_skills::{Level, Loaded, Unloadable, load};
use serde_json::json;

fn loaded(manifest: &str) -> Loaded {
    load(manifest.as_bytes(), "pdf").unwrap_or_else(|error| panic!("{manifest:?}: {error:?}"))
}

/// The codes and lines of all warnings.
fn warnings(loaded: &Loaded) -> Vec<(&'static str, Option<u32>)> {
    assert!(loaded.warnings.iter().all(|warning| warning.level == Level::Warning));
    loaded.warnings.iter().map(|warning| (warning.code, warning.line)).collect()
}

fn refused(manifest: &[u8]) -> (&'static str, Option<u32>) {
    let Unloadable(problem) = load(manifest, "pdf").expect_err(&String::from_utf8_lossy(manifest));
    assert_eq!(problem.level, Level::Error);
    (problem.code, problem.line)
}

#[test]
fn a_valid_one_loads_without_a_warning() {
    let manifest = "---\nname: pdf\ndescription: Reads PDF.\nlicense: MIT\nallowed-tools: Read Bash(git add:*)\n\
                    metadata:\n  version: 1.10\n---\n\n# Body\n";
    let loaded = loaded(manifest);
    assert_eq!(warnings(&loaded), []);
    let manifest = loaded.manifest;
    assert_eq!((manifest.name.as_str(), manifest.description.as_str()), ("pdf", "Reads PDF."));
    assert_eq!(manifest.license.as_deref(), Some("MIT"));
    assert_eq!(manifest.allowed_tools, ["Read", "Bash(git add:*)"]);
    assert_eq!(manifest.metadata["version"], "1.10");
    assert_eq!(manifest.body, "\n# Body\n");
}

/// A manifest, the description that it must come to, and the repair that must be named, with its line.
#[rustfmt::skip]
const REPAIRS: &[(&str, &str, &str, u32)] = &[
    ("---\nname: pdf\ndescription: Use when: asked\n---\n", "Use when: asked", "repaired-colon", 3),
    ("---\nname: pdf\nlicense: a\ndescription: Use: this, \"that\" and it's: fine\n---\n", "Use: this, \"that\" and it's: fine", "repaired-colon", 4),
    ("---\nname: pdf\ndescription: First line\n  goes on: here\n\n  and here\n---\n", "First line goes on: here and here", "repaired-colon", 3),
    ("---\nname: pdf\ndescription: Ends with a colon:\n---\n", "Ends with a colon:", "repaired-colon", 3),
    ("---\nname: pdf\ndescription: | Some text\n---\n", "Some text", "repaired-block-text", 3),
    ("---\nname: pdf\ndescription: | Some text\n  and more\nlicense: MIT\n---\n", "Some text\nand more", "repaired-block-text", 3),
    ("---\nname: pdf\ndescription: >- Some text\n    and more\n---\n", "Some text and more", "repaired-block-text", 3),
    ("---\nname: pdf\ndescription: d\nallowed-tools: *\n---\n", "d", "repaired-indicator", 4),
    ("---\nname: pdf\ndescription: d\nallowed-tools:\n  - *\n  - Read\n---\n", "d", "repaired-indicator", 5),
    ("---\nname: pdf\ndescription: @mention it\n---\n", "@mention it", "repaired-indicator", 3),
    ("---\nname: pdf\ndescription: `pdf` files\n---\n", "`pdf` files", "repaired-indicator", 3),
    ("---\nname: pdf\ndescription: [WIP] reads PDF\n---\n", "[WIP] reads PDF", "repaired-indicator", 3),
    ("---\nname: pdf\ndescription: **Bold** text\n---\n", "**Bold** text", "repaired-indicator", 3),
    ("---\nname: pdf\ndescription: \"Quoted\" and more\n---\n", "\"Quoted\" and more", "repaired-text-after-quote", 3),
    ("---\nname: pdf\ndescription: 'Quoted' and it's: more\n---\n", "'Quoted' and it's: more", "repaired-text-after-quote", 3),
    ("---\nname: pdf\ndescription: \"never closed\nlicense: MIT\n---\n", "\"never closed", "repaired-open-quote", 3),
    ("---\nname: pdf\ndescription: d\nmetadata:\n\tauthor: me\n---\n", "d", "repaired-tab", 5),
    ("---\nname: pdf\ndescription: >\n\tindented\n\twith tabs\n---\n", "indented with tabs", "repaired-tab", 4),
    ("\u{feff}---\nname: pdf\ndescription: d\n---\n", "d", "byte-order-mark", 1),
    ("<!-- a\ncomment -->\n---\nname: pdf\ndescription: d\n---\n", "d", "html-comment-first", 1),
    ("\n\n---\nname: pdf\ndescription: d\n---\n", "d", "leading-blank", 1),
    ("---\nname: pdf\ndescription: d --- no more\n", "d", "frontmatter-end", 3),
];

#[test]
fn what_people_get_wrong_is_repaired_and_named() {
    for (manifest, description, code, line) in REPAIRS {
        let loaded = loaded(manifest);
        assert_eq!(loaded.manifest.description, *description, "{manifest:?}");
        assert_eq!(warnings(&loaded), [(*code, Some(*line))], "{manifest:?}");
        assert_eq!(loaded.manifest.name, "pdf");
        let windows = manifest.replace('\n', "\r\n");
        assert_eq!(load(windows.as_bytes(), "pdf").unwrap(), loaded, "{windows:?}");
    }
}

#[test]
fn repairs_leave_the_rest_as_it_is() {
    let loaded = loaded(
        "---\nname: pdf\ndescription: Use when: asked\nallowed-tools: *\nlicense: 'MIT: really'\nmetadata:\n  \
         tags: [a, b]\n  text: |\n    key: value: more\n  url: http://a.b\n---\n",
    );
    assert_eq!(warnings(&loaded), [("repaired-colon", Some(3)), ("repaired-indicator", Some(4))]);
    let manifest = loaded.manifest;
    assert_eq!(manifest.allowed_tools, ["*"]);
    assert_eq!(manifest.license.as_deref(), Some("MIT: really"));
    let metadata = json!({"tags": ["a", "b"], "text": "key: value: more\n", "url": "http://a.b"});
    assert_eq!(serde_json::Value::Object(manifest.metadata), metadata);
}

#[test]
fn every_scalar_keeps_its_text() {
    let values =
        ["1.10", "123", "yes", "null", "~", "2024-01-01", "0x1f", "1e3", ".inf", "true", "012", "12:30:45"];
    for value in values {
        for manifest in [
            format!(
                "---\nname: {value}\ndescription: {value}\nversion: {value}\nmetadata:\n  v: {value}\n---\n"
            ),
            // The other reader: the reference's has no flow style.
            format!(
                "---\nname: {value}\ndescription: {value}\nversion: {value}\nmetadata: {{v: {value}}}\n---\n"
            ),
        ] {
            let manifest = loaded(&manifest).manifest;
            assert_eq!((manifest.name.as_str(), manifest.description.as_str()), (value, value));
            assert_eq!((&manifest.extra["version"], &manifest.metadata["v"]), (&json!(value), &json!(value)));
        }
    }
}

#[test]
fn tools_in_every_form() {
    for tools in ["Read, Write", "Read Write", "[Read, Write]", "\n  - Read\n  - Write", "\n- Read\n- Write"]
    {
        let manifest =
            loaded(&format!("---\nname: pdf\ndescription: d\nallowed-tools: {tools}\n---\n")).manifest;
        assert_eq!(manifest.allowed_tools, ["Read", "Write"], "{tools:?}");
    }
    let wrong = loaded("---\nname: pdf\ndescription: d\nallowed-tools:\n  - Read\n  - {a: b}\n---\n");
    assert_eq!(wrong.manifest.allowed_tools, ["Read"]);
    assert_eq!(warnings(&wrong), [("allowed-tools-not-text", Some(6))]);
}

#[test]
fn what_is_not_in_the_specification_is_kept_with_a_warning() {
    let loaded = loaded(
        "---\nname: Other Name\ndescription: d\nversion: 1.10\nlicense: [MIT, BSD]\nmetadata: [a]\n\
         hooks: {pre: {run: x}}\nversion: 2\n---\n",
    );
    let manifest = &loaded.manifest;
    assert_eq!(manifest.name, "Other Name");
    assert_eq!(manifest.extra["version"], "2");
    assert_eq!(manifest.extra["hooks"], json!({"pre": {"run": "x"}}));
    assert_eq!((&manifest.license, &manifest.extra["license"]), (&None, &json!(["MIT", "BSD"])));
    assert_eq!((manifest.metadata.len(), &manifest.extra["metadata"]), (0, &json!(["a"])));
    let codes: Vec<_> = loaded.warnings.iter().map(|warning| warning.code).collect();
    for code in [
        "name-not-lower-case",
        "name-characters",
        "name-not-directory",
        "unknown-field",
        "license-not-text",
        "metadata-not-a-mapping",
        "yaml-duplicate-key",
    ] {
        assert!(codes.contains(&code), "{code} in {codes:?}");
    }
}

#[test]
fn a_name_that_is_missing_is_that_of_the_directory() {
    for name in ["", "name:\n", "name: [a]\n", "name: \"  \"\n"] {
        let loaded = loaded(&format!("---\n{name}description: d\n---\n"));
        assert_eq!(loaded.manifest.name, "pdf");
        assert_eq!(loaded.warnings[0].code, "name-missing");
    }
}

#[test]
fn anchors_aliases_and_tags_are_read() {
    let loaded =
        loaded("---\nname: pdf\ndescription: &d !!str text\nmetadata: {a: *d, b: &l [x], c: *l}\n---\n");
    assert_eq!(loaded.manifest.description, "text");
    assert_eq!(
        serde_json::Value::Object(loaded.manifest.metadata),
        json!({"a": "text", "b": ["x"], "c": ["x"]})
    );
}

#[test]
fn what_can_not_be_read_is_refused_with_its_line() {
    let cases: &[(&[u8], &str, Option<u32>)] = &[
        (b"", "frontmatter-missing", Some(1)),
        (b"# Title\n", "frontmatter-missing", Some(1)),
        (b"\n\n<!-- x\n", "frontmatter-missing", Some(3)),
        (b"---\nname: pdf\ndescription: d\n", "frontmatter-unclosed", Some(1)),
        (b"---\n---\n", "frontmatter-not-a-mapping", Some(1)),
        (b"---\ntext\n---\n", "frontmatter-not-a-mapping", Some(1)),
        (b"---\nname: pdf\n---\n", "description-missing", Some(1)),
        (b"---\nname: pdf\ndescription:\n---\n", "description-empty", Some(3)),
        (b"---\nname: pdf\ndescription: ' '\n---\n", "description-empty", Some(3)),
        (b"---\nname: pdf\ndescription: [a]\n---\n", "description-not-text", Some(3)),
        (b"---\nname: pdf\n}\ndescription: d\n---\n", "yaml-invalid", Some(3)),
        (b"---\nname: pdf\ndescription: \xff\n---\n", "not-utf8", Some(3)),
        (b"---\nname: pdf\ndescription: d\n---\n\n\0", "nul-byte", Some(6)),
        (b"---\nname: pdf\ndescription: d\nmetadata: &a [*a]\n---\n", "yaml-alias", Some(4)),
    ];
    for (manifest, code, line) in cases {
        assert_eq!(refused(manifest), (*code, *line), "{:?}", String::from_utf8_lossy(manifest));
    }
}
