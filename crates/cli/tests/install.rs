//! `./install` puts the command, completions and man pages under a prefix, and `--remove` takes exactly those away.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn install(prefix: &Path, more: &[&str]) -> Output {
    Command::new("bash")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../install"))
        .arg("--prefix")
        .arg(prefix)
        .args(more)
        .env("RINGFENCE_BIN", env!("CARGO_BIN_EXE_ringfence"))
        .output()
        .expect("bash starts")
}

fn everything_below(dir: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(everything_below(&entry.path()));
        }
        found.insert(entry.path());
    }
    found
}

#[test]
fn installs_runs_and_removes_exactly_that() {
    let root = tempfile::tempdir().unwrap();
    let prefix = root.path().join("a prefix");
    // What is there before: a neighbour's page and an empty directory.
    fs::create_dir_all(prefix.join("share/man/man1")).unwrap();
    fs::create_dir_all(prefix.join("share/zsh")).unwrap();
    fs::write(prefix.join("share/man/man1/other.1"), "other").unwrap();
    let before = everything_below(&prefix);
    for _ in 0..2 {
        let done = install(&prefix, &[]);
        assert!(done.status.success(), "{done:?}");
    }
    for file in [
        "bin/ringfence",
        "share/bash-completion/completions/ringfence",
        "share/zsh/site-functions/_ringfence",
        "share/fish/vendor_completions.d/ringfence.fish",
        "share/man/man1/ringfence.1",
        "share/man/man1/ringfence-run.1",
        "share/man/man1/ringfence-policy-show.1",
        "share/man/man1/ringfence-trust.1",
        "share/man/man1/ringfence-denials.1",
        "share/man/man1/ringfence-doctor.1",
    ] {
        assert!(fs::metadata(prefix.join(file)).is_ok_and(|facts| facts.len() > 100), "{file}");
    }
    let version = Command::new(prefix.join("bin/ringfence")).arg("--version").output().unwrap();
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("ringfence "), "{version:?}");
    // The completions are scripts that their shell can read.
    let script = prefix.join("share/bash-completion/completions/ringfence");
    assert!(Command::new("bash").arg("-n").arg(script).status().unwrap().success());

    let done = install(&prefix, &["--remove"]);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(everything_below(&prefix), before);
    let again = install(&prefix, &["--remove"]);
    assert!(!again.status.success());
    assert!(String::from_utf8_lossy(&again.stderr).contains("nothing is installed"), "{again:?}");
}

#[test]
fn a_prefix_that_was_made_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let prefix = root.path().join("new");
    assert!(install(&prefix, &[]).status.success());
    assert!(install(&prefix, &["--remove"]).status.success());
    assert!(!prefix.exists());
}
