//! Every step of a start in two parts made to fail in turn, on both sides of the fork: the pool or the run is refused, and
//! nothing is left behind. `RINGFENCE_FAULT` exists in debug builds only.

use ringfence_testing::{Identity, Leftovers, Pool, Scene, own_mounts};

use crate::CLOSED;

fn fail_each_step(identity: Identity, side: &str, pool_flags: &[&str], flags: &[&str]) -> u32 {
    let scene = Scene::new(identity);
    scene.mkdir("ws/.git");
    scene.mkdir("ws/.git/hooks");
    scene.write("ws/.git/config", "[core]\n");
    let before = Leftovers::before().without_fds().watch(scene.workspace());
    let mut in_the_first_part = 0;
    for step in 0.. {
        let fault = format!("{side}:{step}");
        let started = Pool::try_start(&scene, &[("RINGFENCE_FAULT", &fault)], pool_flags.to_vec());
        let outcome = match started {
            Ok(pool) => pool.test().args(flags.to_vec()).stdin("").run(["true"]),
            Err(outcome) => {
                in_the_first_part = step + 1;
                outcome.code(125).stderr_contains("Input/output error");
                continue;
            }
        };
        if outcome.exit == 0 && outcome.is_pooled() {
            assert!(step > in_the_first_part, "no step of the second part failed");
            before.assert_none_since();
            return step;
        }
        // Where it is seen that something shows through, the run starts afresh instead.
        if outcome.exit != 0 {
            outcome.code(125).stderr_contains("Input/output error");
        }
    }
    unreachable!("the loop ends with the first step that is not there")
}

#[test]
fn every_step_may_fail_where_the_order_brings_mounts() {
    own_mounts();
    for identity in Identity::all() {
        let (pool, run) = (["--size", "1", "--profile", "restrictive"], ["--profile", "restrictive"]);
        let parent = fail_each_step(identity, "parent", &pool, &run);
        let child = fail_each_step(identity, "child", &pool, &run);
        assert!(parent >= 5 && child >= 60, "only {parent} and {child} steps as {identity:?}");
    }
}

#[test]
fn every_step_may_fail_where_the_walls_were_closed_ahead() {
    own_mounts();
    for identity in Identity::all() {
        let pool = [&["--size", "1", "--closed"][..], &CLOSED].concat();
        let parent = fail_each_step(identity, "parent", &pool, &CLOSED);
        let child = fail_each_step(identity, "child", &pool, &CLOSED);
        assert!(parent >= 5 && child >= 60, "only {parent} and {child} steps as {identity:?}");
    }
}
