//! Several processes at one library, some of them killed at any moment.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::place::Place;

#[test]
fn eight_processes_with_kills_leave_a_library_in_order() {
    let place = Place::new();
    for number in 0..4 {
        place.skill(&format!("skill-{number}"), &format!("Number {number}."));
    }
    let until = Instant::now() + Duration::from_secs(6);
    std::thread::scope(|scope| {
        for worker in 0..8_u64 {
            let place = &place;
            scope.spawn(move || {
                let mut turn = worker;
                while Instant::now() < until {
                    turn =
                        turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let name = format!("skill-{}", (turn >> 33) % 4);
                    let args: &[&str] = match (turn >> 40) % 4 {
                        0 => &["add", &name, "--replace"],
                        1 => &["remove", &name],
                        2 => &["search", "number"],
                        _ => &["list"],
                    };
                    let mut child =
                        place.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                    if worker % 2 == 0 && (turn >> 50) % 3 == 0 {
                        std::thread::sleep(Duration::from_millis((turn >> 20) % 40));
                        let _ = child.kill();
                    }
                    child.wait().unwrap();
                }
            });
        }
    });
    place.call(&["verify"]).code(0).has("all in order");
    for number in 0..4 {
        let name = format!("skill-{number}");
        place.call(&["add", &name, "--replace"]).code(0);
    }
    let found = place.call(&["search", "number", "--json"]).code(0).json();
    assert_eq!(found.as_array().unwrap().len(), 4);
    place.call(&["verify"]).code(0);
}
