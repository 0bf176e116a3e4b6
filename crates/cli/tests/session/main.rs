//! Sessions through the real command, as root and as an ordinary user: what hostile commands and clients do to them, how
//! they end, what is left (nothing), and what the verbs say.

mod client;
mod ends;
mod files;
mod floods;
mod guard;
mod kills;
mod logs;
mod many;
mod over_time;
mod ports;
mod protocol;
mod reboot;
mod shims;
mod silence;
mod terminals;
mod words;

use std::time::Duration;

use ringfence_testing::{Identity, Leftovers, Scene, Test, eventually, processes_with_marker};

/// In a fresh scene as each identity; nothing of the drill may be left.
fn each(drill: impl Fn(&Scene)) {
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let before = Leftovers::before().without_fds().marker(&scene.token);
        drill(&scene);
        before.assert_none_since();
    }
}

/// The same for a drill that kills a keeper. What that could not take away itself, the next sandbox does; one of them,
/// because the kernel may hold a cgroup for a moment.
fn each_swept(drill: impl Fn(&Scene)) {
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let before = Leftovers::before().without_fds().watch(scene.workspace()).marker(&scene.token);
        drill(&scene);
        eventually("what the killed keepers left is swept", || {
            let next = Test::in_scene(&scene).profile("restrictive").workspace(scene.workspace());
            next.run(["true"]).code(0);
            before.since_within(Duration::from_millis(200)).is_empty()
        });
    }
}

/// A word that commands carry in their arguments, and nothing else does.
fn mark(scene: &Scene) -> String {
    format!("{}mark", scene.token)
}

fn marked(scene: &Scene) -> usize {
    processes_with_marker(&mark(scene)).len()
}

/// How often nothing must be seen: a relay of processes can slip through one look.
const LOOKS: u32 = 15;

#[track_caller]
fn nobody_remains(marker: &str) {
    let mut empty = 0;
    eventually("no process of the command is left", || {
        empty = if processes_with_marker(marker).is_empty() { empty + 1 } else { 0 };
        empty == LOOKS
    });
}
