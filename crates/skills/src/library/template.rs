//! A new skill to start from: small, complete, valid in the strict sense.

use serde::Serialize;

use crate::{Level, validate};

use super::LibraryError;

/// What its script is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    Python,
    Bash,
    Node,
}

/// A file of a new skill, relative to its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateFile {
    pub path: &'static str,
    pub content: String,
    pub executable: bool,
}

/// The files of a new skill. A name or description that is not valid is an error.
pub fn template(
    language: Language,
    name: &str,
    description: &str,
) -> Result<Vec<TemplateFile>, LibraryError> {
    let (path, command, script) = match language {
        Language::Python => ("scripts/main.py", "python scripts/main.py", PYTHON),
        Language::Bash => ("scripts/main.sh", "bash scripts/main.sh", BASH),
        Language::Node => ("scripts/main.mjs", "node scripts/main.mjs", NODE),
    };
    let refused = |why: &str| LibraryError::Template(format!("no skill can be made of this: {why}"));
    let strict = !name.is_empty()
        && name.len() <= 64
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    if !strict {
        return Err(refused("a new name is up to 64 of a-z, 0-9 and single hyphens between them"));
    }
    if description.trim().is_empty() || description.chars().count() > 1024 {
        return Err(refused("a description has 1 to 1024 characters"));
    }
    if description.chars().any(char::is_control) {
        return Err(refused("a description has no control characters, such as line breaks"));
    }
    let manifest = manifest(name, description, command);
    if let Some(problem) =
        validate(manifest.as_bytes(), name).iter().find(|problem| problem.level == Level::Error)
    {
        return Err(refused(&problem.message));
    }
    Ok(vec![
        TemplateFile { path: "SKILL.md", content: manifest, executable: false },
        TemplateFile { path, content: script.replace("{name}", name), executable: true },
    ])
}

fn manifest(name: &str, description: &str, command: &str) -> String {
    // Always quoted: a description may have a colon, a hash or a quote, a name may be a number.
    let quoted = description.replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        r#"---
name: "{name}"
description: "{quoted}"
---

# {name}

Say here what an agent should do with this skill, step by step.

## When to use it

- Name the tasks, and the words in which people ask for them.

## How to use it

```bash
{command} --help
{command} INPUT
```

The script prints its result to standard output. It needs no network and writes to the working directory only.
"#
    )
}

const PYTHON: &str = r#"#!/usr/bin/env python3
"""{name}: reads a file and prints how many lines and words it has."""

# /// script
# requires-python = ">=3.9"
# dependencies = []
# ///

import argparse
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input", type=Path, help="the file to read")
    arguments = parser.parse_args()
    try:
        text = arguments.input.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        print(f"{arguments.input}: {error}", file=sys.stderr)
        return 1
    print(f"{len(text.splitlines())} lines, {len(text.split())} words")
    return 0


if __name__ == "__main__":
    sys.exit(main())
"#;

const BASH: &str = r#"#!/usr/bin/env bash
# {name}: reads a file and prints how many lines and words it has.
set -euo pipefail

if [[ $# -ne 1 || $1 == --help ]]; then
    echo "usage: main.sh INPUT"
    [[ ${1:-} == --help ]] && exit 0
    exit 2
fi
if [[ ! -f $1 ]]; then
    echo "$1: no such file" >&2
    exit 1
fi
echo "$(wc -l <"$1" | tr -d ' ') lines, $(wc -w <"$1" | tr -d ' ') words"
"#;

const NODE: &str = r#"#!/usr/bin/env node
// {name}: reads a file and prints how many lines and words it has.
import { readFile } from "node:fs/promises";

const [input] = process.argv.slice(2);
if (input === undefined || input === "--help") {
  console.log("usage: main.mjs INPUT");
  process.exit(input ? 0 : 2);
}
try {
  const text = await readFile(input, "utf8");
  const lines = text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
  const words = text.split(/\s+/).filter(Boolean).length;
  console.log(`${lines} lines, ${words} words`);
} catch (error) {
  console.error(`${input}: ${error.message}`);
  process.exit(1);
}
"#;

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn every_language_makes_a_valid_skill_whose_script_works() {
        let all = [(Language::Python, "python3"), (Language::Bash, "bash"), (Language::Node, "node")];
        for (language, interpreter) in all {
            let files = template(language, "word-count", r#"Count: "words" # and \ lines"#).unwrap();
            let manifest = files.iter().find(|file| file.path == "SKILL.md").unwrap();
            assert_eq!(validate(manifest.content.as_bytes(), "word-count"), []);
            if Command::new(interpreter).arg("--version").output().is_err() {
                eprintln!("skipped: no {interpreter} here");
                continue;
            }
            let directory = tempfile::tempdir().unwrap();
            let script = files.iter().find(|file| file.executable).unwrap();
            let path = directory.path().join(script.path.rsplit('/').next().unwrap());
            std::fs::write(&path, &script.content).unwrap();
            let input = directory.path().join("input");
            std::fs::write(&input, "one two\nthree\n").unwrap();
            let output = Command::new(interpreter).arg(&path).arg(&input).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), "2 lines, 3 words\n", "{language:?}");
            let missing = Command::new(interpreter).arg(&path).arg("/nowhere").output().unwrap();
            assert_eq!(missing.status.code(), Some(1), "{language:?}");
        }
    }

    #[test]
    fn what_strict_validation_refuses_is_not_made() {
        for name in ["", "A", "-a", "a-", "a--b", "a b", "../a", &"a".repeat(65)] {
            assert!(template(Language::Bash, name, "x").is_err(), "{name}");
        }
        for description in ["", " ", "a\nb", &"a".repeat(1025)] {
            assert!(template(Language::Bash, "a", description).is_err(), "{description}");
        }
    }
}
