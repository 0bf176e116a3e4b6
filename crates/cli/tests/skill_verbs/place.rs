//! A home, a state directory and a current directory for one test, and calls of `ringfence skill` in them.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Place {
    root: TempDir,
}

pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) errors: String,
}

impl Said {
    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.out, self.errors);
        self
    }

    #[track_caller]
    pub(crate) fn has(self, part: &str) -> Self {
        assert!(
            self.out.contains(part) || self.errors.contains(part),
            "no {part:?}\nstdout: {}\nstderr: {}",
            self.out,
            self.errors
        );
        self
    }

    #[track_caller]
    pub(crate) fn has_not(self, part: &str) -> Self {
        assert!(
            !self.out.contains(part) && !self.errors.contains(part),
            "{part:?} in\nstdout: {}\nstderr: {}",
            self.out,
            self.errors
        );
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.out, self.errors))
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        let root = tempfile::Builder::new().prefix("rfskill-").tempdir().unwrap();
        for name in ["home", "ws"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        Self { root }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Below the current directory of the calls.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path("ws").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// A skill with a script.
    pub(crate) fn skill(&self, directory: &str, description: &str) {
        let name = directory.rsplit('/').next().unwrap();
        self.write(
            &format!("{directory}/SKILL.md"),
            format!("---\nname: {name}\ndescription: {description}\n---\nText.\n"),
        );
        self.write(&format!("{directory}/scripts/main.sh"), "echo hello\n");
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfence"));
        command
            .arg("skill")
            .args(args)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path("home"))
            .env("RINGFENCE_STATE_DIR", self.path("state"))
            .current_dir(self.path("ws"));
        command
    }

    pub(crate) fn call(&self, args: &[&str]) -> Said {
        said(&self.command(args).output().unwrap())
    }

    /// What a call said, with the scratch directory as `[ROOT]` and digests cut out.
    pub(crate) fn shown(&self, said: &Said) -> String {
        let text = format!("exit {}\n--- stdout\n{}--- stderr\n{}", said.code, said.out, said.errors);
        let real = std::fs::canonicalize(self.root.path()).unwrap();
        text.replace(real.to_str().unwrap(), "[ROOT]").replace(self.root.path().to_str().unwrap(), "[ROOT]")
    }

    /// Every path below the library, for comparing.
    pub(crate) fn library(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut waiting = vec![self.path("state/library")];
        while let Some(directory) = waiting.pop() {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    waiting.push(entry.path());
                }
                found.push(entry.path().display().to_string());
            }
        }
        found.sort();
        found
    }
}

pub(crate) fn said(output: &Output) -> Said {
    Said {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
