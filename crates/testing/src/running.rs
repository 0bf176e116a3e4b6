//! A run under way: to signal it, to wait for it, never to outlive the test.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Outcome, Scene};

/// Far beyond what any run takes: it only keeps a hanging one from hanging the tests.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Debug)]
pub struct Running {
    child: Child,
    json: bool,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
    /// Keeps the scratch directories until the run has ended.
    _scene: Option<Scene>,
}

impl Running {
    pub(crate) fn new(mut child: Child, json: bool, stdin: Option<Vec<u8>>, scene: Option<Scene>) -> Self {
        if let (Some(bytes), Some(pipe)) = (stdin, child.stdin.take()) {
            feed(pipe, bytes);
        }
        let stdout = child.stdout.take().map(collect);
        let stderr = child.stderr.take().map(collect);
        Self { child, json, stdout, stderr, _scene: scene }
    }

    /// The pid of `ringfence` itself.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Send a signal to `ringfence` itself.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("signal ringfence");
    }

    /// Whether it has ended.
    ///
    /// # Panics
    /// If the process can't be waited for.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("wait for ringfence").is_some()
    }

    /// Wait for the end.
    ///
    /// # Panics
    /// If the end doesn't come in a minute and a half: `ringfence` is killed then.
    #[must_use]
    pub fn wait(mut self) -> Outcome {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = Duration::from_micros(500);
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("wait for ringfence") {
                break status;
            }
            if Instant::now() > deadline {
                let _ = self.child.kill();
                panic!("ringfence did not end within {PATIENCE:?}");
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        };
        let take = |pipe: Option<JoinHandle<Vec<u8>>>| match pipe {
            Some(reader) => join_before(reader, deadline),
            None => Vec::new(),
        };
        let (stdout, stderr) = (take(self.stdout.take()), take(self.stderr.take()));
        Outcome::new(status, &stdout, &stderr, self.json)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn feed(mut pipe: ChildStdin, bytes: Vec<u8>) {
    // A command that ends without reading closes the pipe: not this thread's concern.
    std::thread::spawn(move || {
        let _ = pipe.write_all(&bytes);
    });
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

fn join_before(reader: JoinHandle<Vec<u8>>, deadline: Instant) -> Vec<u8> {
    while !reader.is_finished() {
        assert!(Instant::now() < deadline, "ringfence has ended but something still holds its output");
        std::thread::sleep(Duration::from_millis(1));
    }
    reader.join().unwrap_or_default()
}
