//! Outliving the run: by a session of its own, by a double fork, by deafness, by never being the same process.

use std::time::{Duration, Instant};

use ringfence_testing::{Identity, Scene, Stage, Test, processes_with_marker};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::row::{Row, drill};

pub(crate) fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = ["linger-session", "linger-double-fork", "linger-stubborn", "linger-relay"]
        .into_iter()
        .map(past_timeout)
        .collect();
    rows.push(past_the_end());
    rows.push(past_the_killed_cli());
    rows
}

/// How often nothing must be seen: a relay of processes can slip through one look.
const LOOKS: u32 = 15;

fn line(attempt: &str, scene: &Scene) -> [String; 3] {
    [Stage::get().probe.to_string_lossy().into_owned(), attempt.to_owned(), scene.token.clone()]
}

/// Wait until no process carries the scene's token; what remains is reported (and ended, by its pid).
fn nobody_remains(scene: &Scene) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut empty = 0;
    loop {
        let left = processes_with_marker(&scene.token);
        empty = if left.is_empty() { empty + 1 } else { 0 };
        if empty == LOOKS {
            return Ok(());
        }
        if Instant::now() > deadline {
            end(&left);
            return Err(format!("still there: {left:?}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// End what a twin (or a hole) left: the group of each, so that none of a relay slips away, but never our own.
fn end(left: &[ringfence_testing::Process]) {
    let own = rustix::process::getpgrp();
    for process in left {
        match Pid::from_raw(process.group as i32) {
            Some(group) if group != own => {
                let _ = kill_process_group(group, Signal::KILL);
            }
            _ => {
                let pid = Pid::from_raw(process.pid as i32).expect("a process has a pid");
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// On the host a process like that stays when its starter has been killed.
fn stays_on_host(identity: Identity, attempt: &'static str) -> Result<(), String> {
    let scene = Scene::new(identity);
    let mut command = std::process::Command::new("timeout");
    command.args(["--signal=KILL", "0.5"]).args(line(attempt, &scene)).current_dir(scene.workspace());
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    identity.apply(&mut command);
    command.status().map_err(|error| error.to_string())?;
    let left = (0..50).map(|_| processes_with_marker(&scene.token)).find(|found| !found.is_empty());
    // A relay has another pid each moment: end what is seen until nothing is seen for a while.
    let mut empty = 0;
    while empty < LOOKS {
        let now = processes_with_marker(&scene.token);
        empty = if now.is_empty() { empty + 1 } else { 0 };
        end(&now);
        std::thread::sleep(Duration::from_millis(5));
    }
    if left.is_some() { Ok(()) } else { Err("nothing stayed on the host either".into()) }
}

fn past_timeout(attempt: &'static str) -> Row {
    drill(
        &format!("timeout-{attempt}"),
        "is still there after --timeout",
        "tests/session/ends.rs",
        move |identity| {
            let scene = Scene::new(identity);
            let test =
                Test::in_scene(&scene).profile("restrictive").with_probe().args(["--timeout", "500ms"]);
            let outcome = test.run(line(attempt, &scene));
            if outcome.exit != 124 {
                return Err(format!("not ended by the timeout\n{}", outcome.describe()));
            }
            nobody_remains(&scene)
        },
        move |identity| stays_on_host(identity, attempt),
    )
}

/// A daemon that a command leaves behind ends with the command.
fn past_the_end() -> Row {
    drill(
        "daemon-after-end",
        "leaves a daemon behind when it ends by itself",
        "tests/session/ends.rs",
        |identity| {
            let scene = Scene::new(identity);
            let [probe, attempt, token] = line("linger-double-fork", &scene);
            let script = format!("{probe} {attempt} {token} & sleep 0.2; exit 5");
            let outcome =
                Test::in_scene(&scene).profile("restrictive").with_probe().run(["bash", "-c", &script]);
            if outcome.exit != 5 {
                return Err(outcome.describe());
            }
            nobody_remains(&scene)
        },
        |identity| stays_on_host(identity, "linger-double-fork"),
    )
}

/// `kill -9` of the CLI takes everything along.
fn past_the_killed_cli() -> Row {
    drill(
        "daemon-after-kill-9",
        "goes on when ringfence itself is killed",
        "tests/session/ends.rs",
        |identity| {
            let scene = Scene::new(identity);
            let test = Test::in_scene(&scene).profile("restrictive").with_probe();
            let running = test.spawn(line("linger-stubborn", &scene));
            let deadline = Instant::now() + Duration::from_secs(20);
            // ringfence carries the token in its own arguments: two more are the lingering ones.
            while processes_with_marker(&scene.token).len() < 3 {
                if Instant::now() > deadline {
                    return Err("the command did not start".into());
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            running.signal(Signal::KILL);
            nobody_remains(&scene)?;
            drop(running);
            // What a killed ringfence could not remove itself is swept by the next one; the table's own check of
            // what is left comes after it.
            let next = Test::in_scene(&scene).profile("restrictive").run(["true"]);
            if next.exit == 0 { Ok(()) } else { Err(next.describe()) }
        },
        |identity| stays_on_host(identity, "linger-stubborn"),
    )
}
