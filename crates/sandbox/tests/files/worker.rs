//! A worker in a process of its own: this executable again, with the channel as its stdin.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ringfence_guard::serve_files;
use ringfence_linux::control_pair;
use ringfence_linux::seccomp::{Arch, ClosedAction, Listen, Rules, compile, install};
use ringfence_sandbox::{FileTimeouts, Files};
use tempfile::TempDir;

const AS_WORKER: &str = "RINGFENCE_TEST_FILE_WORKER";

/// A worker, its client and a directory to work in.
pub(crate) struct Scene {
    pub(crate) files: Files,
    worker: Child,
    directory: TempDir,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let (ours, theirs) = control_pair().unwrap();
        let worker = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "worker::be_the_worker", "--ignored", "--nocapture"])
            .env(AS_WORKER, "1")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let files = Files::connect(ours, FileTimeouts::default()).unwrap();
        Self { files, worker, directory: TempDir::new().unwrap() }
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn into_parts(self) -> (Files, TempDir) {
        (self.files, self.directory)
    }

    /// The client goes; the worker and the directory stay.
    pub(crate) fn close(self) -> (Child, TempDir) {
        (self.worker, self.directory)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        names_in(self.directory.path())
    }
}

pub(crate) fn names_in(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A call that the sandbox closes fails here as it would there.
fn close_calls() {
    let rules = Rules { closed: ClosedAction::Errno, ..Rules::default() };
    rustix::thread::set_no_new_privs(true).unwrap();
    install(&compile(Arch::NATIVE, &rules).unwrap(), Listen::No).unwrap();
}

#[test]
#[ignore = "not a test: the worker process that the tests start"]
fn be_the_worker() {
    if std::env::var_os(AS_WORKER).is_none() {
        return;
    }
    let channel: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    close_calls();
    serve_files(channel)
}
