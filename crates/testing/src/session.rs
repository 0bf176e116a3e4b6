//! A session under test: made by the real command in a scene, used through its verbs, gone when dropped.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Outcome, Running, Scene, Test, processes};

/// Far beyond what anything takes that a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// One session of a scene. Its name holds the scene's token, and so do its keeper's arguments.
#[derive(Debug)]
pub struct Session<'a> {
    scene: &'a Scene,
    pub name: String,
}

impl<'a> Session<'a> {
    /// `session create` with these flags.
    ///
    /// # Panics
    /// If it can't be made.
    #[must_use]
    #[track_caller]
    pub fn create<S: Into<OsString>>(scene: &'a Scene, flags: impl IntoIterator<Item = S>) -> Self {
        let session = Self::named(scene);
        let outcome = session.make(flags).call();
        assert_eq!(outcome.exit, 0, "no session\n{}", outcome.describe());
        session
    }

    /// A name for a session that something else makes; it is removed all the same.
    #[must_use]
    pub fn named(scene: &'a Scene) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", scene.token, COUNT.fetch_add(1, Ordering::Relaxed));
        Self { scene, name }
    }

    /// The call that makes it.
    #[must_use]
    pub fn make<S: Into<OsString>>(&self, flags: impl IntoIterator<Item = S>) -> Test {
        Test::in_scene(self.scene).verb(["session", "create"]).args(["--name", &self.name]).args(flags)
    }

    /// `session exec --json`
    #[must_use]
    pub fn exec<S: Into<OsString>>(&self, command: impl IntoIterator<Item = S>) -> Outcome {
        self.exec_with(&[], command)
    }

    /// `session exec --json` with flags.
    #[must_use]
    pub fn exec_with<S: Into<OsString>>(
        &self,
        flags: &[&str],
        command: impl IntoIterator<Item = S>,
    ) -> Outcome {
        self.exec_test(flags).run(command)
    }

    /// A call of `session exec`, to be run or started.
    #[must_use]
    pub fn exec_test(&self, flags: &[&str]) -> Test {
        Test::in_scene(self.scene).verb(["session", "exec"]).args(flags.iter().copied()).args([&self.name])
    }

    /// A line of shell: `session exec --json`
    #[must_use]
    pub fn sh(&self, script: &str) -> Outcome {
        self.exec(["bash", "-c", script])
    }

    /// A line of shell under way, with the client's own stdio.
    #[must_use]
    pub fn start_sh(&self, script: &str) -> Running {
        self.exec_test(&[]).plain().spawn(["bash", "-c", script])
    }

    /// `session exec -d` of a line of shell: its process id.
    ///
    /// # Panics
    /// If it can't be started.
    #[track_caller]
    pub fn detach(&self, flags: &[&str], script: &str) -> u32 {
        let outcome = self.exec_test(&[&["-d"][..], flags].concat()).plain().run(["bash", "-c", script]);
        outcome.output.trim().parse().unwrap_or_else(|_| panic!("not started\n{}", outcome.describe()))
    }

    /// `session VERB NAME ARGS…`
    #[must_use]
    pub fn call<S: AsRef<OsStr>>(&self, verb: &str, args: &[S]) -> Outcome {
        self.test(verb, args).call()
    }

    /// `session VERB NAME ARGS…`, to be run or started.
    #[must_use]
    pub fn test<S: AsRef<OsStr>>(&self, verb: &str, args: &[S]) -> Test {
        let args = args.iter().map(AsRef::as_ref);
        Test::in_scene(self.scene).verb(["session", verb, &self.name]).args(args)
    }

    /// What `session VERB NAME ARGS… --json` prints.
    ///
    /// # Panics
    /// If that fails, or is no JSON.
    #[must_use]
    #[track_caller]
    pub fn json(&self, verb: &str, args: &[&str]) -> Value {
        let outcome = self.call(verb, &[args, &["--json"]].concat());
        assert_eq!(outcome.exit, 0, "session {verb}\n{}", outcome.describe());
        serde_json::from_str(&outcome.output).unwrap_or_else(|_| panic!("no JSON\n{}", outcome.describe()))
    }

    /// Whether it answers, with the right answer.
    #[must_use]
    pub fn answers(&self) -> bool {
        let outcome = self.exec(["echo", "here"]);
        outcome.exit == 0 && outcome.output == "here\n"
    }

    /// # Panics
    /// If it doesn't answer.
    #[track_caller]
    pub fn assert_answers(&self) {
        let outcome = self.exec(["echo", "here"]);
        assert!(
            outcome.exit == 0 && outcome.output == "here\n",
            "it does not answer\n{}",
            outcome.describe()
        );
    }

    /// The keeper's pid.
    ///
    /// # Panics
    /// If the session has ended.
    #[must_use]
    #[track_caller]
    pub fn keeper(&self) -> u32 {
        let pid = self.json("inspect", &[])["status"]["keeper"].as_u64();
        pid.and_then(|pid| u32::try_from(pid).ok()).expect("a session that lives has a keeper")
    }

    /// guard's pid on the host.
    ///
    /// # Panics
    /// If the session has ended.
    #[must_use]
    #[track_caller]
    pub fn guard(&self) -> u32 {
        let below = processes::children(self.keeper());
        // Where another program made its namespaces, that one is between the two.
        let further: Vec<u32> = below.iter().flat_map(|pid| processes::children(*pid)).collect();
        let mut all = below.into_iter().chain(further);
        all.find(|pid| processes::is_first(*pid))
            .or_else(|| self.contained_guard())
            .expect("a keeper has a guard")
    }

    /// The one that a daemon's container has, which is nobody's child here.
    fn contained_guard(&self) -> Option<u32> {
        let text = std::fs::read_to_string(self.place().join("session.json")).ok()?;
        let facts: Value = serde_json::from_str(&text).ok()?;
        let pid = u32::try_from(facts["pillars"]["guard"]["pid"].as_u64()?).ok()?;
        processes::is_first(pid).then_some(pid)
    }

    /// Its directory.
    #[must_use]
    pub fn place(&self) -> PathBuf {
        self.scene.state().join("sessions").join(&self.name)
    }

    /// What `ls --all` says of it; nothing if it isn't there.
    ///
    /// # Panics
    /// If the list is no JSON.
    #[must_use]
    pub fn listed(&self) -> Option<Value> {
        let outcome = Test::in_scene(self.scene).verb(["session", "ls", "--all", "--json"]).call();
        let rows: Vec<Value> = serde_json::from_str(&outcome.output).expect("a list of sessions");
        rows.into_iter().find(|row| row["id"] == self.name.as_str())
    }

    /// Remove it now, and see that this works.
    ///
    /// # Panics
    /// If it can't be removed.
    #[track_caller]
    pub fn remove(self) {
        let outcome = self.rm();
        assert_eq!(outcome.exit, 0, "not removed\n{}", outcome.describe());
    }

    fn rm(&self) -> Outcome {
        Test::in_scene(self.scene).verb(["session", "rm", &self.name]).call()
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if self.place().exists() {
            let _ = self.rm();
        }
    }
}

/// Wait until something holds.
///
/// # Panics
/// If it does not within a minute.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
