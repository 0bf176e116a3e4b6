//! Eight processes at one library, one of them killed again and again, at any moment of what it does.

use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::place::{Place, said};

const SKILLS: u64 = 4;

#[derive(Default)]
struct Count {
    done: AtomicU64,
    killed: AtomicU64,
}

/// Five seconds, or `RINGFENCE_SOAK_SECONDS`; more than one kill in each.
#[test]
fn eight_processes_with_kills_leave_a_library_in_order() {
    let seconds =
        std::env::var("RINGFENCE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let place = Place::new();
    for number in 0..SKILLS {
        place.skill(&format!("skill-{number}"), &format!("Number {number}."));
    }
    let count = Count::default();
    let until = Instant::now() + Duration::from_secs(seconds);
    std::thread::scope(|scope| {
        for worker in 0..8_u64 {
            let (place, count) = (&place, &count);
            scope.spawn(move || work(place, worker, until, count));
        }
    });
    let (done, killed) = (count.done.into_inner(), count.killed.into_inner());
    eprintln!("{seconds} s: {done} calls that ended by themselves, {killed} killed");
    assert!(killed >= seconds && done > killed, "{done} calls, {killed} killed");

    place.call(&["verify"]).code(0).has("all in order");
    for number in 0..SKILLS {
        let name = format!("skill-{number}");
        place.call(&["add", &name, "--replace"]).code(0);
    }
    let found = place.call(&["search", "number", "--json"]).code(0).json();
    assert_eq!(found.as_array().unwrap().len() as u64, SKILLS);
    let verified = place.call(&["verify", "--json"]).code(0).json();
    assert_eq!(verified["cleared"]["staging"], 0, "{verified}");
}

/// One call after another; every other worker kills a third of its own.
fn work(place: &Place, worker: u64, until: Instant, count: &Count) {
    let mut random = worker;
    while Instant::now() < until {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let name = format!("skill-{}", (random >> 33) % SKILLS);
        let args: &[&str] = match (random >> 40) % 4 {
            0 => &["add", &name, "--replace"],
            1 => &["remove", &name],
            2 => &["search", "number"],
            _ => &["list"],
        };
        let mut child = place.command(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        if worker.is_multiple_of(2) && (random >> 50).is_multiple_of(3) {
            std::thread::sleep(Duration::from_millis((random >> 20) % 40));
            let _ = child.kill();
        }
        let output = child.wait_with_output().unwrap();
        match output.status.code() {
            None => count.killed.fetch_add(1, Ordering::Relaxed),
            Some(_) => {
                assert_fine(args, &output);
                count.done.fetch_add(1, Ordering::Relaxed)
            }
        };
    }
}

/// Only what another has removed already can't be removed.
fn assert_fine(args: &[&str], output: &Output) {
    let said = said(output);
    let is_gone = args[0] == "remove" && said.code == 125 && said.errors.contains("no skill");
    assert!(is_gone || (said.code == 0 && said.errors.is_empty()), "{args:?}: {} {}", said.code, said.errors);
}
