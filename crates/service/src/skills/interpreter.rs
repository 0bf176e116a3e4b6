//! What runs a script: its first line, else its extension. Pure: which program a name stands for here is looked up later.

use std::collections::BTreeMap;

/// The part of a file that says what it is.
pub(crate) const HEAD: u64 = 4096;

/// The words before a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interpreter {
    pub(crate) kind: Kind,
    /// After the program, before the script.
    pub(crate) args: Vec<String>,
    /// `env NAME=VALUE` of a first line.
    pub(crate) variables: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The version that a first line names: `3.12`.
    Python {
        version: Option<String>,
    },
    Node,
    /// Node with types taken out.
    TypeScript,
    /// A program by its name; the first that is there.
    Named(Vec<String>),
    /// The file itself: a program for this machine.
    Itself,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoInterpreter {
    #[error("{0} says neither by its first line nor by its extension what runs it")]
    Unknown(String),
    #[error("{0} is a program and not marked as executable")]
    NotExecutable(String),
    #[error("{0} has a first line that names no program")]
    Empty(String),
}

/// Extension and the words before the script. The first word may be one of several names: `bash|sh`.
const TABLE: &[(&str, &[&str])] = &[
    (".py", &["python3"]),
    (".sh", &["bash|sh"]),
    (".bash", &["bash"]),
    (".zsh", &["zsh"]),
    (".fish", &["fish"]),
    (".js", &["node"]),
    (".mjs", &["node"]),
    (".cjs", &["node"]),
    (".ts", &["typescript"]),
    (".mts", &["typescript"]),
    (".cts", &["typescript"]),
    (".tsx", &["tsx"]),
    (".jsx", &["tsx"]),
    (".rb", &["ruby"]),
    (".pl", &["perl"]),
    (".php", &["php"]),
    (".lua", &["lua|lua5.4|lua5.3|luajit"]),
    (".awk", &["awk", "-f"]),
    (".r", &["Rscript"]),
    (".jl", &["julia"]),
    (".tcl", &["tclsh"]),
    (".exs", &["elixir"]),
    (".ps1", &["pwsh", "-File"]),
    (".jq", &["jq", "-f"]),
];

/// Programs that run scripts and that no extension stands for.
const ALSO_KNOWN: &[&str] = &[
    "bun", "dash", "deno", "expect", "gawk", "gnuplot", "guile", "ksh", "make", "mawk", "octave", "racket",
    "raku", "sed",
];

/// Is it a program that people install to run scripts with, or one that the user's config names? A first line can name any
/// program of this machine.
pub(crate) fn is_known(program: &str, own: &BTreeMap<String, Vec<String>>) -> bool {
    let in_table = TABLE.iter().any(|(_, words)| words[0].split('|').any(|name| name == program));
    let in_own = own.values().filter_map(|words| words.first()).any(|word| base_name(word) == program);
    in_table || in_own || ALSO_KNOWN.contains(&program)
}

/// Does its name say that it is a script?
pub(crate) fn has_known_extension(path: &str, own: &BTreeMap<String, Vec<String>>) -> bool {
    extension(path)
        .is_some_and(|found| own.contains_key(&found) || TABLE.iter().any(|(known, _)| *known == found))
}

/// `head` is the beginning of the file; `own` are the user's words for extensions.
pub(crate) fn interpreter(
    path: &str,
    head: &[u8],
    executable: bool,
    own: &BTreeMap<String, Vec<String>>,
) -> Result<Interpreter, NoInterpreter> {
    if head.starts_with(b"\x7fELF") {
        return if executable {
            Ok(plain(Kind::Itself))
        } else {
            Err(NoInterpreter::NotExecutable(path.to_owned()))
        };
    }
    if let Some(line) = first_line(head) {
        return shebang(&line).ok_or_else(|| NoInterpreter::Empty(path.to_owned()));
    }
    let unknown = || NoInterpreter::Unknown(path.to_owned());
    let extension = extension(path).ok_or_else(unknown)?;
    let words: Vec<String> = match own.get(&extension) {
        Some(words) => words.clone(),
        None => {
            let (_, words) = TABLE.iter().find(|(known, _)| *known == extension).ok_or_else(unknown)?;
            words.iter().map(|word| (*word).to_owned()).collect()
        }
    };
    let (program, args) = words.split_first().ok_or_else(unknown)?;
    Ok(Interpreter { kind: kind(base_name(program)), args: args.to_vec(), variables: Vec::new() })
}

fn plain(kind: Kind) -> Interpreter {
    Interpreter { kind, args: Vec::new(), variables: Vec::new() }
}

fn extension(path: &str) -> Option<String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (stem, extension) = name.rsplit_once('.')?;
    (!stem.is_empty()).then(|| format!(".{}", extension.to_ascii_lowercase()))
}

/// What follows `#!`, if the file has such a line.
fn first_line(head: &[u8]) -> Option<String> {
    let head = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
    let rest = head.strip_prefix(b"#!")?;
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Some(String::from_utf8_lossy(line).trim().to_owned())
}

fn shebang(line: &str) -> Option<Interpreter> {
    let mut words = line.split_whitespace().peekable();
    let first = words.next()?;
    let mut variables = Vec::new();
    let mut program = base_name(first).to_owned();
    if program == "env" {
        loop {
            let word = words.next()?;
            if let Some(joined) = word.strip_prefix("-S").or_else(|| word.strip_prefix("--split-string=")) {
                if !joined.is_empty() {
                    program = base_name(joined).to_owned();
                    break;
                }
            } else if let Some((name, value)) = word.split_once('=').filter(|(name, _)| is_variable(name)) {
                variables.push((name.to_owned(), value.to_owned()));
            } else if !word.starts_with('-') {
                program = base_name(word).to_owned();
                break;
            }
        }
    }
    if program.is_empty() {
        return None;
    }
    // Runners that would fetch what a layer has already.
    if matches!(program.as_str(), "uv" | "pipx") && words.peek() == Some(&"run") {
        return Some(Interpreter { kind: Kind::Python { version: None }, args: Vec::new(), variables });
    }
    let args = words.map(str::to_owned).collect();
    Some(Interpreter { kind: kind(&program), args, variables })
}

fn kind(program: &str) -> Kind {
    let version = |rest: &str| {
        let right = !rest.is_empty()
            && rest.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
        right.then(|| rest.to_owned())
    };
    match program {
        "python" | "python3" => Kind::Python { version: None },
        "node" | "nodejs" => Kind::Node,
        "typescript" | "ts-node" => Kind::TypeScript,
        _ => match program.strip_prefix("python").and_then(version) {
            Some(version) if version.starts_with("3.") => Kind::Python { version: Some(version) },
            _ => Kind::Named(program.split('|').map(str::to_owned).collect()),
        },
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_variable(name: &str) -> bool {
    let mut letters = name.bytes();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, head: &str) -> Interpreter {
        interpreter(path, head.as_bytes(), false, &BTreeMap::new())
            .unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn named(name: &str) -> Kind {
        Kind::Named(vec![name.into()])
    }

    const ANY: Kind = Kind::Python { version: None };

    #[test]
    fn lint_reads_all_that_is_run_by_its_extension() {
        for (extension, _) in TABLE {
            assert!(ringfence_skills::is_script_name(&format!("a{extension}")), "{extension}");
        }
    }

    #[test]
    fn the_first_line_before_the_extension() {
        for (line, kind, args) in [
            ("#!/usr/bin/python3", ANY, &[][..]),
            ("#!/usr/bin/env python3", ANY, &[]),
            ("#! /usr/bin/env python\r", ANY, &[]),
            ("#!/usr/bin/env -S python3 -u", ANY, &["-u"]),
            ("#!/usr/bin/env -S uv run --script", ANY, &[]),
            ("#!/usr/bin/env -S uv run --script --quiet", ANY, &[]),
            ("#!/usr/bin/env -Spython3 -u", ANY, &["-u"]),
            ("#!/usr/bin/env python3.12", Kind::Python { version: Some("3.12".into()) }, &[]),
            ("#!/usr/bin/python2.7", named("python2.7"), &[]),
            ("#!/bin/bash -e", named("bash"), &["-e"]),
            ("#!/usr/bin/env node", Kind::Node, &[]),
            ("#!/usr/bin/awk -f", named("awk"), &["-f"]),
            ("#!/usr/local/bin/perl -w", named("perl"), &["-w"]),
        ] {
            let found = of("x.rb", &format!("{line}\nmore"));
            assert_eq!(
                (found.kind, found.args),
                (kind, args.iter().map(|a| (*a).to_owned()).collect()),
                "{line}"
            );
        }
        let found = of("x", "#!/usr/bin/env -S MODE=fast _X=1 bash");
        assert_eq!(found.variables, [("MODE".into(), "fast".into()), ("_X".into(), "1".into())]);
        assert_eq!(found.kind, named("bash"));
    }

    #[test]
    fn the_extension_where_there_is_no_first_line() {
        assert_eq!(of("scripts/x.py", "print(1)").kind, ANY);
        assert_eq!(of("x.R", "").kind, named("Rscript"));
        assert_eq!(of("x.sh", "").kind, Kind::Named(vec!["bash".into(), "sh".into()]));
        assert_eq!(of("x.ts", "").kind, Kind::TypeScript);
        assert_eq!(of("x.awk", "").args, ["-f"]);
        let own = BTreeMap::from([(".jl".to_owned(), vec!["julia".to_owned(), "-q".to_owned()])]);
        let found = interpreter("x.JL", b"", false, &own).unwrap();
        assert_eq!((found.kind, found.args), (named("julia"), vec!["-q".to_owned()]));
    }

    #[test]
    fn known_are_interpreters_and_what_the_user_names() {
        let own = BTreeMap::from([(".x".to_owned(), vec!["/data/bin/xlang".to_owned()])]);
        assert!(["bash", "luajit", "ruby", "xlang", "deno"].iter().all(|name| is_known(name, &own)));
        assert!(["mytool", "aws", "kubectl", "", "bash|sh"].iter().all(|name| !is_known(name, &own)));
        assert_eq!(interpreter("a.x", b"", false, &own).unwrap().kind, named("xlang"));
    }

    #[test]
    fn what_nothing_runs() {
        let none =
            |path: &str, head: &[u8], executable| interpreter(path, head, executable, &BTreeMap::new());
        assert!(matches!(none("x", b"hello", true), Err(NoInterpreter::Unknown(_))));
        assert!(matches!(none(".py", b"", true), Err(NoInterpreter::Unknown(_))));
        assert!(matches!(none("x.py", b"#!\n", true), Err(NoInterpreter::Empty(_))));
        assert!(matches!(none("x.py", b"#!/usr/bin/env -S\n", true), Err(NoInterpreter::Empty(_))));
        assert!(matches!(none("x", b"\x7fELF", false), Err(NoInterpreter::NotExecutable(_))));
        assert_eq!(none("x", b"\x7fELF", true).unwrap().kind, Kind::Itself);
    }
}
