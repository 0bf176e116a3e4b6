//! Git repositories below a workspace: those that are there at the start are protected too, those that a command made
//! are its own, and named at the end with what in them a host tool would execute.

use std::collections::BTreeSet;
use std::fs::{self, DirEntry};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::beneath::{open_workspace, read_file};

/// How far is looked: a walk of everything would cost more than the run.
const DEPTH: usize = 3;
const MOST_DIRECTORIES: usize = 400;
const MOST_ENTRIES: usize = 4_000;
const SKIPPED: &[&str] = &["node_modules", "target", ".venv", "venv", "__pycache__", ".git"];

/// Settings that everyday git writes and that make it run nothing. Any other is named: git grows new ones that do.
const HARMLESS: &[&str] = &[
    "core.repositoryformatversion",
    "core.filemode",
    "core.bare",
    "core.logallrefupdates",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.symlinks",
    "remote.url",
    "remote.fetch",
    "branch.remote",
    "branch.merge",
    "branch.rebase",
    "user.name",
    "user.email",
    "init.defaultbranch",
    "submodule.active",
    "submodule.url",
];

/// What is below a workspace, as relative paths.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Directories with a `.git`, other than the workspace itself.
    pub(super) repositories: Vec<PathBuf>,
    pub(super) sockets: Vec<PathBuf>,
    /// Directories that git takes for a repository when it is started in them, and finds nothing better.
    pub(super) bare: BTreeSet<PathBuf>,
}

pub(super) fn survey(workspace: &Path) -> Survey {
    let mut survey = Survey::default();
    walk(workspace, &mut |directory, entries| {
        let Ok(relative) = directory.strip_prefix(workspace) else { return };
        let has = |name: &str| entries.iter().any(|entry| entry.file_name() == name);
        // Asked for by name: the listing may have been cut.
        if directory != workspace && directory.join(".git").symlink_metadata().is_ok() {
            survey.repositories.push(relative.to_path_buf());
        }
        if ["HEAD", "objects", "refs"].into_iter().all(has) {
            survey.bare.insert(relative.to_path_buf());
        }
        let sockets = entries.iter().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
        survey.sockets.extend(sockets.map(|entry| relative.join(entry.file_name())));
    });
    survey
}

/// Sockets near the top of a directory.
pub(crate) fn sockets_in(directory: &Path) -> Vec<PathBuf> {
    survey(directory).sockets.into_iter().map(|socket| directory.join(socket)).collect()
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

/// Everything in a workspace that git would take for a repository.
pub(super) fn git_places(workspace: &Path, survey: &Survey) -> BTreeSet<PathBuf> {
    let mut places = survey.bare.clone();
    for root in [Path::new("")].into_iter().chain(survey.repositories.iter().map(PathBuf::as_path)) {
        let git = root.join(".git");
        if workspace.join(&git).symlink_metadata().is_ok() {
            places.extend(git_directories_in(workspace, &git));
            places.insert(git);
        }
    }
    places
}

/// A line for each repository that was not there `before` and that a host tool would execute something of.
pub(super) fn created(workspace: &Path, before: &BTreeSet<PathBuf>) -> Vec<String> {
    let made = git_places(workspace, &survey(workspace));
    made.difference(before)
        .filter_map(|place| {
            let executed = executed_in(&workspace.join(place));
            let name = if place.as_os_str().is_empty() { Path::new("the workspace itself") } else { place };
            (!executed.is_empty()).then(|| {
                format!(
                    "repository made during the run: git on the host would act on {} of {}",
                    executed.join(", "),
                    name.display()
                )
            })
        })
        .collect()
}

fn executed_in(git: &Path) -> Vec<String> {
    let Ok(facts) = git.symlink_metadata() else { return Vec::new() };
    if !facts.is_dir() {
        return vec!["where it says that the repository is".into()];
    }
    let mut executed = Vec::new();
    let hooks = git.join("hooks");
    if hooks.symlink_metadata().is_ok_and(|facts| facts.is_symlink()) {
        executed.push("hooks (a link)".to_owned());
    } else if let Ok(hooks) = fs::read_dir(hooks) {
        for hook in hooks.flatten().take(MOST_ENTRIES) {
            let name = hook.file_name().to_string_lossy().into_owned();
            let runs = hook.metadata().is_ok_and(|facts| facts.permissions().mode() & 0o111 != 0);
            if runs && !name.ends_with(".sample") {
                executed.push(format!("hooks/{name}"));
            }
        }
    }
    executed.sort();
    for name in ["config", "config.worktree", "commondir"] {
        if git.join(name).symlink_metadata().is_err() {
            continue;
        }
        // Hostile, of any size and kind; the settings that matter fit in this.
        match open_workspace(git).and_then(|git| read_file(git, Path::new(name), 1 << 20)) {
            Ok(_) if name == "commondir" => executed.push(name.to_owned()),
            Ok((bytes, _)) => {
                let text = String::from_utf8_lossy(&bytes);
                executed.extend(settings(&text).into_iter().map(|key| format!("{name} {key}")));
            }
            Err(_) => executed.push(format!("{name} (not a plain file)")),
        }
    }
    executed
}

/// The settings of a git config text that may make git run something.
fn settings(config: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut section = String::new();
    for line in config.lines().map(str::trim) {
        let setting = match line.strip_prefix('[') {
            None => line,
            Some(header) => {
                let (name, rest) = header.split_once(']').unwrap_or((header, ""));
                section = name.split([' ', '"', '.']).next().unwrap_or_default().to_lowercase();
                rest.trim()
            }
        };
        let key = setting.split(['=', ' ', '\t']).next().unwrap_or_default().to_lowercase();
        if key.is_empty() || key.starts_with(['#', ';']) {
            continue;
        }
        let name = format!("{section}.{key}");
        if !HARMLESS.contains(&name.as_str()) {
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
