//! Git repositories below a workspace: those that are there at the start are protected too, those that a command made
//! are its own, and named at the end with what in them a host tool would execute.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How far is looked: a walk of everything would cost more than the run.
const DEPTH: usize = 3;
const MOST_DIRECTORIES: usize = 400;
const SKIPPED: &[&str] = &["node_modules", "target", ".venv", "venv", "__pycache__", ".git"];

/// Settings of a repository that make git run a program.
const EXECUTED: &[&str] = &[
    "core.hookspath",
    "core.fsmonitor",
    "core.sshcommand",
    "core.pager",
    "core.editor",
    "core.gitproxy",
    "sequence.editor",
    "gpg.program",
    "include.path",
];
const EXECUTED_SECTIONS: &[&str] = &["alias", "filter", "credential", "includeif", "mergetool", "difftool"];

/// Repositories below `workspace`, not itself, as relative paths.
pub(super) fn nested(workspace: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(workspace, &mut |directory| {
        if directory != workspace
            && directory.join(".git").symlink_metadata().is_ok()
            && let Ok(relative) = directory.strip_prefix(workspace)
        {
            found.push(relative.to_path_buf());
        }
    });
    found
}

/// A line for each repository made since `started` that a host tool would execute something of.
pub(super) fn created_since(workspace: &Path, started: SystemTime) -> Vec<String> {
    let mut notes = Vec::new();
    walk(workspace, &mut |directory| {
        let git = directory.join(".git");
        let Ok(facts) = git.symlink_metadata() else { return };
        let is_new = facts.created().or_else(|_| facts.modified()).is_ok_and(|born| born >= started);
        if !is_new {
            return;
        }
        let executed = executed_in(&git);
        if !executed.is_empty() {
            let name = directory.strip_prefix(workspace).unwrap_or(directory).join(".git");
            notes.push(format!(
                "repository made during the run: git on the host would execute {} of {}",
                executed.join(", "),
                name.display()
            ));
        }
    });
    notes
}

fn executed_in(git: &Path) -> Vec<String> {
    let mut executed = Vec::new();
    if let Ok(hooks) = fs::read_dir(git.join("hooks")) {
        for hook in hooks.flatten() {
            let name = hook.file_name().to_string_lossy().into_owned();
            let runs = hook.metadata().is_ok_and(|facts| facts.permissions().mode() & 0o111 != 0);
            if runs && !name.ends_with(".sample") {
                executed.push(format!("hooks/{name}"));
            }
        }
    }
    executed.sort();
    // A hostile config may be of any size; the settings that matter fit in this.
    let config = fs::read(git.join("config")).unwrap_or_default();
    let config = String::from_utf8_lossy(&config[..config.len().min(1 << 20)]).into_owned();
    executed.extend(settings(&config).into_iter().map(|key| format!("config {key}")));
    executed
}

/// The settings of a git config text that run a program.
fn settings(config: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut section = String::new();
    for line in config.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            section = header.split([']', ' ', '"']).next().unwrap_or_default().to_lowercase();
            continue;
        }
        let key = line.split(['=', ' ', '\t']).next().unwrap_or_default().to_lowercase();
        if key.is_empty() || key.starts_with(['#', ';']) {
            continue;
        }
        let name = format!("{section}.{key}");
        if EXECUTED.contains(&name.as_str()) || EXECUTED_SECTIONS.contains(&section.as_str()) {
            found.push(name);
        }
    }
    found.sort();
    found.dedup();
    found
}

fn walk(root: &Path, visit: &mut dyn FnMut(&Path)) {
    let mut left = MOST_DIRECTORIES;
    let mut level = vec![root.to_path_buf()];
    for depth in 0..=DEPTH {
        let mut next = Vec::new();
        for directory in level {
            if left == 0 {
                return;
            }
            left -= 1;
            visit(&directory);
            if depth == DEPTH {
                continue;
            }
            let Ok(entries) = fs::read_dir(&directory) else { continue };
            let below = entries.flatten().filter(|entry| {
                entry.file_type().is_ok_and(|kind| kind.is_dir())
                    && !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped)
            });
            next.extend(below.take(MOST_DIRECTORIES).map(|entry| entry.path()));
        }
        level = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_run_programs_are_found_whatever_their_case() {
        let config = "[core]\n\tbare = false\n\tfsMonitor = ./x\n[Alias]\n st = !sh\n[branch \"main\"]\nremote = o\n";
        assert_eq!(settings(config), ["alias.st", "core.fsmonitor"]);
    }

    #[test]
    fn a_plain_config_runs_nothing() {
        assert!(settings("[core]\nrepositoryformatversion = 0\n[remote \"o\"]\nurl = x\n").is_empty());
    }
}
