//! A program of the host's that a provider drives: where it may be, whether it can be trusted, and which version it is.

use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SETUID: u32 = 0o4000;
/// What the kernel shows for an owner that has no number here.
const NOBODY: u32 = 65_534;
/// The longest answer to `--version` that is read.
const ANSWER: u64 = 400;

/// Why a program can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Distrust {
    /// It is in none of the places.
    Absent,
    Setuid(PathBuf),
    /// Others than root can write it, or it can't be looked at.
    Writable(PathBuf),
}

/// The program in the first of `places` that has it. What a workspace puts first on PATH is not looked at.
pub(super) fn find_program(name: &str, places: &[&Path]) -> Result<PathBuf, Distrust> {
    let found = places.iter().map(|place| place.join(name)).find(|path| path.is_file());
    let path = found.ok_or(Distrust::Absent)?;
    let Ok(facts) = path.metadata() else { return Err(Distrust::Writable(path)) };
    if facts.permissions().mode() & SETUID != 0 {
        return Err(Distrust::Setuid(path));
    }
    let id_map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if !is_roots(facts.uid(), &id_map) || facts.permissions().mode() & 0o022 != 0 {
        return Err(Distrust::Writable(path));
    }
    Ok(path)
}

/// In a user namespace that does not have the host's root, what is root's is shown as nobody's.
fn is_roots(owner: u32, id_map: &str) -> bool {
    let is_host = id_map.split_whitespace().eq(["0", "0", "4294967295"]);
    owner == 0 || (owner == NOBODY && !is_host)
}

/// What it answers to `--version`.
pub(super) fn ask_version(program: &Path) -> Option<String> {
    let child = Command::new(program)
        .arg("--version")
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.ok()?;
    let mut text = String::new();
    child.stdout.take()?.take(ANSWER).read_to_string(&mut text).ok()?;
    child.wait().ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_trusted_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("tool");
        let find = || find_program("tool", &[place.path()]);
        assert_eq!(find(), Err(Distrust::Absent));
        std::fs::write(&program, "").unwrap();
        let mode = |mode| std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o4755);
        assert_eq!(find(), Err(Distrust::Setuid(program.clone())));
        mode(0o777);
        assert_eq!(find(), Err(Distrust::Writable(program.clone())));
    }

    #[test]
    fn it_must_be_roots() {
        let host = "         0          0 4294967295\n";
        let inside = "      1000       1000          1\n";
        assert!(is_roots(0, host) && is_roots(0, inside) && is_roots(NOBODY, inside));
        assert!(!is_roots(NOBODY, host) && !is_roots(1000, host) && !is_roots(1000, inside));
    }
}
