//! A pool under test: the real `ringfence pool` in a scene, and runs through it.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;

use rustix::process::Signal;

use crate::processes::children;
use crate::{Outcome, Running, Scene, Test, eventually};

/// A pool of a scene; ended when dropped.
#[derive(Debug)]
pub struct Pool<'a> {
    scene: &'a Scene,
    running: Option<Running>,
    socket: PathBuf,
}

impl<'a> Pool<'a> {
    /// Start it and wait until all of its sandboxes are ready.
    ///
    /// # Panics
    /// If they never are.
    #[must_use]
    #[track_caller]
    pub fn start<S: Into<OsString>>(scene: &'a Scene, flags: impl IntoIterator<Item = S>) -> Self {
        match Self::try_start(scene, &[], flags) {
            Ok(pool) => pool,
            Err(outcome) => panic!("the pool did not start: {}", outcome.describe()),
        }
    }

    /// The same with more variables; what it says where it ends instead.
    pub fn try_start<S: Into<OsString>>(
        scene: &'a Scene,
        env: &[(&str, &str)],
        flags: impl IntoIterator<Item = S>,
    ) -> Result<Self, Outcome> {
        let socket = scene.path(&format!("pool-{}", crate::server::unique()));
        let told = socket.with_extension("told");
        let out = File::create(&told).expect("a file for what the pool tells");
        let mut test = Test::in_scene(scene).verb(["pool"]).args(["--json", "--socket"]).args([&socket]);
        for (name, value) in env {
            test = test.env(name, value);
        }
        let mut running = test.args(flags).stdout_file(out).spawn_call();
        // What it says of a failure is JSON too, and is said before it ends.
        let is_ready = || std::fs::read_to_string(&told).is_ok_and(|text| text.contains("\"socket\""));
        eventually("the pool is ready", || running.has_ended() || is_ready());
        if running.has_ended() {
            return Err(running.wait());
        }
        Ok(Self { scene, running: Some(running), socket })
    }

    /// A run through it, to be given flags and started.
    #[must_use]
    pub fn test(&self) -> Test {
        let mut flag = OsString::from("--pool=");
        flag.push(&self.socket);
        Test::in_scene(self.scene).args([flag])
    }

    /// The pool itself, its helper, the workers, and the first processes of sandboxes.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let mut found: Vec<u32> = self.running.iter().map(Running::pid).collect();
        let mut at = 0;
        while let Some(parent) = found.get(at).copied() {
            found.extend(children(parent));
            at += 1;
        }
        found
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    /// Tell it to end, and wait until it has.
    pub fn stop(mut self) -> Option<Outcome> {
        self.end()
    }

    fn end(&mut self) -> Option<Outcome> {
        let mut running = self.running.take()?;
        if !running.has_ended() {
            running.signal(Signal::TERM);
        }
        Some(running.wait())
    }
}

impl Drop for Pool<'_> {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
