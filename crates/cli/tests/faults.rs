//! Every set-up step made to fail in turn, on both sides of the fork: the run is refused, and nothing is left behind.
//! The steps are counted by the program itself; `RINGFENCE_FAULT` exists in debug builds only.

use ringfence_testing::{Identity, Leftovers, Scene, Test, with_provider};

fn fail_each_step(identity: Identity, side: &str, flags: &[&str]) -> u32 {
    let scene = Scene::new(identity);
    scene.mkdir("ws/.git");
    scene.mkdir("ws/.git/hooks");
    scene.write("ws/.git/config", "[core]\n");
    let before = Leftovers::before().watch(scene.workspace());
    for step in 0.. {
        let outcome = Test::in_scene(&scene)
            .cwd(scene.workspace())
            .env("RINGFENCE_FAULT", format!("{side}:{step}"))
            .plain()
            .args(flags.to_vec())
            .run(["true"]);
        if outcome.exit == 0 {
            before.assert_none_since();
            return step;
        }
        outcome.code(125).stderr_contains("ringfence: error: cannot").stderr_contains("Input/output error");
    }
    unreachable!("the loop ends with the first step that is not there")
}

#[test]
fn every_step_of_the_owner_may_fail() {
    for identity in Identity::all() {
        let steps = fail_each_step(identity, "parent", &[]);
        assert!(steps >= 5, "only {steps} steps were counted as {identity:?}");
    }
}

#[test]
fn every_step_of_the_child_may_fail() {
    for identity in Identity::all() {
        let steps = fail_each_step(identity, "child", &[]);
        assert!(steps >= 60, "only {steps} steps were counted as {identity:?}");
    }
}

/// Egress is another process that must be gone, and its sockets with it.
#[test]
fn every_step_may_fail_with_a_network_too() {
    let flags = ["--allow-host", "api.example.com", "--allow-local", "9"];
    for identity in Identity::all() {
        let plain = fail_each_step(identity, "parent", &[]);
        let steps = fail_each_step(identity, "parent", &flags);
        assert!(steps > plain, "egress has no steps of its own as {identity:?}");
        fail_each_step(identity, "child", &flags);
    }
}

/// Bubblewrap, its carrier, and for root the process that holds a user namespace must be gone too.
#[test]
fn every_step_may_fail_under_bubblewrap_too() {
    for identity in Identity::all() {
        with_provider("bwrap", || {
            let owner = fail_each_step(identity, "parent", &[]);
            assert!(owner >= 8, "only {owner} steps were counted as {identity:?}");
            let child = fail_each_step(identity, "child", &[]);
            assert!(child >= 60, "only {child} steps were counted as {identity:?}");
        });
    }
}
