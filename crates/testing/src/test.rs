//! The builder of one `ringfence run` call.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::provider::{check_provider, provider_environment, provider_flags};
use crate::{Identity, Outcome, Running, Scene, Stage};

/// One call of `ringfence run`, with a scratch HOME, state directory and current directory of its own unless a
/// [`Scene`] is given. The environment is empty but for PATH, HOME, LANG, the state directory and what `env` adds.
#[derive(Debug)]
pub struct Test {
    identity: Identity,
    verb: Vec<OsString>,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    json: bool,
    cwd: Option<PathBuf>,
    home: Option<PathBuf>,
    state: Option<PathBuf>,
    stdin: Input,
    stdout: Option<File>,
    client: Option<Vec<OsString>>,
}

/// A client that hands its own environment on, with what the settings of a project add to it, and without what it keeps.
const CLIENT: &str = "\
import os, subprocess, sys
at = sys.argv.index('--')
more = dict(pair.split('=', 1) for pair in sys.argv[1:at] if '=' in pair)
given = {name: value for name, value in os.environ.items() if name not in sys.argv[1:at]}
sys.exit(subprocess.call(sys.argv[at + 1:], env={**given, **more}))";

#[derive(Debug)]
enum Input {
    Nothing,
    Bytes(Vec<u8>),
    File(File),
}

impl Default for Test {
    fn default() -> Self {
        Self::new()
    }
}

impl Test {
    /// A run with `--json`, as root if the tests are run by root, else as the user.
    #[must_use]
    pub fn new() -> Self {
        let root = rustix::process::geteuid().is_root();
        Self {
            identity: if root { Identity::Root } else { Identity::User },
            verb: vec!["run".into()],
            args: Vec::new(),
            env: Vec::new(),
            json: true,
            cwd: None,
            home: None,
            state: None,
            stdin: Input::Nothing,
            stdout: None,
            client: None,
        }
    }

    /// A run in this scene: its identity, home and state directory, and started in its workspace.
    #[must_use]
    pub fn in_scene(scene: &Scene) -> Self {
        let mut test = Self::new().as_identity(scene.identity).cwd(scene.workspace());
        test.home = Some(scene.home());
        test.state = Some(scene.state());
        test
    }

    #[must_use]
    pub fn as_user(self) -> Self {
        self.as_identity(Identity::User)
    }

    #[must_use]
    pub fn as_root(self) -> Self {
        self.as_identity(Identity::Root)
    }

    #[must_use]
    pub fn as_identity(mut self, identity: Identity) -> Self {
        self.identity = identity;
        self
    }

    /// Another verb than `run`, for [`Test::call`].
    #[must_use]
    pub fn verb<S: Into<OsString>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.verb = words.into_iter().map(Into::into).collect();
        self
    }

    /// `--profile NAME`
    #[must_use]
    pub fn profile(self, name: &str) -> Self {
        self.args(["--profile", name])
    }

    /// `--workspace DIR`
    #[must_use]
    pub fn workspace(self, dir: impl AsRef<Path>) -> Self {
        self.args([OsStr::new("--workspace"), dir.as_ref().as_os_str()])
    }

    /// `--read` of the probe's directory, so that [`Stage::probe`] can be run inside.
    #[must_use]
    pub fn with_probe(self) -> Self {
        self.args([OsStr::new("--read"), Stage::get().probe_dir().as_os_str()])
    }

    /// More flags, before the `--`.
    #[must_use]
    pub fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// A variable of the caller's environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Started by a client that has this environment, and not by the test itself; `more` is what only `ringfence` gets of it.
    #[must_use]
    pub fn by_client(mut self, more: &[(&str, &str)]) -> Self {
        self.client
            .get_or_insert_default()
            .extend(more.iter().map(|(name, value)| format!("{name}={value}").into()));
        self
    }

    /// The same by a client that has these variables and does not hand them on.
    #[must_use]
    pub fn by_client_that_keeps(mut self, names: &[&str]) -> Self {
        self.client.get_or_insert_default().extend(names.iter().map(OsString::from));
        self
    }

    /// The directory that `ringfence` is started in.
    #[must_use]
    pub fn cwd(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cwd = Some(dir.into());
        self
    }

    /// The state directory (else a fresh one).
    #[must_use]
    pub fn state(mut self, dir: impl Into<PathBuf>) -> Self {
        self.state = Some(dir.into());
        self
    }

    /// Bytes for stdin, by a pipe.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Input::Bytes(bytes.into());
        self
    }

    /// An open file (or directory, or device) as stdin.
    #[must_use]
    pub fn stdin_file(mut self, file: File) -> Self {
        self.stdin = Input::File(file);
        self
    }

    /// An open file as stdout; the outcome's `output` is empty then.
    #[must_use]
    pub fn stdout_file(mut self, file: File) -> Self {
        self.stdout = Some(file);
        self
    }

    /// Without `--json`: the command has the caller's own stdio.
    #[must_use]
    pub fn plain(mut self) -> Self {
        self.json = false;
        self
    }

    /// Run this command in a sandbox and wait for it.
    ///
    /// # Panics
    /// If `ringfence` can't be started or hangs.
    #[must_use]
    pub fn run<S: Into<OsString>>(self, command: impl IntoIterator<Item = S>) -> Outcome {
        let outcome = self.spawn(command).wait();
        check_provider(&outcome);
        outcome
    }

    /// Start this command in a sandbox.
    ///
    /// # Panics
    /// If `ringfence` can't be started.
    #[must_use]
    pub fn spawn<S: Into<OsString>>(self, command: impl IntoIterator<Item = S>) -> Running {
        let mut tail: Vec<OsString> = if self.json { vec!["--json".into()] } else { Vec::new() };
        tail.push("--".into());
        tail.extend(command.into_iter().map(Into::into));
        self.start(tail)
    }

    /// Call `ringfence VERB ARGS…` as given, without `--json` and `--`.
    ///
    /// # Panics
    /// If `ringfence` can't be started or hangs.
    #[must_use]
    pub fn call(self) -> Outcome {
        self.spawn_call().wait()
    }

    /// Start `ringfence VERB ARGS…` as given, without `--json` and `--`.
    ///
    /// # Panics
    /// If `ringfence` can't be started.
    #[must_use]
    pub fn spawn_call(mut self) -> Running {
        self.json = false;
        self.start(Vec::new())
    }

    /// For the verbs that make a sandbox.
    fn provider(&self) -> Vec<String> {
        let makes = self.verb == ["run"] || self.verb == ["session", "create"];
        let named = self.args.iter().any(|flag| flag == "--provider");
        if makes && !named { provider_flags() } else { Vec::new() }
    }

    fn start(mut self, tail: Vec<OsString>) -> Running {
        let stage = Stage::get();
        assert!(stage.ringfence.exists(), "the ringfence program is not built: cargo build");
        let needs_scene = self.home.is_none() || self.state.is_none() || self.cwd.is_none();
        let scene = needs_scene.then(|| Scene::new(self.identity));
        let place = |given: Option<PathBuf>, scratch: fn(&Scene) -> PathBuf| {
            given.unwrap_or_else(|| scratch(scene.as_ref().expect("a scene where a place is missing")))
        };
        let mut command = match &self.client {
            None => Command::new(&stage.ringfence),
            Some(more) => {
                let mut command = Command::new("python3");
                command.args(["-c", CLIENT]).args(more).arg("--").arg(&stage.ringfence);
                command
            }
        };
        command
            .args(&self.verb)
            .args(self.provider())
            .args(&self.args)
            .args(tail)
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LANG", "C.UTF-8")
            .env("HOME", place(self.home.take(), Scene::home))
            .env("RINGFENCE_STATE_DIR", place(self.state.take(), Scene::state))
            .envs(provider_environment())
            .envs(self.env)
            .current_dir(place(self.cwd.take(), Scene::workspace))
            .stderr(Stdio::piped())
            .stdout(self.stdout.map_or_else(Stdio::piped, Stdio::from));
        let bytes = match self.stdin {
            Input::Nothing => {
                command.stdin(Stdio::null());
                None
            }
            Input::Bytes(bytes) => {
                command.stdin(Stdio::piped());
                Some(bytes)
            }
            Input::File(file) => {
                command.stdin(file);
                None
            }
        };
        self.identity.apply(&mut command);
        let child = crate::starter::start(command).unwrap_or_else(|error| panic!("start ringfence: {error}"));
        Running::new(child, self.json, bytes, scene)
    }
}
