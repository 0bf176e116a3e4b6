//! Whoever fills a buffer, or never empties one, holds nobody else up.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ringfence_testing::{Scene, Session, Stage, eventually};

use crate::client::Client;
use crate::{each, mark, nobody_remains};

/// Resident memory in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn bytes_below(dir: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(facts) if facts.is_dir() => bytes_below(&entry.path()),
            Ok(facts) => facts.len(),
            Err(_) => 0,
        })
        .sum()
}

#[test]
fn a_detached_flood_is_kept_up_to_its_limit_and_holds_nobody_up() {
    const KEPT: u64 = 1 << 20;
    each(|scene| {
        let session = Session::create(scene, ["--output-limit", "1M"]);
        let keeper = session.keeper();
        let flood = session.detach(&[], &format!("yes & yes >&2; : {}", mark(scene)));
        eventually("much was written", || session.json("ps", &[])[0]["output"].as_u64() > Some(20 << 20));
        for _ in 0..5 {
            session.assert_answers();
        }
        let kept = bytes_below(&session.place().join("logs"));
        // Some for the pieces' headers.
        assert!(kept < KEPT + KEPT / 2, "{kept} bytes are kept");
        assert!(resident(keeper) < 64 << 10, "the keeper has {} KiB", resident(keeper));
        session.call("signal", &["--tree", &flood.to_string(), "KILL"]).code(0);
        nobody_remains(&mark(scene));
        session.call("logs", &[flood.to_string()]).code(0).stderr_contains("were dropped");
    });
}

#[test]
fn what_an_ended_process_left_may_flood_its_log() {
    each(|scene| {
        let session = Session::create(scene, ["--output-limit", "1M"]);
        let process = session.detach(&[], &format!("yes & yes >&2 & sleep 0.3; exit 3; : {}", mark(scene)));
        session.call("wait", &[process.to_string()]).code(3);
        session.assert_answers();
        session.call("signal", &["--tree", &process.to_string(), "KILL"]).code(0);
        nobody_remains(&mark(scene));
    });
}

#[test]
fn what_a_command_left_may_flood_its_stdout() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        session.sh("yes & yes >&2 & sleep 0.3; exit 3").code(3);
        let file = File::create(scene.path("out")).unwrap();
        let flood = "yes 2>/dev/null & sleep 0.3; exit 3";
        session.exec_test(&[]).plain().stdout_file(file).run(["bash", "-c", flood]).code(3);
        session.assert_answers();
    });
}

#[test]
fn a_command_ends_for_its_client_though_something_holds_its_pipes() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        session.sh("(setsid sleep 1000 &) ; echo out; echo err >&2; exit 4").code(4).stdout("out\n");
        let file = File::create(scene.path("out")).unwrap();
        let holding = "(setsid sleep 1000 2>/dev/null &) ; echo out";
        session.exec_test(&[]).plain().stdout_file(file).run(["bash", "-c", holding]).code(0);
        assert_eq!(scene.read("out").as_deref(), Some("out\n"));
    });
}

/// A client of `session exec` with such a stdout.
fn start(scene: &Scene, session: &Session<'_>, script: &str, stdout: Stdio) -> Child {
    let mut command = Command::new(&Stage::get().ringfence);
    command.args(["session", "exec", &session.name, "--", "bash", "-c", script]);
    command
        .current_dir(scene.workspace())
        .env("HOME", scene.home())
        .env("RINGFENCE_STATE_DIR", scene.state());
    command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
    scene.identity.apply(&mut command);
    command.spawn().unwrap()
}

#[test]
fn a_slow_reader_gets_all_of_it() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let mut client = start(scene, &session, "seq 100000", OwnedFd::from(theirs).into());
        // By now it is full, and the command would like to end.
        std::thread::sleep(Duration::from_millis(500));
        let mut text = String::new();
        let mut buffer = [0; 50_000];
        while let Ok(read @ 1..) = ours.read(&mut buffer) {
            text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(client.wait().unwrap().success());
        let wanted: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
        assert!(text == wanted, "{} bytes of {}", text.len(), wanted.len());
    });
}

#[test]
fn a_client_that_never_reads_its_pipe_holds_only_its_own_command_up() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let mut client = start(scene, &session, &format!("yes & yes >&2; : {}", mark(scene)), Stdio::piped());
        eventually("it runs", || session.json("inspect", &[])["status"]["running"] == 1);
        std::thread::sleep(Duration::from_millis(300));
        for _ in 0..3 {
            session.assert_answers();
        }
        assert!(client.try_wait().unwrap().is_none(), "it has ended");
        client.kill().unwrap();
        client.wait().unwrap();
        nobody_remains(&mark(scene));
    });
}

#[test]
fn clients_that_never_read_their_answers_are_let_go() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let keeper = session.keeper();
        let deaf: Vec<Client> = (0..20).map(|_| Client::connect(&session)).collect();
        for client in &deaf {
            // Until it is let go.
            for _ in 0..3_000 {
                if client.send(br#"{"version":1,"call":"status"}"#, &[]).is_err() {
                    break;
                }
            }
        }
        session.assert_answers();
        assert!(resident(keeper) < 64 << 10, "the keeper has {} KiB", resident(keeper));
    });
}

/// Those that are there are served on, and whoever comes later is told why not, and not that the session has ended.
#[test]
fn more_clients_than_there_may_be_are_told_so() {
    const MOST: usize = 256;
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let first = Client::connect(&session);
        let others: Vec<Client> = (1..MOST).map(|_| Client::connect(&session)).collect();
        let status = r#"{"version":1,"call":"status"}"#;
        // Each is let in before the next one is.
        assert!(
            others.last().is_some_and(|last| last.ask(status, &[]).is_some()),
            "the last one is not served"
        );
        for _ in 0..20 {
            let outcome = session.exec(["true"]);
            outcome.refused("as many clients as it takes");
            assert!(!outcome.errors.contains("has ended"), "{}", outcome.describe());
        }
        session.call::<&str>("stats", &[]).refused("as many clients as it takes");
        assert!(first.ask(status, &[]).is_some(), "the first one is not served any more");
        drop(others);
        session.assert_answers();
    });
}

/// guard and the keeper each have a full buffer of the other's words, and must not wait for each other.
#[test]
fn more_questions_to_guard_than_it_has_room_for_answers() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let clients: Vec<Client> = (0..150).map(|_| Client::connect(&session)).collect();
        for _ in 0..20 {
            for client in &clients {
                if client.send(br#"{"version":1,"call":"stats"}"#, &[]).is_err() {
                    break;
                }
            }
        }
        session.assert_answers();
    });
}

#[test]
fn many_commands_at_once_all_end() {
    const AT_ONCE: u32 = 40;
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        std::thread::scope(|scope| {
            for number in 0..AT_ONCE {
                let session = &session;
                scope.spawn(move || {
                    let code = (number % 5) as i32;
                    let script = format!("echo {number}; exit {code}");
                    session.sh(&script).code(code).stdout(&format!("{number}\n"));
                });
            }
        });
        session.assert_answers();
    });
}
