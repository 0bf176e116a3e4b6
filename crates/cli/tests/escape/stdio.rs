//! What a command is handed: stdin that is more than a stream, stdout that could be read, fds and variables that
//! were the caller's.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ringfence_testing::{Identity, Scene, Stage, Test};

use crate::row::{Row, drill};

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = vec![
        on_file("stdin-write", "writes to a stdin that was opened for both", &["write-stdin"], read_write),
        on_file("stdin-truncate", "cuts a stdin that was opened for both", &["truncate-stdin"], read_write),
        on_file(
            "stdin-reopen",
            "opens the file behind a read-only stdin again, for writing",
            &["reopen-stdin"],
            File::open,
        ),
        on_file("stdin-chmod", "changes the mode of the file behind stdin", &["chmod-stdin"], File::open),
        stdin_directory("stdin-directory", "opens files beneath a directory that came as stdin", false),
        stdin_directory("stdin-path-fd", "opens files beneath an O_PATH fd that came as stdin", true),
        stdout_chmod().not_a_boundary(|identity| identity == Identity::User),
        stdout_read("stdout-read", "reads the file that stdout goes to", "read-stdout"),
        stdout_read(
            "stdout-reopen",
            "opens the file behind stdout again, to read it",
            "reopen-stdout-to-read",
        ),
        leaked_fd("leaked-directory", "uses a directory fd of the caller", true),
        leaked_fd("leaked-file", "uses a file fd of the caller", false),
        leaked_environment(),
    ];
    rows.extend(stdin_block_device());
    rows
}

/// Why most of these rows are not a session's.
const PIPES_ONLY: &str = "a command of a session gets pipes and nothing else: tests/session/protocol.rs";

fn read_write(path: PathBuf) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Run a command on the host as the scene's identity, in its workspace; stdout and stderr together.
pub(crate) fn on_host(scene: &Scene, args: &[String], prepare: impl FnOnce(&mut Command)) -> String {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=1", "60"]).args(args);
    command
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", scene.home())
        .current_dir(scene.workspace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    prepare(&mut command);
    scene.identity.apply(&mut command);
    let output = command.spawn().and_then(std::process::Child::wait_with_output).expect("run on the host");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn probe_line(args: &[&str]) -> Vec<String> {
    std::iter::once(Stage::get().probe.to_string_lossy().into_owned())
        .chain(args.iter().map(|arg| (*arg).to_owned()))
        .collect()
}

/// The probe under plain `ringfence run`, which hands the caller's own stdio in.
fn plain(scene: &Scene) -> Test {
    Test::in_scene(scene).profile("restrictive").with_probe().plain()
}

fn on_file(
    name: &str,
    what: &str,
    args: &'static [&'static str],
    open: fn(PathBuf) -> std::io::Result<File>,
) -> Row {
    drill(
        name,
        what,
        PIPES_ONLY,
        move |identity| {
            let scene = Scene::new(identity);
            let stdin = open(scene.secret()).map_err(|error| error.to_string())?;
            let outcome = plain(&scene).stdin_file(stdin).run(probe_line(args));
            if outcome.exit != 1 || !outcome.output.contains("held:") {
                return Err(outcome.describe());
            }
            crate::attempt::secret_is_untouched(&scene)
        },
        move |identity| {
            let scene = Scene::new(identity);
            let stdin = open(scene.secret()).map_err(|error| error.to_string())?;
            let text = on_host(&scene, &probe_line(args), |command| {
                command.stdin(stdin);
            });
            if text.contains("escaped:") { Ok(()) } else { Err(text) }
        },
    )
}

fn stdin_directory(name: &str, what: &str, path_only: bool) -> Row {
    let open = move |scene: &Scene| {
        let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        let flags = if path_only { flags | rustix::fs::OFlags::PATH } else { flags };
        File::from(
            rustix::fs::open(scene.outside(), flags, rustix::fs::Mode::empty()).expect("open a directory"),
        )
    };
    drill(
        name,
        what,
        PIPES_ONLY,
        move |identity| {
            let scene = Scene::new(identity);
            let line = probe_line(&["open-beneath-stdin", "secret", &scene.token]);
            let outcome = plain(&scene).stdin_file(open(&scene)).run(line);
            if outcome.exit == 125 && outcome.errors.contains("stdin") {
                Ok(())
            } else {
                Err(outcome.describe())
            }
        },
        move |identity| {
            let scene = Scene::new(identity);
            let line = probe_line(&["open-beneath-stdin", "secret", &scene.token]);
            let text = on_host(&scene, &line, |command| {
                command.stdin(open(&scene));
            });
            if text.contains("escaped:") { Ok(()) } else { Err(text) }
        },
    )
}

/// A disk as stdin is refused. Only root can open one, read-only, and nothing is read from it.
fn stdin_block_device() -> Option<Row> {
    let device = ["/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/loop0"]
        .into_iter()
        .find(|path| rustix::process::geteuid().is_root() && File::open(path).is_ok())?;
    Some(drill(
        "stdin-block-device",
        "is given a disk as stdin",
        PIPES_ONLY,
        move |identity| {
            let scene = Scene::new(identity);
            let stdin = File::open(device).map_err(|error| error.to_string())?;
            let outcome = plain(&scene).stdin_file(stdin).run(["true"]);
            if outcome.exit == 125 && outcome.errors.contains("stdin") {
                Ok(())
            } else {
                Err(outcome.describe())
            }
        },
        move |identity| {
            let scene = Scene::new(identity);
            let stdin = File::open(device).map_err(|error| error.to_string())?;
            let line = ["bash", "-c", "test -b /proc/self/fd/0 && echo escaped:"].map(str::to_owned);
            let text = on_host(&scene, &line, |command| {
                command.stdin(stdin);
            });
            if text.contains("escaped:") { Ok(()) } else { Err(text) }
        },
    ))
}

/// stdout goes to a file that the caller opened for both and that has something in it.
fn stdout_read(name: &str, what: &str, attempt: &'static str) -> Row {
    let open = |scene: &Scene| {
        scene.write("outside/log", &format!("{}\n", scene.token));
        let file = OpenOptions::new().read(true).append(true).open(scene.path("outside/log"));
        file.expect("open the log")
    };
    drill(
        name,
        what,
        PIPES_ONLY,
        move |identity| {
            let scene = Scene::new(identity);
            let outcome = plain(&scene).stdout_file(open(&scene)).run(probe_line(&[attempt, &scene.token]));
            let log = scene.read("outside/log").unwrap_or_default();
            if outcome.exit == 1 && log.contains("held:") { Ok(()) } else { Err(outcome.describe() + &log) }
        },
        move |identity| {
            let scene = Scene::new(identity);
            let text = on_host(&scene, &probe_line(&[attempt, &scene.token]), |command| {
                command.stdout(open(&scene));
            });
            if text.contains("escaped:") { Ok(()) } else { Err(text) }
        },
    )
}

/// stdout is the caller's log: what is written arrives, its mode stays.
fn stdout_chmod() -> Row {
    use std::os::unix::fs::MetadataExt;
    let log = |scene: &Scene| {
        scene.write("outside/log", "");
        OpenOptions::new().append(true).open(scene.path("outside/log")).expect("open the log")
    };
    let mode =
        |scene: &Scene| std::fs::metadata(scene.path("outside/log")).expect("stat the log").mode() & 0o777;
    drill(
        "stdout-chmod",
        "changes the mode of the file behind stdout",
        PIPES_ONLY,
        move |identity| {
            let scene = Scene::new(identity);
            let outcome = plain(&scene).stdout_file(log(&scene)).run(probe_line(&["chmod-stdout"]));
            let tried = scene.read("outside/log").unwrap_or_default().contains("held:");
            if tried && mode(&scene) == 0o644 { Ok(()) } else { Err(outcome.describe()) }
        },
        move |identity| {
            let scene = Scene::new(identity);
            let text = on_host(&scene, &probe_line(&["chmod-stdout"]), |command| {
                command.stdout(log(&scene));
            });
            if mode(&scene) == 0o777 { Ok(()) } else { Err(text) }
        },
    )
}

/// An fd that the caller left open across exec. It is cleared of close-on-exec for the moment of the start only.
fn leaked_fd(name: &str, what: &str, directory: bool) -> Row {
    let open = move |scene: &Scene| {
        let file =
            File::open(if directory { scene.outside() } else { scene.secret() }).expect("open the leak");
        rustix::io::fcntl_setfd(file.as_fd(), rustix::io::FdFlags::empty()).expect("let the fd leak");
        file
    };
    drill(
        name,
        what,
        PIPES_ONLY,
        move |identity| {
            let scene = Scene::new(identity);
            let leak = open(&scene);
            let outcome = plain(&scene).run(probe_line(&["leaked-fd"]));
            let fd = leak.as_raw_fd();
            if outcome.exit == 1 && outcome.output.contains("held:") {
                Ok(())
            } else {
                Err(format!("fd {fd}: {}", outcome.describe()))
            }
        },
        move |identity| {
            let scene = Scene::new(identity);
            let _leak = open(&scene);
            let text = on_host(&scene, &probe_line(&["leaked-fd"]), |_| {});
            if text.contains("escaped:") { Ok(()) } else { Err(text) }
        },
    )
}

fn leaked_environment() -> Row {
    drill(
        "leaked-environment",
        "finds a variable of the caller's environment",
        "tests/session/words.rs",
        |identity: Identity| {
            let scene = Scene::new(identity);
            for profile in ["restrictive", "moderate", "permissive"] {
                let test = Test::in_scene(&scene).profile(profile).with_probe();
                let test = test.env("API_TOKEN", &scene.token).env("LD_PRELOAD_NOTE", &scene.token);
                let outcome = test.run(probe_line(&["leaked-env", &scene.token]));
                if outcome.exit != 1 || !outcome.output.contains("held:") {
                    return Err(format!("{profile}: {}", outcome.describe()));
                }
            }
            Ok(())
        },
        |identity| {
            let scene = Scene::new(identity);
            let test =
                Test::in_scene(&scene).profile("restrictive").with_probe().env("API_TOKEN", &scene.token);
            let outcome =
                test.args(["--pass-env", "API_TOKEN"]).run(probe_line(&["leaked-env", &scene.token]));
            if outcome.output.contains("escaped:") { Ok(()) } else { Err(outcome.describe()) }
        },
    )
}
