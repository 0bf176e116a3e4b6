//! Every set-up step made to fail in turn, on both sides of the fork: the run is refused, and nothing is left behind.
//! The steps are counted by the program itself; `RINGFENCE_FAULT` exists in debug builds only.

use ringfence_testing::{Identity, Leftovers, Scene, Test, has_docker, with_provider};

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

/// The program that makes the namespaces, its carrier, and for root the process that holds a user namespace must be gone too.
#[test]
fn every_step_may_fail_under_another_program_too() {
    for provider in ["bwrap", "oci:crun"] {
        for identity in Identity::all() {
            with_provider(provider, || {
                let owner = fail_each_step(identity, "parent", &[]);
                assert!(owner >= 8, "only {owner} steps were counted as {identity:?}");
                let child = fail_each_step(identity, "child", &[]);
                assert!(child >= 60, "only {child} steps were counted as {identity:?}");
            });
        }
    }
}

/// The container must be gone too, and its door. guard's own steps are those of `native`: of them some.
#[test]
fn steps_may_fail_under_docker_too() {
    if !has_docker() {
        return;
    }
    with_provider("docker", || {
        let steps = fail_each_step(Identity::Root, "parent", &[]);
        assert!(steps >= 14, "only {steps} steps were counted");
        for identity in Identity::all() {
            let scene = Scene::new(identity);
            let before = Leftovers::before().watch(scene.workspace());
            for step in [0, 5, 30, 60] {
                let failing = Test::in_scene(&scene)
                    .env("RINGFENCE_FAULT", format!("child:{step}"))
                    .plain()
                    .run(["true"]);
                failing
                    .code(125)
                    .stderr_contains("ringfence: error: cannot")
                    .stderr_contains("Input/output error");
            }
            before.assert_none_since();
        }
    });
}
