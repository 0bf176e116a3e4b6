//! Many runs at once, and runs killed at random moments: all right, nothing left. Small here, in full by `./test soak`
//! (`RINGFENCE_SOAK_RUNS`, `RINGFENCE_SOAK_KILLS`).

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ringfence_testing::{Identity, Leftovers, Scene, Test};
use rustix::process::Signal;

const AT_ONCE: u32 = 32;

fn size(variable: &str, default: u32) -> u32 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn many_at_once_all_end_well_and_leave_nothing() {
    let runs = size("RINGFENCE_SOAK_RUNS", 200);
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let before = Leftovers::before().watch(scene.workspace());
        let started = Instant::now();
        let next = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= runs {
                            return;
                        }
                        // Every other one in the same workspace, whose placeholders they share.
                        let profile = if number.is_multiple_of(2) { "restrictive" } else { "moderate" };
                        let command = format!("echo {number}; (sleep 1000 &) ; exit {}", number % 7);
                        Test::in_scene(&scene)
                            .profile(profile)
                            .cwd(scene.workspace())
                            .plain()
                            .run(["sh", "-c", &command])
                            .code((number % 7) as i32)
                            .stdout(&format!("{number}\n"));
                    }
                });
            }
        });
        before.assert_none_since();
        println!(
            "{runs} runs as {identity:?}, {AT_ONCE} at a time, in {:.1} s",
            started.elapsed().as_secs_f64()
        );
    }
}

#[test]
fn a_kill_at_any_moment_leaves_nothing() {
    let kills = size("RINGFENCE_SOAK_KILLS", 25);
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let before = Leftovers::before().watch(scene.workspace()).marker(&scene.token);
        let seed = std::process::id();
        let mut random = u64::from(seed) | 1;
        let mut after_the_start = 0;
        for _ in 0..kills {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let moment = Duration::from_micros((random >> 33) % 20_000);
            let command = format!("echo on; setsid sleep 1000 & sleep 1000; : {}", scene.token);
            let running = Test::in_scene(&scene).cwd(scene.workspace()).plain().spawn(["sh", "-c", &command]);
            std::thread::sleep(moment);
            running.signal(Signal::KILL);
            after_the_start += u32::from(running.wait().output.contains("on"));
        }
        // What a kill leaves in the state directory, in the workspace and of cgroups, the next start sweeps.
        Test::in_scene(&scene).cwd(scene.workspace()).plain().run(["true"]).code(0);
        before.assert_none_since();
        println!(
            "{kills} kills as {identity:?} (seed {seed}), {after_the_start} of them after the command's start"
        );
    }
}
