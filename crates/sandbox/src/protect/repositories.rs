//! Git repositories below a workspace: those that are there at the start are protected too, those that a command made
//! are its own, and named at the end with what in them a host tool would execute.

use std::fs::{self, DirEntry};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::beneath::{open_workspace, read_file};

/// How far is looked: a walk of everything would cost more than the run.
const DEPTH: usize = 3;
const MOST_DIRECTORIES: usize = 400;
const MOST_ENTRIES: usize = 4_000;
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

/// What is below a workspace: repositories other than itself, and sockets, as relative paths.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) repositories: Vec<PathBuf>,
    pub(super) sockets: Vec<PathBuf>,
}

pub(super) fn survey(workspace: &Path) -> Survey {
    let mut survey = Survey::default();
    walk(workspace, &mut |directory, entries| {
        let relative = |path: PathBuf| path.strip_prefix(workspace).map(Path::to_path_buf).ok();
        for entry in entries {
            if entry.file_name() == ".git" && directory != workspace {
                survey.repositories.extend(relative(directory.to_path_buf()));
            }
            if entry.file_type().is_ok_and(|kind| kind.is_socket()) {
                survey.sockets.extend(relative(entry.path()));
            }
        }
    });
    survey
}

/// The git directories of submodules and worktrees in the git directory `git`, as relative paths.
pub(super) fn git_directories_in(workspace: &Path, git: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for parts in ["modules", "worktrees"] {
        let parts = git.join(parts);
        if !workspace.join(&parts).is_dir() {
            continue;
        }
        walk(&workspace.join(parts), &mut |directory, entries| {
            if entries.iter().any(|entry| entry.file_name() == "HEAD")
                && let Ok(relative) = directory.strip_prefix(workspace)
            {
                found.push(relative.to_path_buf());
            }
        });
    }
    found
}

/// Where a `.git` file says that the repository is.
pub(super) fn gitdir_of(workspace: &OwnedFd, name: &Path) -> Option<PathBuf> {
    let (bytes, _) = read_file(workspace, name, 4096).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    Some(PathBuf::from(text.lines().next()?.strip_prefix("gitdir:")?.trim()))
}

/// A line for each repository made since `started` that a host tool would execute something of.
pub(super) fn created_since(workspace: &Path, started: SystemTime) -> Vec<String> {
    let mut notes = Vec::new();
    let mut look = |git: &Path| {
        let Ok(facts) = git.symlink_metadata() else { return };
        let is_new = facts.created().or_else(|_| facts.modified()).is_ok_and(|born| born >= started);
        let executed = if is_new { executed_in(git) } else { Vec::new() };
        if !executed.is_empty() {
            notes.push(format!(
                "repository made during the run: git on the host would execute {} of {}",
                executed.join(", "),
                git.strip_prefix(workspace).unwrap_or(git).display()
            ));
        }
    };
    walk(workspace, &mut |directory, entries| {
        if entries.iter().any(|entry| entry.file_name() == ".git") {
            look(&directory.join(".git"));
            for below in git_directories_in(directory, Path::new(".git")) {
                look(&directory.join(below));
            }
        }
        // A bare repository: git finds it when it is started in it.
        if ["HEAD", "objects", "refs"]
            .iter()
            .all(|name| entries.iter().any(|entry| entry.file_name() == *name))
        {
            look(directory);
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
    // Hostile, of any size and kind; the settings that matter fit in this.
    let config = open_workspace(git).and_then(|git| read_file(git, Path::new("config"), 1 << 20));
    let config = config.map(|(bytes, _)| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
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

/// Breadth first: what is near the top is seen even where there is too much below.
fn walk(root: &Path, visit: &mut dyn FnMut(&Path, &[DirEntry])) {
    let mut left = MOST_DIRECTORIES;
    let mut level = vec![root.to_path_buf()];
    for depth in 0..=DEPTH {
        let mut next = Vec::new();
        for directory in level {
            if left == 0 {
                return;
            }
            left -= 1;
            let Ok(entries) = fs::read_dir(&directory) else { continue };
            let entries: Vec<DirEntry> = entries.flatten().take(MOST_ENTRIES).collect();
            visit(&directory, &entries);
            if depth < DEPTH {
                let below = entries.iter().filter(|entry| {
                    entry.file_type().is_ok_and(|kind| kind.is_dir())
                        && !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped)
                });
                next.extend(below.map(DirEntry::path));
            }
        }
        level = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_run_programs_are_found_whatever_their_case() {
        let config =
            "[core]\n\tbare = false\n\tfsMonitor = ./x\n[Alias]\n st = !sh\n[branch \"main\"]\nremote = o\n";
        assert_eq!(settings(config), ["alias.st", "core.fsmonitor"]);
    }

    #[test]
    fn a_plain_config_runs_nothing() {
        assert!(settings("[core]\nrepositoryformatversion = 0\n[remote \"o\"]\nurl = x\n").is_empty());
    }
}
