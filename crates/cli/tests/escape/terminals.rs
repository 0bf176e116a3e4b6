//! Terminals: the caller's own as stdio, and the one that `-t` makes. Pushed input would be run by the caller's shell.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use ringfence_testing::{Identity, Scene, Stage};
use rustix::pty::OpenptFlags;

use crate::attempt::{Twin, attempt};
use crate::row::{InSession, Row, Shown};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        attempt("push-own-pty", "pushes input into a terminal of its own")
            .probe(["push-input-own-pty"])
            .denied("ioctl")
            .twin(Twin::HostAsRoot),
        on_terminal("push-stdin", "pushes input into the caller's terminal", "push-input", &[]),
        on_terminal("push-stdin-wide", "pushes input with upper bits set", "push-input-wide", &[]),
        on_terminal("push-dev-tty", "pushes input into /dev/tty", "push-input-tty", &[]),
        on_terminal("push-with-t", "pushes input into the terminal of -t", "push-input", &["-t"]),
        on_terminal("push-dev-tty-with-t", "pushes input into /dev/tty under -t", "push-input-tty", &["-t"]),
    ]
}

/// A terminal: what the caller's emulator holds, and the end that programs get.
struct Terminal {
    _emulator: OwnedFd,
    end: File,
}

impl Terminal {
    fn open(identity: Identity) -> Self {
        let emulator = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("open a terminal");
        rustix::pty::grantpt(&emulator).expect("grant the terminal");
        rustix::pty::unlockpt(&emulator).expect("unlock the terminal");
        let name = rustix::pty::ptsname(&emulator, Vec::new()).expect("the terminal's name");
        let path = std::path::PathBuf::from(name.to_string_lossy().into_owned());
        identity.own(&path);
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
        let end = rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).expect("open the terminal's end");
        Self { _emulator: emulator, end: File::from(end) }
    }
}

/// Start a line with the terminal as stdin and controlling terminal.
fn under_terminal(scene: &Scene, line: Vec<String>) -> String {
    let terminal = Terminal::open(scene.identity);
    let end = terminal.end.try_clone().expect("a second handle");
    let mut args: Vec<String> = ["setsid", "--ctty", "--wait"].map(str::to_owned).to_vec();
    args.extend(line);
    crate::stdio::on_host(scene, &args, |command| {
        command
            .stdin(end)
            .env("RINGFENCE_STATE_DIR", scene.state())
            .envs(ringfence_testing::provider_environment());
    })
}

fn on_terminal(name: &str, what: &str, attempt: &'static str, flags: &'static [&'static str]) -> Row {
    let probe = || Stage::get().probe.to_string_lossy().into_owned();
    Row {
        name: name.to_owned(),
        what: what.to_owned(),
        held: Rc::new(move |identity| {
            let scene = Scene::new(identity);
            let stage = Stage::get();
            let mut line = vec![stage.ringfence.to_string_lossy().into_owned(), "run".into()];
            line.extend(ringfence_testing::provider_flags());
            line.extend(["--profile", "restrictive", "--read"].map(str::to_owned));
            line.push(stage.probe_dir().to_string_lossy().into_owned());
            line.extend(flags.iter().map(|flag| (*flag).to_owned()));
            line.extend(["--".to_owned(), probe(), attempt.to_owned()]);
            let text = under_terminal(&scene, line);
            let held = text.contains("held:") && !text.contains("escaped:");
            if held { Ok(Shown::Yes(text.trim().to_owned())) } else { Err(text) }
        }),
        twin: Rc::new(move |_| {
            // Without a privilege the kernel may be told to refuse it (dev.tty.legacy_tiocsti).
            if !Identity::Root.is_available() {
                return Ok(Shown::Skipped("needs root".into()));
            }
            let scene = Scene::new(Identity::Root);
            let text = under_terminal(&scene, vec![probe(), attempt.to_owned()]);
            if text.contains("escaped:") { Ok(Shown::Yes(text.trim().to_owned())) } else { Err(text) }
        }),
        in_session: InSession::Elsewhere("tests/session/terminals.rs"),
        pooled: None,
    }
}
