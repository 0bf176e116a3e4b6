//! Files outside: by path, by `..`, through links of the workspace, by handle; and the system's own files.

use ringfence_testing::{Identity, Scene, Stage, Test};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::attempt::{Props, Twin, attempt, secret_is_untouched};
use crate::row::{Row, drill};

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for profile in ["restrictive", "moderate"] {
        rows.extend(reading(profile));
        rows.extend(writing(profile));
    }
    rows.extend(links());
    rows.extend(system());
    rows.extend(flags());
    rows.push(reads_through_swapped_symlink());
    rows.push(writes_through_swapped_symlink());
    rows
}

fn reading(profile: &'static str) -> Vec<Row> {
    let row = |name: &str, what: &str, args: &[&str]| {
        attempt(format!("{name}-{profile}"), what)
            .profile(profile)
            .probe(args.iter().copied())
            .set_up(|scene| {
                scene.write("home/diary", &scene.token);
                scene.write("state/canary", &scene.token);
                Props::default()
            })
            .after(secret_is_untouched)
            .twin(Twin::Host)
    };
    vec![
        row("read-outside", "reads a file outside", &["read", "{secret}", "{token}"]),
        row("read-dotdot", "reads by ..", &["read", "../outside/secret", "{token}"]),
        row(
            "read-dotdot-own",
            "reads by .. from the own path",
            &["read", "{W}/../outside/secret", "{token}"],
        ),
        row(
            "read-far-dotdot",
            "reads by many ..",
            &["read", "../../../../../../../../../..{secret}", "{token}"],
        ),
        row("read-proc-root", "reads through the own root", &["read", "/proc/self/root{secret}", "{token}"]),
        row(
            "read-proc-cwd",
            "reads by .. of the own cwd",
            &["read", "/proc/self/cwd/../outside/secret", "{token}"],
        ),
        row(
            "read-thread-root",
            "reads through a thread",
            &["read", "/proc/thread-self/root{secret}", "{token}"],
        ),
        row("read-home", "reads the caller's home", &["read", "{home}/diary", "{token}"]),
        row("read-state", "reads our own state", &["read", "{state}/canary", "{token}"]),
        row("stat-outside", "learns about a file outside", &["stat", "{secret}"]),
        row("list-outside", "lists a directory outside", &["list", "{outside}"]),
    ]
}

fn writing(profile: &'static str) -> Vec<Row> {
    let row = |name: &str, what: &str, args: &[&str]| {
        attempt(format!("{name}-{profile}"), what)
            .profile(profile)
            .probe(args.iter().copied())
            .set_up(|scene| {
                scene.write("ws/mine", "mine");
                Props::default()
            })
            .after(|scene| {
                secret_is_untouched(scene)?;
                let entries = std::fs::read_dir(scene.outside()).map_err(|error| error.to_string())?.count();
                if entries == 1 { Ok(()) } else { Err(format!("{entries} entries outside instead of 1")) }
            })
            .twin(Twin::Host)
    };
    vec![
        row("write-outside", "writes a file outside", &["write", "{secret}"]),
        row("fill-outside", "writes over a file outside", &["fill-in-place", "{secret}"]),
        row("create-outside", "makes a file outside", &["create", "{outside}/new"]),
        row("create-dotdot", "makes a file by ..", &["create", "../outside/new"]),
        row("mkdir-outside", "makes a directory outside", &["mkdir", "{outside}/dir"]),
        row("rename-out", "moves a file out", &["rename", "mine", "{outside}/stolen"]),
        row("rename-in", "moves a file in", &["rename", "{secret}", "stolen"]),
        row("unlink-outside", "removes a file outside", &["unlink", "{secret}"]),
        row("truncate-outside", "cuts a file outside", &["truncate", "{secret}"]),
        row("chmod-outside", "changes a mode outside", &["chmod", "{secret}"]),
        row("chown-outside", "changes an owner outside", &["chown", "{secret}"]),
        row("touch-outside", "changes times outside", &["touch", "{secret}"]),
        row("xattr-outside", "sets an attribute outside", &["set-xattr", "{secret}"]),
        row("symlink-outside", "makes a link outside", &["symlink", "/etc/passwd", "{outside}/link"]),
        row("link-in", "links a file outside into the workspace", &["link", "{secret}", "stolen"]),
        row("link-out", "links a file of the workspace outside", &["link", "mine", "{outside}/planted"]),
    ]
}

/// Links that lie in the workspace when the command starts.
fn links() -> Vec<Row> {
    let row = |name: &str, what: &str, target: &'static str, args: &[&str]| {
        attempt(name, what)
            .probe(args.iter().copied())
            .set_up(move |scene| {
                let target = target.replace("{root}", &scene.root().to_string_lossy());
                scene.symlink(&target, "ws/link");
                Props::default()
            })
            .after(secret_is_untouched)
            .twin(Twin::Host)
    };
    vec![
        row("symlink-read", "reads by a link", "{root}/outside/secret", &["read", "link", "{token}"]),
        row(
            "symlink-relative",
            "reads by a relative link",
            "../outside/secret",
            &["read", "link", "{token}"],
        ),
        row(
            "symlink-directory",
            "reads by a linked directory",
            "../outside",
            &["read", "link/secret", "{token}"],
        ),
        row("symlink-root", "reads by a link to /", "/", &["read", "link{secret}", "{token}"]),
        row("symlink-write", "writes by a link", "{root}/outside/secret", &["write", "link"]),
        row("symlink-create", "makes a file by a link", "{root}/outside", &["create", "link/new"]),
        row("symlink-list", "lists by a link", "{root}/outside", &["list", "link"]),
        attempt("symlink-made-inside", "makes a link out and reads by it")
            .shell("ln -s {secret} mine; grep -q {token} mine")
            .twin(Twin::Host),
    ]
}

/// The system's files are there to read, no more.
fn system() -> Vec<Row> {
    let root = |name: &str, what: &str, args: &[&str]| {
        attempt(name, what).probe(args.iter().copied()).twin(Twin::HostAsRoot)
    };
    let mut rows = vec![
        root("open-passwd", "opens /etc/passwd for writing", &["open-write", "/etc/passwd"]),
        root("open-bash", "opens a system program for writing", &["open-write", "/usr/bin/env"]),
        root("read-shadow", "reads the password hashes", &["read-any", "/etc/shadow"]),
        root("handle", "opens a file by its handle", &["open-handle", "/etc/passwd"]),
        root("owner-of-system", "changes the owner of a system file", &["chown", "/etc/passwd"]),
        attempt("setuid-program", "a setuid program of root raises its caller")
            .set_up(plant_setuid)
            .flags(["--read", "{root}/setuid"])
            .program(["{root}/setuid/probe", "become-owner"])
            .twin(Twin::HostAsUser),
        attempt("setuid-planted", "makes a setuid program in the workspace for others to run")
            .shell("cp {probe} mine; chmod 4755 mine; test -u mine; echo planted")
            .after(|scene| match std::fs::metadata(scene.path("ws/mine")) {
                Ok(meta) if std::os::unix::fs::MetadataExt::mode(&meta) & 0o4000 != 0 => {
                    Err("a setuid program was left in the workspace".into())
                }
                _ => Ok(()),
            })
            .twin(Twin::Host),
        attempt("program-file", "overwrites the program it was started from")
            .set_up(|scene| {
                scene.mkdir("tool");
                copy_probe(scene, "tool/probe");
                Props::default()
            })
            .flags(["--read", "{root}/tool"])
            .program(["{root}/tool/probe", "overwrite-exe"])
            .twin(Twin::Host),
    ];
    for dir in ["/", "/etc", "/usr", "/usr/bin", "/var", "/opt"] {
        rows.push(root(
            &format!("writable{}", dir.replace('/', "-")),
            "writes in a system directory",
            &["may-write", dir],
        ));
    }
    rows
}

fn copy_probe(scene: &Scene, to: &str) {
    let path = scene.path(to);
    let status = std::process::Command::new("cp").arg(&Stage::get().probe).arg(&path).status();
    assert!(status.is_ok_and(|status| status.success()), "cp the probe");
    scene.identity.own(&path);
}

fn plant_setuid(scene: &Scene) -> Props {
    use std::os::unix::fs::PermissionsExt;
    scene.mkdir("setuid");
    copy_probe(scene, "setuid/probe");
    let path = scene.path("setuid/probe");
    if Identity::Root.is_available() {
        std::os::unix::fs::chown(&path, Some(0), Some(0)).expect("give the program to root");
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).expect("make it setuid");
    Props::default()
}

/// What `--read` and `--hide` promise.
fn flags() -> Vec<Row> {
    vec![
        attempt("read-is-not-write", "writes where --read was given")
            .flags(["--read", "{outside}"])
            .probe(["fill-in-place", "{secret}"])
            .after(secret_is_untouched)
            .twin(Twin::Host),
        attempt("read-is-not-create", "makes a file where --read was given")
            .flags(["--read", "{outside}"])
            .probe(["create", "{outside}/new"])
            .twin(Twin::Host),
        attempt("read-without-landlock", "writes where --read was given, with the second wall waived")
            .flags(["--read", "{outside}", "--waive", "filesystem.landlock"])
            .probe(["fill-in-place", "{secret}"])
            .after(secret_is_untouched)
            .twin(Twin::Host),
        attempt("write-is-needed", "writes outside unless --write was given")
            .probe(["create", "{outside}/new"])
            .twin_with(["--write", "{outside}"]),
        attempt("read-is-needed", "reads outside unless --read was given")
            .probe(["read", "{secret}", "{token}"])
            .twin_with(["--read", "{outside}"]),
        attempt("hidden-file", "reads a hidden file of the workspace")
            .set_up(|scene| {
                scene.write("ws/private/key", &scene.token);
                Props::default()
            })
            .flags(["--hide", "{ws}/private"])
            .probe(["read", "private/key", "{token}"])
            .twin(Twin::Host),
        attempt("hidden-file-moderate", "reads a hidden file by its own path")
            .profile("moderate")
            .set_up(|scene| {
                scene.write("ws/private/key", &scene.token);
                Props::default()
            })
            .flags(["--hide", "{ws}/private"])
            .probe(["read", "{ws}/private/key", "{token}"])
            .twin(Twin::Host),
        attempt("hidden-file-renamed", "moves the parent of a hidden file and reads it")
            .set_up(|scene| {
                scene.write("ws/deep/private/key", &scene.token);
                Props::default()
            })
            .flags(["--hide", "{ws}/deep/private"])
            .shell("mv deep other; grep -q {token} other/private/key")
            .twin(Twin::Host),
    ]
}

/// The host swaps a link between a harmless file and the secret while `ringfence` and the probe use it.
fn with_swaps<T>(scene: &Scene, act: impl FnOnce() -> T) -> T {
    let stop = Arc::new(AtomicBool::new(false));
    let (root, flag) = (scene.root().to_owned(), Arc::clone(&stop));
    scene.write("ws/harmless", "harmless");
    let swapper = std::thread::spawn(move || {
        let (link, next) = (root.join("ws/link"), root.join("ws/next"));
        for target in ["harmless", "../outside/secret"].iter().cycle() {
            let _ = std::os::unix::fs::symlink(target, &next);
            let _ = std::fs::rename(&next, &link);
            if flag.load(Ordering::Relaxed) {
                break;
            }
        }
    });
    let result = act();
    stop.store(true, Ordering::Relaxed);
    let _ = swapper.join();
    result
}

fn reads_through_swapped_symlink() -> Row {
    let command = |scene: &Scene| {
        let script = format!(
            "(sleep 0.3; touch stop) & {} read-through-swaps link {} stop",
            Stage::get().probe.display(),
            scene.token
        );
        ["bash".to_owned(), "-c".to_owned(), script]
    };
    drill(
        "symlink-swapped-read",
        "reads by a link that is swapped meanwhile",
        "the mounts are those of the rows beside it, which a session holds",
        move |identity| {
            let scene = Scene::new(identity);
            let outcome = with_swaps(&scene, || {
                let test = Test::in_scene(&scene).profile("moderate").with_probe();
                test.workspace(scene.workspace()).run(command(&scene))
            });
            let held = outcome.exit == 1 && outcome.output.contains("held:");
            if held { Ok(()) } else { Err(outcome.describe()) }
        },
        move |identity| {
            let scene = Scene::new(identity);
            let text = with_swaps(&scene, || crate::stdio::on_host(&scene, &command(&scene), |_| {}));
            if text.contains("escaped:") { Ok(()) } else { Err(text) }
        },
    )
}

fn writes_through_swapped_symlink() -> Row {
    let command = || {
        let script = format!(
            "(sleep 0.3; touch stop) & {} write-through-swaps link stop",
            Stage::get().probe.display()
        );
        ["bash".to_owned(), "-c".to_owned(), script]
    };
    drill(
        "symlink-swapped-write",
        "writes by a link that is swapped meanwhile",
        "the mounts are those of the rows beside it, which a session holds",
        move |identity| {
            let scene = Scene::new(identity);
            let outcome = with_swaps(&scene, || {
                let test = Test::in_scene(&scene).profile("moderate").with_probe();
                test.workspace(scene.workspace()).run(command())
            });
            if !outcome.output.contains("writes went somewhere") {
                return Err(outcome.describe());
            }
            secret_is_untouched(&scene)
        },
        move |identity| {
            let scene = Scene::new(identity);
            let text = with_swaps(&scene, || crate::stdio::on_host(&scene, &command(), |_| {}));
            match secret_is_untouched(&scene) {
                Ok(()) => Err(format!("the file outside was not written: {text}")),
                Err(_) => Ok(()),
            }
        },
    )
}
