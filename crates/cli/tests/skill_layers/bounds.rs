//! What an installation may leave on the disk, and that all of it can be removed.

use std::fs;

use ringfence_testing::{Scene, Test};

use crate::registry::{Registry, each, has, node_skill, run};

/// It never ends by itself: whatever comes back was stopped while it ran.
const PAUSE: &str = "sleep infinity";

fn install(scene: &Scene, command: &str) {
    let registry = Registry::new().npm_with("hostile", "x", command);
    node_skill(scene, "hostile");
    scene.write("home/.npmrc", &format!("registry={}/\n", registry.url));
    run(scene, &scene.workspace()).code(125).stderr_contains("were stopped");
}

fn nothing_is_left(scene: &Scene) {
    let left: Vec<_> = fs::read_dir(scene.path("state/layers/staging")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_package_can_not_fill_the_disk() {
    if !has("npm", &["--version"]) {
        return;
    }
    each(|scene| {
        let fill = format!("for n in $(seq 40); do fallocate -l 1G f$n || break; done; {PAUSE}");
        install(scene, &fill);
        nothing_is_left(scene);
    });
}

#[test]
fn a_package_can_not_leave_what_is_too_deep_to_be_removed() {
    if !has("npm", &["--version"]) {
        return;
    }
    each(|scene| {
        let deep = "const f = require('fs'); for (let n = 0; n < 15000; n++) { f.mkdirSync('d'); process.chdir('d') }";
        install(scene, &format!("node -e \\\"{deep}\\\"; {PAUSE}"));
        nothing_is_left(scene);
    });
}

#[test]
fn a_tree_of_any_depth_that_a_killed_builder_left_is_swept() {
    each(|scene| {
        scene.mkdir("state/layers/staging");
        let key = "0123456789abcdef0123456789abcdef";
        scene.mkdir(&format!("state/layers/staging/{key}"));
        let mut inner = fs::File::open(scene.path(&format!("state/layers/staging/{key}"))).unwrap();
        for _ in 0..15_000 {
            rustix::fs::mkdirat(&inner, "d", 0o700.into()).unwrap();
            let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
            inner = rustix::fs::openat(&inner, "d", flags, rustix::fs::Mode::empty()).unwrap().into();
            // As the builder would have made it.
            std::os::unix::fs::fchown(&inner, Some(scene.identity.uid()), Some(scene.identity.gid()))
                .unwrap();
        }
        drop(inner);
        Test::in_scene(scene).verb(["skill", "layers", "rm", "--all"]).call().code(0);
        nothing_is_left(scene);
    });
}
