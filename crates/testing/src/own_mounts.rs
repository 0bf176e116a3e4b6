//! A mount namespace of a test's own: what is mounted on the host meanwhile is not seen there. A sandbox that was made ahead is
//! dropped when the host's mounts change, and other tests mount.

use crate::Identity;

/// From here on this thread, and whatever it starts, has mounts of its own, which are those of now. Before anything is counted
/// or started. As an ordinary user nothing happens: tests that mount need root.
///
/// # Panics
/// If root may not.
pub fn own_mounts() {
    if Identity::Root.is_available() {
        ringfence_linux::unshare_mounts().expect("a mount namespace for this test");
    }
}
