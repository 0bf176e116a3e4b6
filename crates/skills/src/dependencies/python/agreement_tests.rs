//! Imports as we read them against Python's own parser, on every file of the Python that is installed here.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::source;
use super::tokens::with_plain_line_ends;

const PYTHON: &str = "/usr/bin/python3";

/// Prints, for each file named on standard input that it can parse, its imports as one line of JSON.
const DRIVER: &str = r#"
import ast, json, sys, warnings
warnings.simplefilter("ignore")
for path in sys.stdin.read().splitlines():
    try:
        with open(path, "rb") as file:
            data = file.read()
        data.decode("utf-8")
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        continue
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [[0, alias.name, node.lineno, []] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names if alias.name != "*"]
            found.append([node.level, node.module or "", node.lineno, names])
    print(json.dumps([path, sorted(found)]))
"#;

type Found = (usize, String, u32, Vec<String>);

#[test]
fn imports_are_those_that_python_sees() {
    let mut files = Vec::new();
    for entry in std::fs::read_dir("/usr/lib").into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with("python3") {
            collect(&entry.path(), &mut files);
        }
    }
    if !Path::new(PYTHON).exists() || files.len() < 100 {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "no Python with its library here");
        eprintln!("skipped: no Python with its library here");
        return;
    }
    let expected = python_sees(&files);
    assert!(expected.len() >= 100, "Python parsed only {} of {} files", expected.len(), files.len());
    let mut differing = Vec::new();
    for (path, expected) in &expected {
        let text = with_plain_line_ends(String::from_utf8(std::fs::read(path).unwrap()).unwrap());
        let mut ours: Vec<Found> = source::read(text.trim_start_matches('\u{feff}'))
            .imports
            .into_iter()
            .filter(|import| !import.dynamic)
            .map(|import| (import.level, import.module, import.line, import.names))
            .collect();
        ours.sort();
        if ours != *expected {
            let only_ours: Vec<_> = ours.iter().filter(|one| !expected.contains(one)).collect();
            let only_theirs: Vec<_> = expected.iter().filter(|one| !ours.contains(one)).collect();
            differing.push(format!("{path}: only we see {only_ours:?}, only Python sees {only_theirs:?}"));
        }
    }
    let all = expected.len();
    println!("{} of {all} files agree\n{}", all - differing.len(), differing.join("\n"));
    assert!(
        differing.len() * 1000 <= all * 5,
        "{} of {all} differ:\n{}",
        differing.len(),
        differing.join("\n")
    );
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            collect(&entry.path(), files);
        } else if kind.is_file() && entry.path().extension().is_some_and(|extension| extension == "py") {
            files.push(entry.path());
        }
    }
}

fn python_sees(files: &[PathBuf]) -> BTreeMap<String, Vec<Found>> {
    let mut child = Command::new(PYTHON)
        .args(["-I", "-c", DRIVER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let names: String = files.iter().map(|path| format!("{}\n", path.display())).collect();
    let mut stdin = child.stdin.take().unwrap();
    // Python reads everything before it writes anything.
    stdin.write_all(names.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<(String, Vec<Found>)>(line).unwrap())
        .collect()
}
