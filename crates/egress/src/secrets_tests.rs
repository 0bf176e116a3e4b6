use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::fetch::{command_within, fetch};
use super::*;
use crate::store::SecretStore;

const PLANTED: &str = "planted-value-0123456789";

fn from(source: SecretSource) -> Result<String, Problem> {
    fetch(&source, Path::new("/nonexistent"), &[]).map(|value| value.expose_secret().to_owned())
}

fn file(directory: &Path, content: &[u8]) -> SecretSource {
    let path = directory.join("value");
    fs::write(&path, content).unwrap();
    SecretSource::File(path)
}

#[test]
fn each_source_gives_its_value() {
    let root = tempfile::tempdir().unwrap();
    // A variable that every test process has.
    let path = std::env::var("PATH").unwrap();
    assert_eq!(from(SecretSource::Env("PATH".into())).unwrap(), path);
    for (content, expected) in [("v\n", "v"), ("v\r\n", "v"), ("v", "v"), ("v\n\n", "v\n"), (" v ", " v ")] {
        assert_eq!(from(file(root.path(), content.as_bytes())).unwrap(), expected);
    }
    assert_eq!(from(SecretSource::Command("printf 'a%s\\n' b".into())).unwrap(), "ab");
    SecretStore::open_with_key_file(root.path()).set("TOKEN", &PLANTED.into()).unwrap();
    let stored = fetch(&SecretSource::Store("TOKEN".into()), root.path(), &[]).unwrap();
    assert_eq!(stored.expose_secret(), PLANTED);
}

#[test]
fn what_can_not_be_had_is_said_without_the_value() {
    let root = tempfile::tempdir().unwrap();
    let binary = [PLANTED.as_bytes(), b"\xff"].concat();
    let cases = [
        (SecretSource::Env("RINGFENCE_TEST_NOT_SET".into()), "is not set"),
        (SecretSource::File(PathBuf::from("/nonexistent/value")), "No such file"),
        (SecretSource::File(root.path().to_owned()), "not a regular file"),
        (file(root.path(), &binary), "not UTF-8"),
        (SecretSource::Command(format!("echo {PLANTED}; exit 3")), "exit status: 3"),
        (SecretSource::Command(format!("printf '{PLANTED}\\377'")), "not UTF-8"),
        (SecretSource::Store("TOKEN".into()), "ringfence secret set TOKEN"),
    ];
    for (source, expected) in cases {
        let problem = from(source).unwrap_err();
        assert!(problem.why.contains(expected), "{problem:?}");
        assert!(!format!("{problem:?}").contains("planted-value"), "{problem:?}");
    }
}

#[test]
fn a_command_has_its_time_and_no_more() {
    let started = Instant::now();
    let problem = command_within("sleep 60 & sleep 60", Duration::from_millis(200)).unwrap_err();
    assert!(problem.why.contains("did not end"), "{problem:?}");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_fifo_is_not_waited_for() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert!(from(SecretSource::File(path)).unwrap_err().why.contains("not a regular file"));
}

#[test]
fn values_that_no_header_can_carry_or_no_mask_can_find_are_refused() {
    let placeholder = "ringfence-placeholder-1";
    assert!(check("12345678", placeholder).is_ok());
    assert!(check("pässwörd with blanks", placeholder).is_ok());
    let long = "v".repeat(LONGEST + 1);
    for value in [
        "",
        "1234567",
        "two\nlines-of-it",
        "nul\0-inside-it",
        "tab\tinside",
        &long,
        placeholder,
        "ringfence-placeholder-12",
    ] {
        assert!(check(value, placeholder).is_err(), "{value}");
    }
}
