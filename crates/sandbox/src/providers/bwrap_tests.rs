use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn versions_are_read() {
    assert_eq!(parse_version("bubblewrap 0.8.0"), Some((0, 8)));
    assert_eq!(parse_version("bubblewrap 1.10"), Some((1, 10)));
    assert_eq!(parse_version("busybox 1.36"), None);
    assert!((0, 4) < OLDEST && (0, 11) > OLDEST);
}

#[test]
fn what_cannot_be_trusted_is_not_used() {
    let place = tempfile::tempdir().unwrap();
    let refused = |place: &Path| find(&[place]).unwrap_err();
    assert_eq!(refused(place.path()).why, "bubblewrap (bwrap) is not installed");
    let program = place.path().join(PROGRAM);
    std::fs::write(&program, "").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    assert!(refused(place.path()).why.contains("is setuid"));
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(refused(place.path()).why.contains("can be written by others"));
}
