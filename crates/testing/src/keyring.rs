//! A real keyring of a scene: GNOME's, behind a message bus of its own that nobody else knows. Both die with the test.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use crate::{Scene, eventually, starter};

const PROGRAMS: [&str; 3] = ["dbus-daemon", "gnome-keyring-daemon", "secret-tool"];

/// Unlocked, and empty at first. What it keeps is in the scene's home.
#[derive(Debug)]
pub struct Keyring {
    bus: Child,
    keyring: Child,
    pub environment: [(&'static str, String); 2],
}

impl Keyring {
    /// Start it as the scene's identity. `None`, with a notice (in CI a failure), where its programs are not installed.
    ///
    /// # Panics
    /// If it does not answer.
    #[must_use]
    pub fn start(scene: &Scene) -> Option<Self> {
        let missing: Vec<&str> = PROGRAMS.into_iter().filter(|program| !is_installed(program)).collect();
        if !missing.is_empty() {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "not installed: {missing:?}");
            eprintln!("skipped: the keyring, because these are not installed: {missing:?}");
            return None;
        }
        scene.mkdir("home/run");
        let run = scene.path("home/run").display().to_string();
        let command = |program: &str, args: &[&str]| {
            let mut command = Command::new(program);
            command.args(args).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", scene.home());
            command.env("XDG_RUNTIME_DIR", &run).stdin(Stdio::null()).stderr(Stdio::null());
            scene.identity.apply(&mut command);
            command
        };
        let listen = format!("--address=unix:path={run}/bus");
        let mut bus = command("dbus-daemon", &["--session", "--nofork", "--print-address=1", &listen]);
        bus.stdout(Stdio::piped());
        let mut bus = starter::start(bus).expect("start a message bus");
        let mut address = String::new();
        let said = bus.stdout.take().expect("its stdout");
        BufReader::new(said).read_line(&mut address).expect("the address of the bus");
        let environment =
            [("DBUS_SESSION_BUS_ADDRESS", address.trim().to_owned()), ("XDG_RUNTIME_DIR", run.clone())];
        let known = |program: &str, args: &[&str]| {
            let mut command = command(program, args);
            command.envs(environment.iter().map(|(name, value)| (*name, value)));
            command
        };
        let mut keyring =
            known("gnome-keyring-daemon", &["--foreground", "--unlock", "--components=secrets"]);
        keyring.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut keyring = starter::start(keyring).expect("start a keyring");
        keyring.stdin.take().expect("its stdin").write_all(b"password").expect("unlock the keyring");
        eventually("the keyring keeps what it is given", || {
            let mut store = known("secret-tool", &["store", "--label=test", "ringfence-test", "it-answers"]);
            let mut store =
                store.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("start secret-tool");
            let _ = store.stdin.take().expect("its stdin").write_all(b"yes");
            store.wait().is_ok_and(|status| status.success())
        });
        Some(Self { bus, keyring, environment })
    }
}

impl Drop for Keyring {
    fn drop(&mut self) {
        for child in [&mut self.keyring, &mut self.bus] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn is_installed(program: &str) -> bool {
    ["/usr/bin", "/bin", "/usr/local/bin"].iter().any(|dir| std::path::Path::new(dir).join(program).exists())
}
