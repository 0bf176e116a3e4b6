//! Names that stay read-only in a direct workspace: reviewed data.
//!
//! A name is here only if a program on the host *runs or obeys* it without asking, once the sandboxed command is
//! gone: a file planted there is code that runs outside. The list is kept tight because each absent name costs a
//! placeholder and two mounts at every start. Matching is by exact name at the top of the workspace.

use serde::Serialize;

/// What stands in for a protected name that does not exist yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtectedKind {
    File,
    Dir,
}

/// One protected name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Protected {
    /// Relative to the workspace.
    pub name: &'static str,
    pub kind: ProtectedKind,
    /// The directory that must exist at start, or else the entry is not placed: a repository that the command
    /// makes itself is exempt (and is reported at the end).
    pub parent: Option<&'static str>,
    /// What the placeholder of an absent file must hold *on the host* from its first moment: git stops at an
    /// empty `.git/commondir`.
    pub content: &'static str,
    pub reason: &'static str,
}

const fn file(name: &'static str, reason: &'static str) -> Protected {
    Protected { name, kind: ProtectedKind::File, parent: None, content: "", reason }
}

const fn dir(name: &'static str, reason: &'static str) -> Protected {
    Protected { name, kind: ProtectedKind::Dir, parent: None, content: "", reason }
}

const fn in_git(name: &'static str, kind: ProtectedKind, reason: &'static str) -> Protected {
    Protected { name, kind, parent: Some(".git"), content: "", reason }
}

// Left out, on purpose:
// - `.git/info/attributes`, `.gitattributes`: they name filters, but a filter's command is in a config file.
// - `.gitmodules`: git copies nothing executable from it (update = !cmd is refused since 2.20), and
//   `git submodule add` must write it.
// - `.git/HEAD`, `.git/objects`, `.git/index`: everyday git writes them, and nothing in them is executed.
// - `.git` as a file (a worktree or submodule): its git directory is outside the workspace, which can't be written.
// - `Makefile`, `package.json`, `build.rs`, `.husky`: the project's own code. Its user runs it knowingly, and
//   editing it is what an agent is for.
// - AGENTS.md, CLAUDE.md, GEMINI.md: prose for a model, edited in everyday work; what the model then does is
//   again held by a sandbox.
// - `.config/fish`, `.ssh`, `.bash_login`, `.bash_logout`, `.zlogin`: read from a home directory only, and rarely
//   there. The shell files below stay because dotfile repositories link them into place.
const PROTECTED: &[Protected] = &[
    in_git(".git/hooks", ProtectedKind::Dir, "git runs hooks on commit, checkout, merge and push"),
    in_git(
        ".git/config",
        ProtectedKind::File,
        "git runs core.fsmonitor, core.sshCommand, filters and aliases from it",
    ),
    in_git(
        ".git/config.worktree",
        ProtectedKind::File,
        "the same settings as .git/config, read when extensions.worktreeConfig is on",
    ),
    // With `.` git finds its own directory again and works as ever; with a path to a directory of the workspace it
    // takes config and hooks from there, and the entries above protect nothing.
    Protected {
        content: ".\n",
        ..in_git(
            ".git/commondir",
            ProtectedKind::File,
            "it sends git to another directory for its config and hooks",
        )
    },
    file(".gitconfig", "dotfile repositories link it to the home directory, where git obeys it"),
    dir(".vscode", "the editor runs tasks and uses interpreter and tool paths from it"),
    dir(".idea", "run configurations, external tools and start-up tasks"),
    dir(".zed", "the editor runs tasks and language servers from it"),
    dir(".cursor", "the editor's agent obeys its rules, hooks and MCP servers"),
    dir(".devcontainer", "initializeCommand runs on the host"),
    dir(".claude", "hooks and permissions of Claude Code; hooks run commands on the host"),
    dir(".codex", "configuration, hooks and MCP servers of Codex"),
    dir(".gemini", "settings, hooks and MCP servers of Gemini CLI"),
    dir(".opencode", "plugins of opencode are code that it loads"),
    dir(".agents", "skills that several agents load and obey"),
    // opencode takes an empty one for settings without a word; `{}` it would fill in.
    file("opencode.json", "opencode loads plugins, MCP servers and permissions from it"),
    file("opencode.jsonc", "the same settings as opencode.json"),
    file(".mcp.json", "agents start the MCP servers it names"),
    file(".envrc", "direnv runs it on entering the directory"),
    file(".bashrc", "bash runs it, where the workspace is or is linked to a home directory"),
    file(".bash_profile", "bash runs it at login"),
    file(".profile", "every POSIX shell runs it at login"),
    file(".zshrc", "zsh runs it"),
    file(".zshenv", "zsh runs it, also for scripts"),
    file(".zprofile", "zsh runs it at login"),
    file("ringfence.toml", "it would loosen the next run's policy"),
];

/// Every protected name, in the order that they are placed.
pub fn protected() -> &'static [Protected] {
    PROTECTED
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Component, Path};

    #[test]
    fn names_are_plain_unique_and_not_inside_each_other() {
        for (i, entry) in PROTECTED.iter().enumerate() {
            let name = Path::new(entry.name);
            assert!(name.components().all(|c| matches!(c, Component::Normal(_))), "{}", entry.name);
            assert!(!entry.reason.is_empty() && !entry.reason.ends_with('.'), "{}", entry.name);
            for other in PROTECTED[..i].iter().chain(&PROTECTED[i + 1..]) {
                assert!(!name.starts_with(other.name), "{} is inside {}", entry.name, other.name);
            }
        }
    }

    #[test]
    fn an_entry_in_a_directory_waits_for_it() {
        for entry in PROTECTED {
            let parent = Path::new(entry.name).parent().and_then(Path::to_str).filter(|p| !p.is_empty());
            assert_eq!(parent, entry.parent, "{}", entry.name);
        }
    }
}
