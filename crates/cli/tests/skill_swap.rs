//! Somebody who writes to a shared library exchanges a skill between the moment in which it was looked at and the moment in
//! which it is mounted. The run waits there for a lock that the test holds, so that each attempt is the real one.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use ringfence_testing::{Identity, Scene, Test};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};

const MANIFEST: &str = "---\nname: lure\ndescription: A test.\n---\n";

/// Run with the swap of two paths between look and mount. Nothing of what took the place is seen.
fn swapped_before_the_mount(scene: &Scene, test: Test, one: &Path, other: &Path) {
    let workspace = scene.workspace().metadata().unwrap();
    // Where a run writes down its placeholders: after the plan, before the first mount.
    let record = format!("state/placeholders/{:x}-{:x}", workspace.dev(), workspace.ino());
    scene.write(&record, "");
    let record = File::open(scene.path(&record)).unwrap();
    flock(&record, FlockOperation::LockExclusive).unwrap();
    let mut running = test.spawn_call();
    let inode = format!(":{} ", record.metadata().unwrap().ino());
    let is_waited_for = || {
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|line| line.contains("->") && line.contains(&inode))
    };
    while !is_waited_for() {
        assert!(!running.has_ended(), "it never waited: {}", running.wait().describe());
        std::thread::sleep(Duration::from_millis(1));
    }
    let swap = || renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
    swap();
    flock(&record, FlockOperation::Unlock).unwrap();
    let outcome = running.wait();
    assert!(!outcome.output.contains("the secret"), "{}", outcome.describe());
    outcome.code(125).stderr_contains("recognise");
    swap();
}

fn with_a_lure(test: impl Fn(&Scene, &dyn Fn() -> Test)) {
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        scene.write("private/key", "the secret\n");
        scene.write("private/SKILL.md", MANIFEST);
        scene.write("private/scripts/main.sh", "cat /skills/team/lure/key\n");
        scene.write("private/lure/key", "the secret\n");
        scene.write("library/team/lure/SKILL.md", MANIFEST);
        scene.write("library/team/lure/scripts/main.sh", "cat /skills/team/lure/key\n");
        let private = scene.path("private").display().to_string();
        scene.symlink(&private, "library/.link");
        let library = scene.path("library");
        test(&scene, &|| Test::in_scene(&scene).env("RINGFENCE_LIBRARY", &library));
    }
}

#[test]
fn a_skill_that_is_exchanged_is_not_mounted() {
    with_a_lure(|scene, test| {
        let (lure, link) = (scene.path("library/team/lure"), scene.path("library/.link"));
        for other in [link, scene.path("private")] {
            for flags in [&[][..], &["--copy"]] {
                let run = test().verb(["skill", "run"]).args(flags.to_vec()).args(["team/lure"]);
                swapped_before_the_mount(scene, run, &lure, &other);
            }
        }
        // And without anybody in between it is the skill that runs.
        test().verb(["skill", "run"]).args(["team/lure"]).call().code(1).stderr_contains("No such file");
    });
}

#[test]
fn a_domain_that_is_exchanged_is_not_mounted() {
    with_a_lure(|scene, test| {
        let (domain, link) = (scene.path("library/team"), scene.path("library/.link"));
        for other in [link, scene.path("private")] {
            let look = ["cat", "/skills/team/key", "/skills/team/lure/key"];
            let run = test().verb(["run"]).args(["--skills", "--"]).args(look);
            swapped_before_the_mount(scene, run, &domain, &other);
        }
    });
}
