//! `ringfence pool` and what waits in it: served to its user, used once, never out of date, out of reach of commands, and
//! gone with whoever made it. The escape table runs in pooled sandboxes too (`tests/escape`).

mod faults;
mod hostile;
mod kills;
mod serve;
mod stale;

use ringfence_testing::{Identity, Leftovers, Scene, own_mounts};

/// In a fresh scene as each identity; nothing of the drill may be left.
fn each(drill: impl Fn(&Scene)) {
    own_mounts();
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let before = Leftovers::before().without_fds().watch(scene.workspace()).marker(&scene.token);
        drill(&scene);
        before.assert_none_since();
    }
}

/// Flags of a pool whose sandboxes have their walls closed, and of the runs that fit it.
const CLOSED: [&str; 4] = ["--profile", "restrictive", "--workspace", "private"];
