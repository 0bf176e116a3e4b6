//! What runs before anyone asked for it: at an install, a test run, a start of Python, an opened directory, a load.

use serde_json::Value;

use super::file::{extension, name};
use super::finding::excerpt;
use super::report::Report;
use super::rules::{
    AUTORUN_AGENT, AUTORUN_EDITOR, AUTORUN_EXPANSION, AUTORUN_GIT, AUTORUN_INSTALL, AUTORUN_PYTHON,
    AUTORUN_TESTS,
};
use super::text::Text;

pub(super) fn check_name(report: &mut Report, path: &str) {
    let file = name(path);
    let mut parents = path.split('/').rev().skip(1);
    match file {
        "conftest.py" => report.add(&AUTORUN_TESTS, path, None, "pytest imports this file by itself"),
        "sitecustomize.py" | "usercustomize.py" => {
            report.add(&AUTORUN_PYTHON, path, None, "Python imports this file at every start");
        }
        ".envrc" => {
            report.add(&AUTORUN_EDITOR, path, None, "direnv runs this file when the directory is entered")
        }
        _ => {}
    }
    let hooks = [".githooks", ".husky"];
    let is_hook = parents.clone().any(|parent| hooks.contains(&parent))
        || path.contains(".git/hooks/") && extension(path) != "sample";
    if is_hook && parents.next() != Some("_") {
        report.add(&AUTORUN_GIT, path, None, "a git hook");
    }
}

pub(super) fn check_text(report: &mut Report, path: &str, text: &Text, is_manifest: bool) {
    if is_manifest {
        check_expansion(report, path, text);
    }
    match name(path) {
        "package.json" => check_package(report, path, text),
        "tasks.json" if path.contains(".vscode/") => {
            if let Some(at) = text.source.find("folderOpen") {
                report.add(
                    &AUTORUN_EDITOR,
                    path,
                    Some(text.line(at)),
                    "a task that runs when the directory is opened",
                );
            }
        }
        "devcontainer.json" | ".devcontainer.json" => {
            for command in [
                "initializeCommand",
                "postCreateCommand",
                "postStartCommand",
                "onCreateCommand",
                "postAttachCommand",
                "updateContentCommand",
            ] {
                if let Some(at) = text.source.find(&format!("\"{command}\"")) {
                    report.add(
                        &AUTORUN_EDITOR,
                        path,
                        Some(text.line(at)),
                        &format!("`{command}` runs when the container is opened"),
                    );
                }
            }
        }
        ".mcp.json" | "mcp.json" if text.source.contains("\"command\"") => {
            report.add(&AUTORUN_AGENT, path, None, "MCP servers with a command to start");
        }
        "settings.json" | "settings.local.json" | "hooks.json" => {
            let agent = [".claude/", ".gemini/", ".codex/", ".cursor/", "hooks/hooks.json"];
            if agent.iter().any(|directory| path.contains(directory)) {
                let at = text.source.find("\"hooks\"").or_else(|| text.source.find("\"command\""));
                if let Some(at) = at {
                    report.add(
                        &AUTORUN_AGENT,
                        path,
                        Some(text.line(at)),
                        "hooks that an agent runs by itself",
                    );
                }
            }
        }
        _ if extension(path) == "pth" => {
            let import = text
                .source
                .lines()
                .position(|line| line.starts_with("import ") || line.starts_with("import\t"));
            if let Some(line) = import {
                let line = u32::try_from(line + 1).ok();
                report.add(&AUTORUN_PYTHON, path, line, "Python runs this line at every start");
            }
        }
        _ => {}
    }
}

fn check_package(report: &mut Report, path: &str, text: &Text) {
    const AT_INSTALL: [&str; 7] =
        ["preinstall", "install", "postinstall", "prepare", "prepublish", "preprepare", "postprepare"];
    let Ok(Value::Object(package)) = serde_json::from_str(text.source.trim_start_matches('\u{feff}')) else {
        return;
    };
    let Some(Value::Object(scripts)) = package.get("scripts") else { return };
    for script in AT_INSTALL {
        if let Some(command) = scripts.get(script).and_then(Value::as_str) {
            let line = text.source.find(&format!("\"{script}\"")).map(|at| text.line(at));
            report.add(
                &AUTORUN_INSTALL,
                path,
                line,
                &format!("`{script}` runs {}", excerpt(command.as_bytes())),
            );
        }
    }
}

/// `` !`command` `` at the start of a word, and a fence that begins with ```` ```! ````.
fn check_expansion(report: &mut Report, path: &str, text: &Text) {
    let source = &text.source;
    let mut at = 0;
    while let Some(start) = source[at..].find("!`").map(|offset| at + offset) {
        at = start + 2;
        let before = source[..start].chars().next_back();
        if before.is_some_and(|before| !before.is_whitespace() && !matches!(before, '(' | ':' | '|' | '*')) {
            continue;
        }
        let rest = &source[at..];
        let Some(end) = rest.find(['`', '\n']) else { break };
        if end > 0 && rest.as_bytes()[end] == b'`' {
            report.add(
                &AUTORUN_EXPANSION,
                path,
                Some(text.line(start)),
                &format!("runs {}", excerpt(&rest.as_bytes()[..end])),
            );
        }
    }
    for (number, line) in source.lines().enumerate() {
        if line.trim_start().starts_with("```!") {
            let line = u32::try_from(number + 1).ok();
            report.add(&AUTORUN_EXPANSION, path, line, "runs the block that begins here");
        }
    }
}
