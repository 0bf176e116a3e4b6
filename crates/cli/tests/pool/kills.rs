//! Any process of a pool killed at any moment: nothing is left of what it made, and a run is answered or ends.

use std::time::Duration;

use ringfence_testing::{Pool, eventually, processes_with_marker};
use rustix::process::{Pid, Signal, kill_process};

use crate::each;

fn kills() -> u32 {
    std::env::var("RINGFENCE_SOAK_POOL_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
}

fn kill(pid: u32) {
    let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
}

#[test]
fn each_process_killed_at_random_moments_leaves_nothing() {
    each(|scene| {
        let mut seed = u64::from(std::process::id()) | 1;
        println!("{} kills, seed {seed}", kills());
        let mut below = |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % most
        };
        for _ in 0..kills() {
            let pool = Pool::start(scene, ["--size", "2", "--profile", "restrictive"]);
            let mark = format!("{}mark", scene.token);
            let script = format!("setsid sleep 1000 & sleep 1000 & sleep 0.0{}; : {mark}", below(9));
            let running: Vec<_> = (0..2)
                .map(|_| pool.test().profile("restrictive").plain().spawn(["bash", "-c", &script]))
                .collect();
            std::thread::sleep(Duration::from_micros(below(40_000)));
            let processes = pool.processes();
            kill(processes[below(processes.len() as u64) as usize]);
            for running in running {
                let _ = running.wait();
            }
            drop(pool);
            eventually("no process of the commands is left", || processes_with_marker(&mark).is_empty());
        }
    });
}

/// The pool, its helper, a worker that waits: with nobody at work there is nobody else to sweep for them.
#[test]
fn what_waits_ends_with_whoever_made_it() {
    each(|scene| {
        for victim in 0..3 {
            let mut pool = Some(Pool::start(scene, ["--size", "2", "--profile", "restrictive"]));
            let processes = pool.as_ref().map(Pool::processes).unwrap_or_default();
            kill(processes[victim]);
            if victim == 2 {
                // A worker is missed by nobody: another takes its place.
                eventually("another is ready", || {
                    let pool = pool.as_ref().unwrap();
                    pool.test().profile("restrictive").run(["true"]).is_pooled()
                });
            }
            drop(pool.take());
            eventually("all have ended", || {
                processes.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}/ns")).exists())
            });
        }
    });
}

/// Told to end just when its helper was killed: there is still somebody who takes away what the workers left.
#[test]
fn a_pool_that_is_told_to_end_sweeps_for_its_killed_helper() {
    each(|scene| {
        let pool = Pool::start(scene, ["--size", "2", "--profile", "restrictive"]);
        let processes = pool.processes();
        let signal = |pid: u32, signal| {
            kill_process(Pid::from_raw(pid as i32).unwrap(), signal).expect("the process is there");
        };
        signal(processes[0], Signal::STOP);
        let stat = format!("/proc/{}/stat", processes[0]);
        eventually("the pool stands still", || {
            std::fs::read_to_string(&stat).is_ok_and(|stat| {
                stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
            })
        });
        signal(processes[1], Signal::KILL);
        signal(processes[0], Signal::TERM);
        signal(processes[0], Signal::CONT);
        assert_eq!(pool.stop().map(|outcome| outcome.exit), Some(0));
    });
}

/// A run ends with its client.
#[test]
fn a_killed_client_ends_its_command() {
    each(|scene| {
        let pool = Pool::start(scene, ["--size", "1", "--profile", "restrictive"]);
        let mark = format!("{}mark", scene.token);
        let running = pool.test().profile("restrictive").plain().spawn([
            "bash",
            "-c",
            &format!("sleep 1000; : {mark}"),
        ]);
        let inside = || processes_with_marker(&mark).into_iter().any(|process| process.name == "bash");
        eventually("the command runs", inside);
        running.signal(Signal::KILL);
        let _ = running.wait();
        eventually("the command has ended", || processes_with_marker(&mark).is_empty());
        pool.test().profile("restrictive").run(["true"]).code(0);
    });
}
