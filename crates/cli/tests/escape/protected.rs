//! Protected names of a workspace: none can be written, made or moved away, by any path; nothing of the protection
//! is left afterwards.

use ringfence_policy::{ProtectedKind, protected};
use ringfence_testing::Scene;

use crate::attempt::{Attempt, Props, Twin, attempt};
use crate::row::Row;

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = absent_names();
    rows.extend(existing_files());
    rows.extend(moves());
    rows
}

/// A workspace with a repository: hooks, a config, an editor's and an agent's settings.
fn repository(scene: &Scene) -> Props {
    scene.write("ws/.git/config", "[core]\n");
    scene.write("ws/.git/HEAD", "ref: refs/heads/main\n");
    scene.write("ws/.git/hooks/pre-commit", "#!/bin/sh\n");
    scene.mkdir("ws/.git/objects");
    scene.write("ws/.claude/settings.json", "{}");
    scene.write("ws/.bashrc", "# mine\n");
    scene.write("ws/mine", "mine\n");
    Props::default()
}

fn is_as_it_was(scene: &Scene) -> Result<(), String> {
    let expected = [
        (".git/config", "[core]\n"),
        (".git/hooks/pre-commit", "#!/bin/sh\n"),
        (".claude/settings.json", "{}"),
        (".bashrc", "# mine\n"),
    ];
    for (name, content) in expected {
        let now = scene.read(&format!("ws/{name}"));
        if now.as_deref() != Some(content) {
            return Err(format!("{name} is now {now:?}"));
        }
    }
    Ok(())
}

/// Each protected name, absent at the start: it can't be made, and no placeholder stays.
fn absent_names() -> Vec<Row> {
    protected()
        .iter()
        .map(|entry| {
            let path = match entry.kind {
                ProtectedKind::File => entry.name.to_owned(),
                ProtectedKind::Dir => format!("{}/planted", entry.name),
            };
            let parent = entry.parent;
            attempt(format!("absent-{}", entry.name), format!("makes a protected name: {}", entry.reason))
                .set_up(move |scene| {
                    if let Some(parent) = parent {
                        scene.mkdir(&format!("ws/{parent}"));
                    }
                    Props::default()
                })
                .probe(["create-deep", &path])
                .after(|scene| match std::fs::symlink_metadata(scene.path("ws").join(entry.name)) {
                    Err(_) => Ok(()),
                    Ok(_) => Err(format!("{} is there afterwards", entry.name)),
                })
                .twin_with(["--unprotect", entry.name])
        })
        .collect()
}

fn on_repository(name: &str, what: &str) -> Attempt {
    attempt(format!("protected-{name}"), what).set_up(repository).after(is_as_it_was)
}

fn existing_files() -> Vec<Row> {
    let row = |name: &str, what: &str, args: &[&str]| {
        on_repository(name, what).probe(args.iter().copied()).twin(Twin::Host)
    };
    vec![
        row("write", "writes .git/config", &["write", ".git/config"]),
        row("fill", "writes over .git/config", &["fill-in-place", ".git/config"]),
        row("truncate", "cuts .git/config", &["truncate", ".git/config"]),
        row("unlink", "removes .git/config", &["unlink", ".git/config"]),
        row("chmod", "makes .git/config executable", &["chmod", ".git/config"]),
        row("touch", "changes the times of .git/config", &["touch", ".git/config"]),
        row("xattr", "sets an attribute of .git/config", &["set-xattr", ".git/config"]),
        row("new-hook", "makes a hook", &["create", ".git/hooks/post-checkout"]),
        row("write-hook", "writes a hook", &["write", ".git/hooks/pre-commit"]),
        row("hook-directory", "makes a directory among the hooks", &["mkdir", ".git/hooks/dir"]),
        row("unlink-hook", "removes a hook", &["unlink", ".git/hooks/pre-commit"]),
        row("symlink-hook", "links a hook", &["symlink", "../../mine", ".git/hooks/pre-push"]),
        row("link-hook", "links a file of its own as a hook", &["link", "mine", ".git/hooks/pre-push"]),
        row(
            "rename-into",
            "moves a file of its own among the hooks",
            &["rename", "mine", ".git/hooks/pre-push"],
        ),
        row("rename-over", "moves a file of its own over .git/config", &["rename", "mine", ".git/config"]),
        row("rename-away", "moves .git/config away", &["rename", ".git/config", ".git/config.old"]),
        row("exchange", "exchanges .git/config with its own file", &["exchange", "mine", ".git/config"]),
        row("hard-link", "writes .git/config by a second name", &["link-and-write", ".git/config", "second"]),
        row("agent", "writes an agent's settings", &["write", ".claude/settings.json"]),
        row("agent-hook", "makes a hook of an agent", &["create", ".claude/hooks.json"]),
        row("shell", "writes .bashrc", &["fill-in-place", ".bashrc"]),
        row("proc-cwd", "writes .git/config by /proc", &["write", "/proc/self/cwd/.git/config"]),
        row("proc-root", "writes .git/config by the own root", &["write", "/proc/self/root{W}/.git/config"]),
        row("dots", "writes .git/config by a long way", &["write", "./.git/../.git/./config"]),
        on_repository("own-path", "writes .git/config by the workspace's own path")
            .profile("moderate")
            .probe(["write", "{ws}/.git/config"])
            .twin(Twin::Host),
        on_repository("own-path-workspace", "writes .git/config by /workspace under moderate")
            .profile("moderate")
            .shell("cd {W}; d=/workspace; test -d $d || d={W}; echo pwned >$d/.git/config")
            .twin(Twin::Host),
        on_repository("permissive", "writes .git/config under the permissive profile")
            .profile("permissive")
            .probe(["write", "{ws}/.git/config"])
            .twin(Twin::Host),
        on_repository("waived", "writes .git/config unless the clause is waived")
            .probe(["write", ".git/config"])
            .twin_with(["--waive", "filesystem.protected"]),
        on_repository("unprotected", "makes a hook unless it is unprotected")
            .probe(["create", ".git/hooks/post-checkout"])
            .twin_with(["--unprotect", ".git/hooks"]),
        attempt("protected-unnamed-file", "gives an unnamed file a protected name")
            .probe(["name-unnamed-file", ".", ".zshrc"])
            .after(
                |scene| if scene.path("ws/.zshrc").exists() { Err(".zshrc is there".into()) } else { Ok(()) },
            )
            .twin(Twin::Host),
    ]
}

/// Getting round a mount by moving what is above it.
fn moves() -> Vec<Row> {
    let row = |name: &str, what: &str, script: &str| on_repository(name, what).shell(script).twin(Twin::Host);
    vec![
        row(
            "mv-git",
            "moves .git away and makes another",
            "mv .git .x; mkdir -p .git/hooks; echo x >.git/hooks/y",
        ),
        row(
            "mv-git-hooks",
            "moves the hooks away",
            "mv .git/hooks .git/old; mkdir .git/hooks; echo x >.git/hooks/y",
        ),
        row(
            "rm-git",
            "removes .git and makes another",
            "rm -rf .git; mkdir -p .git/hooks; echo x >.git/hooks/y",
        ),
        row(
            "mv-agent",
            "moves an agent's directory away",
            "mv .claude .c; mkdir .claude; echo {} >.claude/x.json",
        ),
        row("symlink-git", "makes .git a link", "mv .git .x; ln -s .x .git; echo x >.git/hooks/y"),
        row(
            "exchange-git",
            "exchanges .git with another",
            "mkdir -p n/hooks; {probe} exchange n .git; echo x >.git/hooks/y",
        ),
        row(
            "mv-workspace-own",
            "moves .git by the workspace's other path",
            "cd {W}; mv {W}/.git {W}/.x; mkdir -p .git/hooks; echo x >.git/hooks/y",
        ),
    ]
}
