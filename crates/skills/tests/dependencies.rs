//! What realistic skills need, from whole directories: each source of a declaration, who wins, and what is refused.

use std::path::Path;

use ringfence_skills::*;
use serde_json::{Map, Value, json};

fn skill(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let tree = tree(directory.path());
    (directory, tree)
}

fn tree(directory: &Path) -> Tree {
    Tree::read(directory, TreeLimits::default(), left_out).unwrap()
}

fn manifest(metadata: Value, extra: Value) -> Manifest {
    let object = |value: Value| value.as_object().cloned().unwrap_or_else(Map::new);
    Manifest {
        name: "example".into(),
        description: "an example".into(),
        license: None,
        compatibility: None,
        allowed_tools: Vec::new(),
        metadata: object(metadata),
        extra: object(extra),
        body: String::new(),
    }
}

fn found(files: &[(&str, &str)], script: Option<&str>) -> Needs {
    let (_directory, tree) = skill(files);
    needs(&tree, &manifest(json!({}), json!({})), script)
}

fn python(files: &[(&str, &str)], script: Option<&str>) -> PythonNeeds {
    found(files, script).python.unwrap()
}

fn texts(list: &[Requirement]) -> Vec<&str> {
    list.iter().map(|one| one.text.as_str()).collect()
}

fn refused(needs: &Needs) -> Vec<&str> {
    needs.refused.iter().map(|one| one.what.as_str()).collect()
}

const BLOCK: &str = r#"#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.10"
# dependencies = [
#   "Requests >= 2",
#   "rich; python_version < '3.13'",
#   "evil @ https://x/evil.whl",
# ]
# ///
import requests, yaml
"#;

#[test]
fn the_block_of_the_script_comes_first() {
    let files = [
        ("scripts/a.py", BLOCK),
        ("requirements.txt", "numpy"),
        ("pyproject.toml", "[project]\ndependencies=['x']"),
    ];
    let needs = found(&files, Some("scripts/a.py"));
    let python = needs.python.as_ref().unwrap();
    assert_eq!(texts(&python.requirements), ["requests>=2", "rich; python_version < \"3.13\""]);
    assert_eq!(python.source, DeclaredIn::Script);
    assert_eq!(python.requires_python.as_ref().unwrap().as_str(), ">=3.10");
    let line = RequirementSource::Pep723 { file: "scripts/a.py".into(), line: 5 };
    assert_eq!(python.requirements[0].from, line);
    assert_eq!(refused(&needs), ["evil @ https://x/evil.whl"]);
    assert_eq!(needs.refused[0].origin, Origin::File { file: "scripts/a.py".into(), line: 7 });
    assert_eq!(texts(&python.undeclared), ["pyyaml"]);
    assert!(!python.inferred());
}

#[test]
fn blocks_that_are_not_one() {
    for text in [
        "# /// script\n# dependencies = ['a']\nimport x\n",
        "x = 1 # /// script\n# ///\n",
        "# /// script\n# not toml\n# ///\nimport requests",
        "#/// script\n# dependencies = ['a']\n# ///\n",
    ] {
        assert_eq!(python(&[("a.py", text)], Some("a.py")).source, DeclaredIn::Imports, "{text}");
    }
    let sources =
        "# /// script\n# dependencies = ['a']\n# [tool.uv.sources]\n# a = { git = 'https://x' }\n# ///\n";
    assert_eq!(refused(&found(&[("a.py", sources)], None)), ["tool.uv.sources"]);
}

const REQUIREMENTS: &str = r#"# comment
Flask==3.0 # why
requests[socks] >=2 ; python_version >= '3.8'
numpy \
  >=1.20, \
  <3
pinned==1.0 \
    --hash=sha256:HASH \
    --hash sha256:HASH

-r more/other.txt
-c bounds.txt
-r ../outside.txt
-r missing.txt
-e .
-e git+https://x/y
git+https://x/z#egg=z
./local
w.whl
--index-url https://evil/simple
--extra-index-url=https://evil
-f https://evil
-ihttps://evil
--trusted-host evil
--pre
x @ https://evil/x.zip
${NAME}
bad==
odd --global-option=x
--frobnicate
"#;

#[test]
fn requirements_files_in_all_their_forms() {
    let hash = "a".repeat(64);
    let needs = found(
        &[
            ("scripts/requirements.txt", &REQUIREMENTS.replace("HASH", &hash)),
            ("scripts/more/other.txt", "-r ../requirements.txt\nextra-one"),
            ("scripts/bounds.txt", "urllib3<3"),
            ("requirements.txt", "not-this-one"),
            ("outside.txt", "in-the-skill"),
            ("scripts/a.py", "import os"),
        ],
        Some("scripts/a.py"),
    );
    let python = needs.python.as_ref().unwrap();
    assert_eq!(
        texts(&python.requirements),
        [
            "extra-one",
            "flask==3.0",
            "in-the-skill",
            "numpy<3,>=1.20",
            "odd",
            "pinned==1.0",
            "requests[socks]>=2; python_version >= \"3.8\"",
        ]
    );
    assert_eq!(texts(&python.constraints), ["urllib3<3"]);
    let pinned = &python.requirements[5];
    assert_eq!(pinned.line(), format!("pinned==1.0 --hash=sha256:{hash}"));
    let from = RequirementSource::RequirementsTxt { file: "scripts/requirements.txt".into(), line: 7 };
    assert_eq!(pinned.from, from);
    assert_eq!(
        refused(&needs),
        [
            "-r missing.txt",
            "-e .",
            "-e git+https://x/y",
            "git+https://x/z#egg=z",
            "./local",
            "w.whl",
            "--index-url https://evil/simple",
            "--extra-index-url=https://evil",
            "-f https://evil",
            "-ihttps://evil",
            "--trusted-host evil",
            "x @ https://evil/x.zip",
            "${NAME}",
            "bad==",
            "--global-option=x",
            "--frobnicate",
        ]
    );
    assert!(needs.notes.iter().any(|note| note.contains("--pre")), "{:?}", needs.notes);
    assert!(needs.notes.iter().any(|note| note.contains("hashes")), "{:?}", needs.notes);
}

#[test]
fn a_requirements_file_from_windows_and_one_that_leads_out() {
    let directory = tempfile::tempdir().unwrap();
    let text = "\u{feff}requests==2.0\r\nrich\r\n";
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(directory.path().join("requirements.txt"), utf16).unwrap();
    std::fs::write(directory.path().join("a.py"), "").unwrap();
    let read = |directory: &Path| needs(&tree(directory), &manifest(json!({}), json!({})), Some("a.py"));
    assert_eq!(texts(&read(directory.path()).python.unwrap().requirements), ["requests==2.0", "rich"]);

    let out = "-r ../../etc/passwd\n-r /etc/passwd\n-r link.txt";
    std::fs::write(directory.path().join("requirements.txt"), out).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", directory.path().join("link.txt")).unwrap();
    let found = read(directory.path());
    assert_eq!(refused(&found), ["-r ../../etc/passwd", "-r /etc/passwd", "-r link.txt"]);
    assert!(found.python.unwrap().requirements.is_empty());
}

const POETRY: &str = "[tool.poetry.dependencies]
python = '^3.9'
requests = '^2.31'
click = '~8.1'
zero = '^0.3.1'
any = '*'
exact = '1.2.3'
extra = {version = '>=1', extras = ['b']}
maybe = {version = '1', optional = true}
git = {git = 'https://x'}
";

#[test]
fn pyproject_of_the_standard_and_of_poetry() {
    let standard = "[project]\nrequires-python='>=3.11'\ndependencies=['httpx>=0.27','a @ git+https://x']\n";
    let needs = found(&[("pyproject.toml", standard), ("scripts/a.py", "")], None);
    let read = needs.python.as_ref().unwrap();
    assert_eq!(texts(&read.requirements), ["httpx>=0.27"]);
    assert_eq!(read.source, DeclaredIn::Pyproject);
    assert!(satisfies(read.requires_python.as_ref().unwrap(), "3.12.1"));
    assert_eq!(refused(&needs), ["a @ git+https://x"]);

    let needs = found(&[("pyproject.toml", POETRY), ("a.py", "")], None);
    let read = needs.python.as_ref().unwrap();
    assert_eq!(
        texts(&read.requirements),
        ["any", "click<8.2,>=8.1", "exact==1.2.3", "extra[b]>=1", "requests<3,>=2.31", "zero<0.4,>=0.3.1"]
    );
    assert_eq!(read.requires_python.as_ref().unwrap().as_str(), "<4,>=3.9");
    assert_eq!(refused(&needs), ["git"]);
}

#[test]
fn a_pyproject_that_declares_no_packages() {
    // Only which Python: the packages are those of the imports.
    let only = [("pyproject.toml", "[project]\nrequires-python='>=3.12'\n"), ("a.py", "import yaml")];
    let read = python(&only, None);
    assert_eq!((read.source, texts(&read.requirements)), (DeclaredIn::Imports, vec!["pyyaml"]));
    assert_eq!(read.requires_python.unwrap().as_str(), ">=3.12");
    let source = |text: &str| python(&[("pyproject.toml", text), ("a.py", "")], None).source;
    // An empty list is a declaration, the settings of a linter are none.
    assert_eq!(source("[project]\ndependencies=[]"), DeclaredIn::Pyproject);
    assert_eq!(source("[tool.ruff]\nx=1"), DeclaredIn::Imports);
    assert_eq!(source(&format!("a = {}", "[".repeat(100_000))), DeclaredIn::Imports);
    let broken = found(&[("pyproject.toml", "[[[["), ("a.py", "")], None);
    assert!(broken.notes[0].contains("not TOML"), "{:?}", broken.notes);
}

#[test]
fn what_the_manifest_declares() {
    let (_directory, tree) = skill(&[("scripts/a.py", "import x"), ("scripts/b.js", "")]);
    let metadata = json!({
        "openclaw": {
            "requires": {
                "bins": ["ffmpeg", "../evil"],
                "anyBins": ["magick", "convert"],
                "env": ["API_TOKEN", "bad name"],
                "config": ["browser.enabled"],
                "python": ["pandas>=2", "--index-url=x"],
                "npm": ["left-pad@^1", "a@git:x"],
            },
            "install": [{"kind": "brew", "formula": "ffmpeg", "bins": ["ffmpeg"]}],
            "primaryEnv": "OTHER_KEY",
        },
        "author": "somebody",
    });
    let extra = json!({"dependencies": "python>=3.9, numpy>=1.20,<3, docker, something-odd"});
    let needs = needs(&tree, &manifest(metadata, extra), None);
    let python = needs.python.as_ref().unwrap();
    assert_eq!(texts(&python.requirements), ["numpy<3,>=1.20", "pandas>=2"]);
    assert_eq!(python.source, DeclaredIn::Metadata);
    assert_eq!(python.requires_python.as_ref().unwrap().as_str(), ">=3.9");
    let binaries: Vec<_> =
        needs.binaries.iter().map(|one| (one.any_of.join("|"), one.hint.as_deref())).collect();
    assert_eq!(
        binaries,
        [
            ("docker".to_owned(), None),
            ("ffmpeg".to_owned(), Some("brew: ffmpeg")),
            ("magick|convert".to_owned(), None),
        ]
    );
    let variables: Vec<_> =
        needs.variables.iter().map(|one| (one.name.as_str(), one.presence, one.secret)).collect();
    assert_eq!(variables, [("API_TOKEN", Presence::Required, true), ("OTHER_KEY", Presence::Required, true)]);
    assert_eq!(refused(&needs), ["--index-url=x", "a@git:x"]);
    assert!(needs.notes.iter().any(|note| note.contains("something-odd")), "{:?}", needs.notes);
    assert!(needs.notes.iter().any(|note| note.contains("browser.enabled")), "{:?}", needs.notes);
    assert_eq!(needs.node.unwrap().dependencies[0].name, "left-pad");
}

#[test]
fn imports_are_followed_through_the_skill() {
    let files = [
        (
            "scripts/main.py",
            "import helper\nfrom lib.tools import load\nfrom . import sibling\nimport utils, json",
        ),
        ("scripts/helper.py", "import yaml\nfrom package.inner import x"),
        ("scripts/sibling.py", "import PIL.Image"),
        ("lib/tools.py", "import requests\ntry:\n  import orjson\nexcept ImportError:\n  orjson = None"),
        ("package/__init__.py", "import bs4"),
        ("package/inner.py", "from ..scripts import main\nfrom google.cloud import storage, bigquery"),
        ("scripts/unused.py", "import torch"),
        ("tests/test_main.py", "import pytest"),
    ];
    let needs = found(&files, Some("scripts/main.py"));
    let read = needs.python.as_ref().unwrap();
    assert_eq!(
        texts(&read.requirements),
        ["beautifulsoup4", "google-cloud-bigquery", "google-cloud-storage", "pillow", "pyyaml", "requests"]
    );
    assert_eq!(texts(&read.optional), ["orjson"]);
    assert!(read.inferred());
    let from = RequirementSource::Inferred {
        module: "yaml".into(),
        file: "scripts/helper.py".into(),
        line: 1,
        known: true,
    };
    assert_eq!(read.requirements[4].from, from);
    assert!(needs.notes.iter().any(|note| note.contains("`utils`")), "{:?}", needs.notes);
    // With all scripts, what no other imports is one too; a test is not.
    let all = python(&files, None);
    assert!(texts(&all.requirements).contains(&"torch") && !texts(&all.requirements).contains(&"pytest"));
}

#[test]
fn modules_of_the_skill_that_look_like_packages() {
    let files = [
        ("scripts/a.py", "import sys\nsys.path.insert(0, 'x')\nimport yaml, deep_one, docx"),
        ("scripts/yaml.py", ""),
        ("other/place/deep_one.py", ""),
        // No package with `__init__.py`: the installed one comes first.
        ("scripts/docx/helper.py", ""),
    ];
    assert_eq!(texts(&python(&files, Some("scripts/a.py")).requirements), ["python-docx"]);
    let without = [("scripts/a.py", "import deep_one"), ("other/place/deep_one.py", "")];
    let read = python(&without, Some("scripts/a.py"));
    assert_eq!(texts(&read.requirements), ["deep-one"]);
    assert!(matches!(read.requirements[0].from, RequirementSource::Inferred { known: false, .. }));
}

#[test]
fn node_with_a_declaration() {
    let package = json!({
        "dependencies": {"axios": "^1.6", "evil": "git+https://x/y", "local": "file:../x"},
        "optionalDependencies": {"fsevents": "*"},
        "devDependencies": {"tsx": "^4"},
        "engines": {"node": ">=20"},
        "scripts": {"postinstall": "node setup.js", "test": "x"},
    });
    let needs = found(
        &[
            ("package.json", &package.to_string()),
            ("package-lock.json", "{}"),
            ("yarn.lock", ""),
            ("scripts/a.mjs", "import axios from 'axios'; import 'cheerio'; import fs from 'node:fs'"),
        ],
        Some("scripts/a.mjs"),
    );
    let node = needs.node.as_ref().unwrap();
    let names: Vec<_> = node.dependencies.iter().map(|one| (one.name.as_str(), one.kind)).collect();
    assert_eq!(
        names,
        [
            ("axios", NodeDependencyKind::Required),
            ("fsevents", NodeDependencyKind::Optional),
            ("tsx", NodeDependencyKind::Development),
        ]
    );
    assert_eq!(refused(&needs), ["evil: git+https://x/y", "local: file:../x"]);
    assert_eq!(node.undeclared[0].name, "cheerio");
    assert_eq!(node.engines_node.as_deref(), Some(">=20"));
    let lock = node.lock.as_ref().unwrap();
    assert_eq!((lock.kind, lock.path.as_str()), (LockKind::Npm, "package-lock.json"));
    assert!(node.scripts.iter().any(|script| script.name == "postinstall" && script.runs_at_install));
    assert!(!node.inferred && node.needs_layer());
    let written: Value = serde_json::from_str(&node.package_json_text()).unwrap();
    assert_eq!(written["dependencies"], json!({"axios": "^1.6"}));
    assert_eq!(written.get("scripts"), None);
}

#[test]
fn node_by_its_imports() {
    let needs = found(
        &[
            (
                "scripts/a.js",
                "const h = require('./lib/h'); require('https://x/y.js'); try { require('sharp') } catch {}",
            ),
            ("scripts/lib/h/index.js", "require('@s/p/deep'); require('fs'); require('../../../../out')"),
        ],
        None,
    );
    let node = needs.node.as_ref().unwrap();
    assert!(node.inferred);
    assert_eq!(node.dependencies.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["@s/p"]);
    assert_eq!(node.optional[0].name, "sharp");
    assert_eq!(refused(&needs), ["https://x/y.js"]);
}

#[test]
fn a_shell_script_brings_what_it_starts() {
    let run = "#!/bin/bash\nDIR=$(dirname \"$0\")\npython3 \"$DIR/a.py\" | jq . > \"${OUT_TOKEN:?}\"\n";
    let needs = found(
        &[
            ("scripts/run.sh", run),
            ("scripts/a.py", "import requests, os\nos.environ['API_KEY']"),
            ("scripts/b.py", "import torch"),
            ("scripts/c.rb", "#!/usr/bin/env ruby\n"),
        ],
        Some("scripts/run.sh"),
    );
    assert_eq!(texts(&needs.python.as_ref().unwrap().requirements), ["requests"]);
    let binaries: Vec<_> = needs.binaries.iter().map(|one| (one.any_of[0].as_str(), one.certainty)).collect();
    assert_eq!(
        binaries,
        [("bash", Certainty::Declared), ("jq", Certainty::Inferred), ("python3", Certainty::Inferred)]
    );
    let variables: Vec<_> =
        needs.variables.iter().map(|one| (one.name.as_str(), one.origin.to_string())).collect();
    assert_eq!(
        variables,
        [("API_KEY", "scripts/a.py:2".to_owned()), ("OUT_TOKEN", "scripts/run.sh:3".to_owned())]
    );
}

#[test]
fn what_the_skill_wants_is_shown_and_an_error_is_a_note() {
    let (_directory, tree) = skill(&[("a.sh", "echo")]);
    let wanted = json!({"ringfence": {"hosts": ["api.example.com"], "env": ["X_TOKEN"], "time": "5m"}});
    let found = needs(&tree, &manifest(wanted, json!({})), None);
    assert_eq!(found.hosts[0].host, "api.example.com");
    assert_eq!(found.limits.time.as_deref(), Some("5m"));
    assert_eq!((found.variables[0].name.as_str(), found.variables[0].secret), ("X_TOKEN", true));
    assert!(found.python.is_none() && found.node.is_none());
    let wrong = needs(&tree, &manifest(json!({"ringfence": {"hots": []}}), json!({})), None);
    assert!(wrong.notes[0].contains("did you mean `hosts`?"), "{:?}", wrong.notes);
}

#[test]
fn equal_sets_have_equal_keys() {
    let key = |text: &str| {
        python(&[("requirements.txt", text), ("c.txt", "c"), ("a.py", "")], None).requirement_set_key()
    };
    assert_eq!(key("b\nA_x >= 1, <2"), key("a.x<2,>=1\n# c\nB"));
    assert_ne!(key("a"), key("b"));
    assert_ne!(key("a==1"), key("a==2"));
    assert_ne!(key("a\n-c c.txt"), key("a\nc"));
    let inferred = python(&[("a.py", "import yaml")], None).requirement_set_key();
    assert_eq!(inferred, key("PyYAML"));
    let node = |lock: &str| {
        let package = r#"{"dependencies":{"a":"1"}}"#;
        let files = [("package.json", package), ("package-lock.json", lock), ("a.js", "")];
        found(&files, None).node.unwrap().requirement_set_key()
    };
    assert_eq!(node("{}"), node("{}"));
    assert_ne!(node("{}"), node("{ }"));
}

#[test]
fn a_script_that_is_not_there_or_no_file() {
    for script in ["missing.py", "../a.py", "/etc/passwd", "", "scripts"] {
        let needs = found(&[("scripts/a.py", "import yaml")], Some(script));
        assert!(needs.python.is_none(), "{script}");
        assert!(needs.notes[0].contains("no such file"), "{:?}", needs.notes);
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_bytes_do_no_harm(
        name in proptest::sample::select(vec![
            "a.py", "a.js", "a.sh", "requirements.txt", "pyproject.toml", "package.json", "scripts/run",
        ]),
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400),
        prefix in proptest::sample::select(vec![
            "", "#!/usr/bin/env python3\n", "# /// script\n", "import ", "{\"dependencies\":{\"",
            "[project]\ndependencies=[",
        ]),
    ) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("scripts")).unwrap();
        for other in ["scripts/b.py", "scripts/b.js"] {
            std::fs::write(directory.path().join(other), "").unwrap();
        }
        std::fs::write(directory.path().join(name), [prefix.as_bytes(), &bytes].concat()).unwrap();
        let needs = needs(&tree(directory.path()), &manifest(json!({}), json!({})), None);
        for one in needs.python.iter().flat_map(|python| &python.requirements) {
            let text = &one.text;
            let safe = text.starts_with(|c: char| c.is_ascii_alphanumeric()) && !text.contains('\n');
            proptest::prop_assert!(safe, "{}", text);
        }
        serde_json::to_string(&needs).unwrap();
    }
}
