//! What a script is written in: by its first line, else by the ending of its name.

/// What reads a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::dependencies) enum Interpreter {
    Python,
    Node,
    /// A shell, by its name.
    Shell(String),
    /// Any other program, and whether the script's first line names it.
    Other {
        program: String,
        named: bool,
    },
}

/// Nothing where the file is no script. `text` is the beginning of the file, or all of it.
pub(in crate::dependencies) fn of(path: &str, text: &str) -> Option<Interpreter> {
    if let Some(line) = text.strip_prefix("#!")
        && let Some(program) = program(line.lines().next().unwrap_or_default())
    {
        return Some(by_program(program));
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty())?.1;
    Some(match ending {
        "py" => Interpreter::Python,
        "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" => Interpreter::Node,
        "sh" => Interpreter::Shell("sh".to_owned()),
        "bash" | "zsh" | "fish" | "ksh" => Interpreter::Shell(ending.to_owned()),
        _ => {
            let program = OTHERS.iter().find(|(other, _)| *other == ending)?.1;
            Interpreter::Other { program: program.to_owned(), named: false }
        }
    })
}

/// Can a file of this name be a script without a first line that says so?
pub(in crate::dependencies) fn has_ending(path: &str) -> bool {
    of(path, "").is_some()
}

const OTHERS: &[(&str, &str)] = &[
    ("rb", "ruby"),
    ("pl", "perl"),
    ("php", "php"),
    ("lua", "lua"),
    ("R", "Rscript"),
    ("r", "Rscript"),
    ("jl", "julia"),
    ("awk", "awk"),
    ("ps1", "pwsh"),
    ("applescript", "osascript"),
];

/// The program that a first line means: `/usr/bin/env -S A=b python3 -u` is `python3`.
fn program(line: &str) -> Option<&str> {
    let mut words = line.split_ascii_whitespace();
    let bare = |word: &'_ str| -> usize { word.rfind('/').map_or(0, |at| at + 1) };
    let first = words.next()?;
    let first = &first[bare(first)..];
    if first != "env" {
        return Some(first).filter(|name| super::programs::is_name(name));
    }
    let word = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    let name = &word[bare(word)..];
    // `uv run --script` and `pipx run` are there for Python.
    if matches!(name, "uv" | "uvx" | "pipx") {
        return Some("python3");
    }
    Some(name).filter(|name| super::programs::is_name(name))
}

fn by_program(program: &str) -> Interpreter {
    let plain = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    match plain {
        "python" | "pypy" => Interpreter::Python,
        "node" | "nodejs" | "tsx" | "ts-node" => Interpreter::Node,
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" | "fish" => Interpreter::Shell(plain.to_owned()),
        _ => Interpreter::Other { program: program.to_owned(), named: true },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_first_line_else_by_ending() {
        let shell = |name: &str| Some(Interpreter::Shell(name.to_owned()));
        let other = |name: &str, named| Some(Interpreter::Other { program: name.to_owned(), named });
        for (path, text, expected) in [
            ("a.py", "", Some(Interpreter::Python)),
            ("a", "#!/usr/bin/env python3\n", Some(Interpreter::Python)),
            ("a", "#!/usr/bin/python3.11 -u", Some(Interpreter::Python)),
            ("a", "#!/usr/bin/env -S uv run --script", Some(Interpreter::Python)),
            ("a", "#!/usr/bin/env -S A=b node --x", Some(Interpreter::Node)),
            ("a.mjs", "", Some(Interpreter::Node)),
            ("a.sh", "#!/bin/bash", shell("bash")),
            ("a.sh", "", shell("sh")),
            ("a", "#! /bin/sh", shell("sh")),
            ("a.rb", "", other("ruby", false)),
            ("a.sh", "#!/usr/bin/env ruby", other("ruby", true)),
            ("a.ts", "#!/usr/bin/env -S deno run", other("deno", true)),
            ("a.md", "", None),
            ("a", "#!", None),
            ("a", "#!/usr/bin/env", None),
            ("a", "#!/x/$(reboot)", None),
            (".py", "", None),
        ] {
            assert_eq!(of(path, text), expected, "{path} {text}");
        }
    }
}
