//! Workspaces under change: the host replaces a protected file, two sandboxes share one directory, the workspace
//! is a link or has a strange name.

use std::os::unix::process::CommandExt;

use ringfence_testing::{Outcome, Scene, Stage, Test};

use crate::row::{Row, drill};

pub(crate) fn rows() -> Vec<Row> {
    vec![host_rename(), two_sandboxes(), symlinked_workspace(), newline_in_path(), swapped_workspace()]
}

fn probe() -> String {
    Stage::get().probe.to_string_lossy().into_owned()
}

fn in_workspace(scene: &Scene) -> Test {
    Test::in_scene(scene).profile("moderate").with_probe().workspace(scene.workspace())
}

fn held(outcome: &Outcome) -> Result<(), String> {
    if outcome.exit == 1 && outcome.output.contains("held:") && !outcome.output.contains("escaped:") {
        return Ok(());
    }
    Err(outcome.describe())
}

/// Wait for a file that the other side makes; the harness's own deadline ends a wait for ever.
fn await_file(path: &std::path::Path) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !path.exists() {
        assert!(std::time::Instant::now() < deadline, "{} did not appear", path.display());
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// An editor on the host saves `.git/config` by renaming a new file over it, which takes the mount away. What the
/// command then writes there is undone at the end.
fn host_rename() -> Row {
    let script = || {
        format!(
            "touch started; until test -e replaced; do sleep 0.01; done; {} fill-in-place .git/config; true",
            probe()
        )
    };
    let replace = |scene: &Scene| {
        await_file(&scene.path("ws/started"));
        scene.write("ws/.git/config.new", "[user]\n");
        std::fs::rename(scene.path("ws/.git/config.new"), scene.path("ws/.git/config")).expect("rename");
        scene.write("ws/replaced", "");
    };
    drill(
        "host-rename-over-protected",
        "writes a protected file that the host has replaced meanwhile",
        "the workspace is prepared by the same steps, before the first command",
        move |identity| {
            let scene = Scene::new(identity);
            scene.write("ws/.git/config", "[core]\n");
            let running = in_workspace(&scene).spawn(["bash", "-c", &script()]);
            replace(&scene);
            let outcome = running.wait();
            match scene.read("ws/.git/config") {
                Some(text) if text.contains("pwned") => {
                    Err(format!("the file was written and stays so: {text:?}\n{}", outcome.describe()))
                }
                Some(_) => Ok(()),
                None => Err(format!("the file is gone\n{}", outcome.describe())),
            }
        },
        move |identity| {
            let scene = Scene::new(identity);
            scene.write("ws/.git/config", "[core]\n");
            let mut command = std::process::Command::new("timeout");
            command.args(["60", "bash", "-c", &script()]).current_dir(scene.workspace()).process_group(0);
            command.stdout(std::process::Stdio::null());
            identity.apply(&mut command);
            let mut child = command.spawn().map_err(|error| error.to_string())?;
            replace(&scene);
            child.wait().map_err(|error| error.to_string())?;
            let text = scene.read("ws/.git/config").unwrap_or_default();
            if text.contains("pwned") { Ok(()) } else { Err(text) }
        },
    )
}

/// Placeholders live until the last sandbox of the workspace ends, and are gone then.
fn two_sandboxes() -> Row {
    let names = [".bashrc", ".claude", ".mcp.json"];
    drill(
        "two-sandboxes",
        "makes a protected file after another sandbox of the workspace has ended",
        "the workspace is prepared by the same steps, before the first command",
        move |identity| {
            let scene = Scene::new(identity);
            let script = format!(
                "touch started; until test -e go; do sleep 0.01; done; \
                 {probe} create .bashrc || {probe} create-deep .claude/x || {probe} create .mcp.json",
                probe = probe()
            );
            let long = in_workspace(&scene).spawn(["bash", "-c", &script]);
            await_file(&scene.path("ws/started"));
            let short = in_workspace(&scene).run([probe(), "create".into(), ".bashrc".into()]);
            held(&short)?;
            scene.write("ws/go", "");
            let long = long.wait();
            held(&long)?;
            for name in names {
                if std::fs::symlink_metadata(scene.path("ws").join(name)).is_ok() {
                    return Err(format!("{name} is there after both have ended"));
                }
            }
            Ok(())
        },
        move |identity| {
            let scene = Scene::new(identity);
            let outcome = in_workspace(&scene).args(["--unprotect", ".bashrc"]).run([
                probe(),
                "create".into(),
                ".bashrc".into(),
            ]);
            if outcome.output.contains("escaped:") { Ok(()) } else { Err(outcome.describe()) }
        },
    )
}

/// A workspace that is a link: its target is the workspace, and nothing beside it is there.
fn symlinked_workspace() -> Row {
    drill(
        "workspace-symlink",
        "reads beside a workspace that was given as a link",
        "the workspace is prepared by the same steps, before the first command",
        |identity| {
            let scene = Scene::new(identity);
            scene.write("ws/mine", &scene.token);
            scene.symlink("ws", "link");
            let run = |args: [&str; 3]| {
                let test =
                    Test::in_scene(&scene).profile("moderate").with_probe().workspace(scene.path("link"));
                test.run(std::iter::once(probe()).chain(args.map(str::to_owned)))
            };
            let own = run(["read", "mine", &scene.token]);
            if own.exit == 125 {
                return Ok(());
            }
            if !own.output.contains("escaped:") {
                return Err(format!("its own file is not there\n{}", own.describe()));
            }
            held(&run(["read", "../outside/secret", &scene.token]))?;
            held(&run(["read", &scene.secret().to_string_lossy(), &scene.token]))
        },
        |identity| {
            let scene = Scene::new(identity);
            scene.symlink("ws", "link");
            let line = [probe(), "read".into(), "../link/../outside/secret".into(), scene.token.clone()];
            let text = crate::stdio::on_host(&scene, &line, |_| {});
            if text.contains("escaped:") { Ok(()) } else { Err(text) }
        },
    )
}

/// A path with a newline, a tab, a backslash and a space can't forge a line of a mount table.
fn newline_in_path() -> Row {
    const NAME: &str = "ws/a\nb\tc\\040 d";
    drill(
        "workspace-newline",
        "gets out by a workspace with a newline in its path",
        "the workspace is prepared by the same steps, before the first command",
        |identity| {
            let scene = Scene::new(identity);
            scene.write(&format!("{NAME}/mine"), &scene.token);
            let run = |args: [&str; 3]| {
                let test =
                    Test::in_scene(&scene).profile("moderate").with_probe().workspace(scene.path(NAME));
                test.run(std::iter::once(probe()).chain(args.map(str::to_owned)))
            };
            let own = run(["read", "mine", &scene.token]);
            if !own.output.contains("escaped:") {
                return Err(format!("its own file is not there\n{}", own.describe()));
            }
            held(&run(["create", ".bashrc", ""]))?;
            held(&run(["read", "../../outside/secret", &scene.token]))
        },
        |identity| {
            let scene = Scene::new(identity);
            scene.write(&format!("{NAME}/mine"), &scene.token);
            let line =
                [probe(), "read".into(), format!("../{NAME}/../../outside/secret"), scene.token.clone()];
            let text = crate::stdio::on_host(&scene, &line, |_| {});
            if text.contains("escaped:") { Ok(()) } else { Err(text) }
        },
    )
}

/// The workspace itself is swapped for a link to the secret's directory while sandboxes start on it.
fn swapped_workspace() -> Row {
    drill(
        "workspace-swapped",
        "starts while its workspace is swapped for a link",
        "the workspace is prepared by the same steps, before the first command",
        |identity| {
            let scene = Scene::new(identity);
            scene.mkdir("real");
            let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
            let (root, flag) = (scene.root().to_owned(), std::sync::Arc::clone(&stop));
            std::os::unix::fs::symlink("real", root.join("swapped")).expect("symlink");
            let swapper = std::thread::spawn(move || {
                for target in ["real", "."].iter().cycle() {
                    let _ = std::os::unix::fs::symlink(target, root.join("next"));
                    let _ = std::fs::rename(root.join("next"), root.join("swapped"));
                    if flag.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                }
            });
            // The link is the caller's own, so either target is a workspace that was asked for; what must never
            // be is a sandbox whose checks saw one and whose mounts took the other.
            let mut outcomes = Vec::new();
            for _ in 0..30 {
                let test = Test::in_scene(&scene).profile("moderate").with_probe();
                let test = test.workspace(scene.path("swapped"));
                outcomes.push(test.run([probe(), "create".into(), ".bashrc".into()]));
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            let _ = swapper.join();
            if let Some(out) = outcomes.iter().find(|outcome| outcome.output.contains("escaped:")) {
                return Err(out.describe());
            }
            // A start that noticed the swap may refuse; if all did, nothing was shown.
            let tried = outcomes.iter().filter(|outcome| held(outcome).is_ok()).count();
            if tried > 0 { Ok(()) } else { Err(outcomes[0].describe()) }
        },
        |identity| {
            let scene = Scene::new(identity);
            let text = crate::stdio::on_host(&scene, &[probe(), "create".into(), ".bashrc".into()], |_| {});
            if text.contains("escaped:") { Ok(()) } else { Err(text) }
        },
    )
}
