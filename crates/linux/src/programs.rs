//! The system's own programs, by where they are and not by what PATH says: a project, and so a sandbox, can put a
//! directory of its own first there.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The last one is NixOS's.
const PLACES: [&str; 7] = [
    "/usr/bin",
    "/usr/sbin",
    "/bin",
    "/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/run/current-system/sw/bin",
];
/// What the kernel shows for an owner that has no number in this user namespace.
const NOBODY: u32 = 65_534;
const OTHERS_WRITE: u32 = 0o022;

/// The program of this name in a directory of the system, where root alone can have put it. By this name, which may be a
/// link: some programs are several, and go by how they are called.
pub fn system_program(name: &str) -> Option<PathBuf> {
    program_in(&PLACES.map(Path::new), name)
}

fn program_in(places: &[&Path], name: &str) -> Option<PathBuf> {
    places.iter().map(|place| place.join(name)).find(|program| {
        let is_program = |facts: fs::Metadata| facts.is_file() && facts.permissions().mode() & 0o111 != 0;
        let place = program.parent().is_some_and(is_roots_alone);
        program.metadata().is_ok_and(is_program) && place && is_roots_alone(program)
    })
}

/// With all that is above it, behind links.
fn is_roots_alone(path: &Path) -> bool {
    path.canonicalize().is_ok_and(|real| real.ancestors().all(is_roots))
}

fn is_roots(path: &Path) -> bool {
    path.metadata().is_ok_and(|facts| {
        let is_roots = facts.uid() == 0 || (facts.uid() == NOBODY && is_in_user_namespace());
        is_roots && facts.mode() & OTHERS_WRITE == 0
    })
}

fn is_in_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    !map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_root_alone_can_have_put_there() {
        // By its own name, though it is a link nearly everywhere.
        assert!(system_program("sh").is_some_and(|program| program.is_absolute() && program.ends_with("sh")));
        assert_eq!(system_program("no-such-program"), None);
        let place = tempfile::tempdir().unwrap();
        let planted = place.path().join("planted");
        fs::write(&planted, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&planted, fs::Permissions::from_mode(0o755)).unwrap();
        // /tmp is everybody's, whoever owns what is in it.
        assert_eq!(program_in(&[place.path()], "planted"), None);
        let linked = place.path().join("linked");
        std::os::unix::fs::symlink("/bin/sh", &linked).unwrap();
        assert_eq!(program_in(&[place.path()], "linked"), None, "the link may be changed");
        fs::set_permissions(&planted, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(program_in(&[Path::new("/etc")], "passwd"), None, "it can't be executed");
    }
}
