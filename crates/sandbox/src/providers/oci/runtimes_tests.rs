use std::os::unix::fs::PermissionsExt;

use super::*;

fn installed(place: &Path, name: &str, answer: &str) {
    let program = place.join(name);
    std::fs::write(&program, format!("#!/bin/sh\necho '{answer}'\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn versions_are_read() {
    let read = |name, text| parse_version(name, text).map(|(_, numbers)| numbers);
    assert_eq!(read("crun", "crun version 1.8.1\ncommit: f8a0\nspec: 1.0.0"), Some((1, 8)));
    assert_eq!(read("runc", "runc version 1.1.5+ds1\nspec: 1.0.2-dev"), Some((1, 1)));
    assert_eq!(read("runc", "runc version 1.2-rc.1"), Some((1, 2)));
    assert_eq!(read("youki", "youki version: 0.5.3\ncommit: 1234"), Some((0, 5)));
    assert_eq!(read("runc", "crun version 1.8.1"), None, "another program under this name");
    assert_eq!(read("runc", ""), None);
}

/// As root: what is not root's is not used at all.
#[test]
fn the_first_that_can_be_used_is_taken() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let places = [place.path()];
    let none = choose_in(None, &places).unwrap_err();
    assert_eq!(none.cause, Cause::Absent);
    assert_eq!(none.why, "no runtime for OCI bundles is installed");
    assert!(none.fix.contains("apt install crun"), "{}", none.fix);
    installed(place.path(), "kata-runtime", "kata-runtime : 1.12.0");
    assert!(choose_in(None, &places).unwrap_err().why.contains("no descriptor can be passed"));
    installed(place.path(), "runc", "runc version 1.0.3");
    assert!(choose_in(None, &places).unwrap_err().why.contains("runc 1.0.3, which is too old"));
    assert_eq!(choose_in(None, &places).unwrap_err().cause, Cause::TooOld);
    installed(place.path(), "youki", "youki version: 0.5.3");
    assert_eq!(choose_in(None, &places).unwrap().runtime.name, "youki");
    installed(place.path(), "runc", "runc version 1.1.5+ds1");
    assert_eq!(choose_in(None, &places).unwrap().runtime.name, "runc");
    installed(place.path(), "crun", "crun version 1.8.1");
    let found = choose_in(None, &places).unwrap();
    assert_eq!((found.runtime.name, found.version.as_str()), ("crun", "1.8.1"));
    assert_eq!(choose_in(Some("runc"), &places).unwrap().version, "1.1.5+ds1");
}

#[test]
fn one_that_is_named_is_the_one_or_none() {
    let place = tempfile::tempdir().unwrap();
    let refused = |name| choose_in(Some(name), &[place.path()]).unwrap_err();
    let Lack { why, fix, .. } = refused("crun");
    assert_eq!(why, "crun is not installed");
    assert!(fix.contains("apt install crun"), "{fix}");
    let Lack { why, fix, .. } = refused("podman");
    assert_eq!(why, "oci has no runtime `podman`");
    assert!(fix.contains("crun, runc, youki, kata-runtime"), "{fix}");
}
