//! What a run through the pool is: the same as one without, for its caller, and nobody else's.

use ringfence_testing::{Identity, Outcome, Pool, Test};

use crate::{CLOSED, each};

#[test]
fn a_run_brings_its_own_command_workspace_environment_and_stdio() {
    each(|scene| {
        let workspace = scene.workspace();
        let pool = Pool::start(scene, ["--size", "2", "--profile", "restrictive"]);
        for round in 0..3 {
            let script = format!("cat; echo $WHO; pwd; echo {round} > mark; exit 7");
            let outcome = pool
                .test()
                .profile("restrictive")
                .workspace(&workspace)
                .args(["--env", &format!("WHO=me{round}")])
                .stdin("in\n")
                .run(["sh", "-c", &script]);
            outcome.code(7).stdout(&format!("in\nme{round}\n/workspace\n"));
            assert!(outcome.is_pooled(), "{}", outcome.describe());
            assert_eq!(scene.read("ws/mark"), Some(format!("{round}\n")));
        }
        std::fs::remove_file(workspace.join("mark")).unwrap();
    });
}

#[test]
fn walls_that_were_closed_ahead_take_a_command_too_and_none_after_it() {
    each(|scene| {
        let pool = Pool::start(scene, ["--size", "1", "--closed"].into_iter().chain(CLOSED));
        for round in 0..3 {
            let script = "cat; test ! -e /tmp/seen && touch /tmp/seen && sleep 1000 & echo $A; exit 3";
            let test = pool.test().args(CLOSED).args(["--env", &format!("A={round}")]);
            let outcome = test.stdin("in ").run(["sh", "-c", script]);
            outcome.code(3).stdout(&format!("in {round}\n"));
            assert!(outcome.is_pooled(), "{}", outcome.describe());
        }
        // A file needs a rule behind closed walls: such a run starts afresh, and has it.
        let outcome = pool.test().args(CLOSED).run(["sh", "-c", "cat /dev/stdin; echo on"]);
        outcome.code(0).stdout("on\n");
        assert!(!outcome.is_pooled());
    });
}

#[test]
fn another_policy_starts_afresh_and_is_enforced() {
    each(|scene| {
        let pool = Pool::start(scene, ["--size", "1", "--profile", "moderate"]);
        for flags in [&["--profile", "restrictive"][..], &["--profile", "moderate", "--pids", "17"]] {
            let outcome = pool.test().args(flags.to_vec()).run(["sh", "-c", "ulimit -u; hostname"]);
            outcome.code(0);
            assert!(!outcome.is_pooled(), "{}", outcome.describe());
            let plain = Test::in_scene(scene).args(flags.to_vec()).run(["sh", "-c", "ulimit -u; hostname"]);
            assert_eq!(outcome.output, plain.output);
            assert_eq!(clauses(&outcome), clauses(&plain));
        }
        let outcome = pool.test().profile("moderate").run(["true"]);
        assert!(outcome.is_pooled(), "{}", outcome.describe());
        let plain = Test::in_scene(scene).profile("moderate").run(["true"]);
        assert_eq!(clauses(&outcome), clauses(&plain));
    });
}

/// All but which unused id the caller's root became: that is made of a pid.
fn clauses(outcome: &Outcome) -> Vec<serde_json::Value> {
    outcome.receipt_clauses().into_iter().filter(|line| line["clause"] != "identity").collect()
}

#[test]
fn what_a_run_prints_and_how_it_fails_is_the_same() {
    each(|scene| {
        let pool = Pool::start(scene, ["--size", "1", "--profile", "restrictive"]);
        let run =
            |test: Test| test.profile("restrictive").plain().run(["sh", "-c", "echo out; echo err >&2"]);
        let (pooled, plain) = (run(pool.test()), run(Test::in_scene(scene)));
        assert_eq!((pooled.exit, &pooled.output, &pooled.errors), (plain.exit, &plain.output, &plain.errors));
        let missing = |test: Test| test.profile("restrictive").plain().run(["no-such-program"]);
        let (pooled, plain) = (missing(pool.test()), missing(Test::in_scene(scene)));
        assert_eq!((pooled.exit, &pooled.errors), (127, &plain.errors));
        pool.test().args(["-t"]).plain().run(["true"]).code(125).stderr_contains("-t and --pool");
    });
}

#[test]
fn a_pool_says_why_there_is_none() {
    each(|scene| {
        let refused = |flags: &[&str], why: &str| {
            let outcome = Pool::try_start(scene, &[], flags.to_vec()).expect_err("a pool");
            outcome.code(125).stderr_contains(why);
        };
        refused(&["--network", "open"], "is not made ahead");
        refused(&["--allow-syscall", "nosuch"], "nosuch");
        refused(&["--size", "0"], "--size");
        let gone = scene.path("nowhere");
        let flag = format!("--pool={}", gone.display());
        Test::in_scene(scene).args([flag]).plain().run(["true"]).code(125).stderr_contains("no pool answers");
    });
}

#[test]
fn nobody_else_is_served() {
    if !Identity::Root.is_available() {
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    ringfence_testing::own_mounts();
    let scene = ringfence_testing::Scene::new(Identity::Root);
    let pool = Pool::start(&scene, ["--size", "1", "--profile", "restrictive"]);
    let mode = std::fs::metadata(pool.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Even where the mode would let them.
    for path in pool.socket().ancestors().take_while(|path| path.starts_with(scene.root())) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let other = ringfence_testing::Scene::new(Identity::User);
    let flag = format!("--pool={}", pool.socket().display());
    let outcome = Test::in_scene(&other).args([flag]).plain().run(["true"]);
    outcome.code(125).stderr_contains("belongs to another user");
    assert!(pool.test().profile("restrictive").run(["true"]).is_pooled());
}

/// As the help and the documents have it: the flag alone is the user's own pool.
#[test]
fn a_pool_at_its_own_place_needs_no_path() {
    each(|scene| {
        let none = Test::in_scene(scene).args(["--pool"]).profile("restrictive").plain().run(["true"]);
        none.code(125).stderr_contains("no pool answers at").stderr_contains("pool.socket");
        let running = Test::in_scene(scene)
            .verb(["pool"])
            .args(["--size", "1", "--profile", "restrictive"])
            .spawn_call();
        ringfence_testing::eventually("it listens", || scene.state().join("pool.socket").exists());
        let pooled =
            || Test::in_scene(scene).args(["--pool"]).profile("restrictive").run(["true"]).is_pooled();
        ringfence_testing::eventually("its sandbox is ready", pooled);
        running.signal(rustix::process::Signal::TERM);
        let _ = running.wait();
    });
}
