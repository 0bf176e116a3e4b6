//! Packages by the imports of a script, where nothing else says which.

use std::collections::BTreeMap;

use super::super::origin::Remarks;
use super::super::text::shown;
use super::blocks::Dependence;
use super::declared::sorted;
use super::modules::Reached;
use super::packages::{self, Package};
use super::{Requirement, RequirementSource, requirement, stdlib};

/// What the imports come to.
#[derive(Default)]
pub(super) struct Inferred {
    pub(super) needed: Vec<Requirement>,
    pub(super) optional: Vec<Requirement>,
}

/// Names that scripts give to files of their own: where such a file is missing, no package of that name is meant.
#[rustfmt::skip]
const NO_PACKAGE: &[&str] = &[
    "api", "app", "base", "cli", "client", "common", "conf", "config", "conftest", "constants", "core", "data", "db",
    "exceptions", "helper", "helpers", "lib", "libs", "logger", "main", "model", "models", "modules", "my_module",
    "mymodule", "parser", "run", "schema", "schemas", "script", "scripts", "server", "service", "services", "settings",
    "setup", "shared", "skill", "skills", "src", "test", "tests", "tool", "tools", "types", "util", "utils", "version",
];

/// Modules that exist only inside the program that runs the script.
const OF_A_HOST: &[&str] = &[
    "FreeCAD",
    "arcpy",
    "bpy",
    "c4d",
    "gdb",
    "hou",
    "idaapi",
    "idautils",
    "idc",
    "lldb",
    "maya",
    "nuke",
    "pymel",
    "rhinoscriptsyntax",
    "unreal",
    "vim",
];

const MOST_PACKAGES: usize = 500;

/// From all files that a script reaches.
pub(super) fn infer(reached: &[Reached], remarks: &mut Remarks) -> Inferred {
    let mut found: BTreeMap<String, (Dependence, Requirement)> = BTreeMap::new();
    for Reached { path, source } in reached {
        if found.len() > MOST_PACKAGES {
            remarks.note(format!("more than {MOST_PACKAGES} packages are imported; the rest is left out"));
            break;
        }
        for import in &source.imports {
            let top = import.top();
            if import.dependence == Dependence::Types || stdlib::contains(top) {
                continue;
            }
            if OF_A_HOST.contains(&top) {
                remarks.note(format!(
                    "{path}:{}: `{top}` exists only inside the program it belongs to",
                    import.line
                ));
                continue;
            }
            for Package { requirement: text, known } in packages::of(&import.module, &import.names) {
                if !known && NO_PACKAGE.contains(&top) {
                    let line = import.line;
                    remarks.note(format!("{path}:{line}: imports `{top}`, which the skill does not have"));
                    continue;
                }
                let Ok(parsed) = requirement::parse(&text) else {
                    remarks.note(format!("{path}:{}: no package can be named `{}`", import.line, shown(top)));
                    continue;
                };
                let from = RequirementSource::Inferred {
                    module: shown(&import.module),
                    file: path.clone(),
                    line: import.line,
                    known,
                };
                let one =
                    Requirement { name: parsed.name.clone(), text: parsed.text(), hashes: Vec::new(), from };
                match found.get_mut(&one.text) {
                    Some((before, _)) if *before <= import.dependence => {}
                    Some(before) => *before = (import.dependence, one),
                    None => {
                        found.insert(one.text.clone(), (import.dependence, one));
                    }
                }
            }
        }
    }
    let (needed, optional): (Vec<_>, Vec<_>) =
        found.into_values().partition(|(dependence, _)| *dependence == Dependence::Needed);
    let take = |list: Vec<(Dependence, Requirement)>| sorted(list.into_iter().map(|(_, one)| one).collect());
    Inferred { needed: take(needed), optional: take(optional) }
}

/// Does a declaration of `declared` bring what was inferred as `inferred`?
pub(super) fn covers(declared: &str, inferred: &str) -> bool {
    const SAME: &[(&str, &[&str])] = &[
        ("beautifulsoup4", &["bs4"]),
        ("faiss-cpu", &["faiss", "faiss-gpu", "faiss-gpu-cu12"]),
        ("google-generativeai", &["google-genai"]),
        (
            "opencv-python-headless",
            &["opencv-python", "opencv-contrib-python", "opencv-contrib-python-headless"],
        ),
        ("pillow", &["pillow-simd"]),
        ("psycopg2-binary", &["psycopg2"]),
        ("pycryptodome", &["pycrypto"]),
        ("pymupdf", &["fitz"]),
        ("pinecone", &["pinecone-client"]),
        ("python-magic", &["python-magic-bin"]),
        ("scikit-learn", &["sklearn"]),
        ("tensorflow", &["tensorflow-cpu", "tensorflow-gpu"]),
    ];
    declared == inferred || SAME.iter().any(|(name, others)| *name == inferred && others.contains(&declared))
}
