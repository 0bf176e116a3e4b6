//! How commands and sessions end, and that all of what ends is gone.

use std::time::{Duration, Instant};

use ringfence_testing::{Identity, Leftovers, Scene, Session, Stage, Test, eventually};
use rustix::process::{Pid, Signal, kill_process};

use crate::{each, each_swept, mark, marked, nobody_remains};

fn flags() -> [String; 4] {
    let reads = Stage::get().probe_dir().display().to_string();
    ["--profile".into(), "restrictive".into(), "--read".into(), reads]
}

pub(crate) fn kill_keeper(session: &Session<'_>, signal: Signal) {
    let keeper = Pid::from_raw(session.keeper() as i32).unwrap();
    kill_process(keeper, signal).unwrap();
}

fn state(session: &Session<'_>) -> String {
    session.listed().map_or_else(String::new, |row| row["state"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_timeout_kills_the_tree_of_its_command_and_nothing_else() {
    each(|scene| {
        scene.write("ws/sprint", "[ $1 -gt 0 ] && sh ./sprint $(($1 - 1)) $2 &\nexit 0\n");
        let workspace = ["--workspace".to_owned(), scene.workspace().display().to_string()];
        let session = Session::create(scene, flags().into_iter().chain(workspace));
        let probe = &*Stage::get().probe.display().to_string();
        let other = format!("{}other", scene.token);
        session.detach(&[], &format!("sleep 1000 & sleep 1000; : {other}"));
        let mark = &*mark(scene);
        let sprint = format!("sh ./sprint 3000 {mark}; trap '' TERM; sleep 1000");
        let lines: [Vec<&str>; 5] = [
            vec![probe, "linger-session", mark],
            vec![probe, "linger-double-fork", mark],
            vec![probe, "linger-stubborn", mark],
            vec![probe, "linger-relay", mark],
            vec!["bash", "-c", &sprint],
        ];
        for line in lines {
            let outcome = session.exec_with(&["--timeout", "500ms"], line);
            outcome.code(124).denial("limits.wall_time");
            nobody_remains(mark);
            assert_eq!(ringfence_testing::processes_with_marker(&other).len(), 1, "the other one is gone");
        }
        session.sh("pgrep -xc sleep").stdout("2\n");
        session.assert_answers();
    });
}

/// It ended in time; what it left has no more of it.
#[test]
fn a_timeout_ends_what_a_command_left() {
    each(|scene| {
        let session = Session::create(scene, flags());
        let mark = &*mark(scene);
        let line = format!("setsid sh -c 'sleep 1000; : {mark}' >/dev/null 2>&1 </dev/null & exit 0");
        session.exec_with(&["--timeout", "1s"], ["sh", "-c", &line]).code(0);
        nobody_remains(mark);
        session.assert_answers();
    });
}

#[test]
fn what_nobody_may_enter_is_removed_all_the_same() {
    each(|scene| {
        let workspace =
            ["--overlay".to_owned(), "--workspace".into(), scene.workspace().display().to_string()];
        let session = Session::create(scene, workspace);
        session.sh("mkdir -p d/e; echo 1 > d/e/x; chmod 000 d/e d").code(0);
        session.call::<&str>("rm", &[]).code(0);
        assert!(session.listed().is_none(), "it is still there");
    });
}

/// A file that was replaced from outside gets its content back, also if its number was given to another one meanwhile.
#[test]
fn a_protected_file_that_the_host_replaced_is_put_back() {
    each(|scene| {
        scene.mkdir("ws/.git");
        scene.write("ws/.git/HEAD", "ref: refs/heads/main\n");
        scene.write("ws/.git/config", "[core]\n\tbare = false\n");
        let session =
            Session::create(scene, ["--workspace".to_owned(), scene.workspace().display().to_string()]);
        for turn in 0..20 {
            let fresh = scene.path("ws/.git/config.host");
            std::fs::write(&fresh, format!("[core]\n\tbare = false\n# {turn}\n")).unwrap();
            scene.identity.own(&fresh);
            std::fs::rename(&fresh, scene.path("ws/.git/config")).unwrap();
        }
        let _ = session
            .sh("printf '[core]\\n\\tfsmonitor = touch /tmp/x\\n' > .git/new && mv .git/new .git/config");
        let outcome = session.call::<&str>("rm", &[]);
        outcome.code(0).stderr_contains("was replaced from outside");
        assert!(!scene.read("ws/.git/config").unwrap_or_default().contains("fsmonitor"));
    });
}

#[test]
fn the_time_to_live_ends_a_session_that_is_busy_too() {
    each(|scene| {
        let session = Session::create(scene, ["--ttl", "2s"]);
        session.detach(&[], &format!("sleep 1000; : {}", mark(scene)));
        eventually("it has ended", || state(&session) == "ended: time to live");
        nobody_remains(&mark(scene));
        session.call("exec", &["true"]).refused("has ended");
    });
}

#[test]
fn more_time_can_be_given() {
    each(|scene| {
        let session = Session::create(scene, ["--ttl", "2s"]);
        session.call("extend", &["--ttl", "1h"]).code(0);
        let left = session.json("inspect", &[])["status"]["ttl_ms"].as_u64().unwrap();
        assert!(left > 3_500_000, "{left}");
        std::thread::sleep(Duration::from_millis(2_500));
        session.assert_answers();
    });
}

#[test]
fn an_idle_session_ends_but_not_while_something_runs() {
    each(|scene| {
        let session = Session::create(scene, ["--idle-timeout", "1s"]);
        let started = Instant::now();
        session.detach(&[], "sleep 4");
        while started.elapsed() < Duration::from_millis(3_500) {
            // Its directory only: a client would be something that happens.
            assert!(session.place().join("socket").exists(), "ended while a process ran");
            std::thread::sleep(Duration::from_millis(50));
        }
        eventually("it has ended", || !session.place().join("socket").exists());
        assert_eq!(state(&session), "ended: idle");
    });
}

/// A list that is made again and again, or a server's counts, would keep every session for ever.
#[test]
fn an_idle_session_ends_though_somebody_looks_at_it() {
    each(|scene| {
        let session = Session::create(scene, ["--idle-timeout", "2s"]);
        session.assert_answers();
        eventually("it has ended", || state(&session) == "ended: idle");
    });
}

#[test]
fn the_tree_of_a_foreground_command_goes_with_its_client() {
    each(|scene| {
        let session = Session::create(scene, flags());
        let script = format!("setsid sleep 1000 & (trap '' TERM; sleep 1000) & yes; : {}", mark(scene));
        let client = session.start_sh(&script);
        // The client carries the mark too.
        eventually("the command runs", || marked(scene) >= 2);
        client.signal(Signal::KILL);
        drop(client);
        nobody_remains(&mark(scene));
        session.sh("test -z \"$(pgrep -x 'sleep|yes')\"").code(0);
        session.assert_answers();
    });
}

#[test]
fn a_signal_to_the_client_is_passed_on_and_the_second_one_kills() {
    each(|scene| {
        let session = Session::create(scene, flags());
        let client =
            session.start_sh("trap 'echo caught; exit 5' TERM; echo on; while :; do sleep 0.1; done");
        eventually("the command runs", || session.json("inspect", &[])["status"]["running"] == 1);
        std::thread::sleep(Duration::from_millis(300));
        client.signal(Signal::TERM);
        client.wait().code(5).stdout("on\ncaught\n");
        let client = session.start_sh(&format!("trap '' TERM; sleep 1000 & wait; wait; : {}", mark(scene)));
        eventually("the command runs", || session.json("inspect", &[])["status"]["running"] == 1);
        std::thread::sleep(Duration::from_millis(300));
        client.signal(Signal::TERM);
        std::thread::sleep(Duration::from_millis(300));
        client.signal(Signal::TERM);
        client.wait().code(128 + 9);
        nobody_remains(&mark(scene));
    });
}

#[test]
fn a_keeper_that_is_told_to_end_says_so() {
    each(|scene| {
        let session = Session::create(scene, flags());
        session.detach(&[], &format!("sleep 1000; : {}", mark(scene)));
        kill_keeper(&session, Signal::TERM);
        eventually("it has ended", || state(&session) == "ended: keeper was told to");
        nobody_remains(&mark(scene));
    });
}

/// As after a restart of the machine: the directory is there, nobody holds it.
#[test]
fn a_dead_keeper_is_told_of_and_its_logs_stay() {
    each_swept(|scene| {
        // Its placeholders are what has to be swept.
        let session = Session::create(scene, flags().into_iter().chain(direct(scene)));
        let process = session.detach(&[], &format!("echo kept; echo too >&2; sleep 1000; : {}", mark(scene)));
        eventually("its output is kept", || session.call("logs", &[process.to_string()]).output == "kept\n");
        kill_keeper(&session, Signal::KILL);
        nobody_remains(&mark(scene));
        session.call("exec", &["true"]).refused("has ended");
        assert_eq!(state(&session), "ended: keeper was killed");
        session.call("inspect", &[] as &[&str]).code(0).stdout_contains("keeper was killed");
        session.call("logs", &[process.to_string()]).code(0).stdout("kept\n").stderr_contains("too");
        session.call("logs", &["--follow", &process.to_string()]).code(0).stdout("kept\n");
        session.make(flags()).call().refused("still has its files");
        session.remove();
    });
}

fn direct(scene: &Scene) -> [String; 2] {
    ["--workspace".into(), scene.workspace().display().to_string()]
}

#[test]
fn removing_a_session_takes_everything() {
    each(|scene| {
        let session = Session::create(scene, flags());
        session.detach(&[], &format!("trap '' TERM HUP; sleep 1000 & wait; : {}", mark(scene)));
        let client = session.start_sh(&format!("sleep 1000; : {}", mark(scene)));
        eventually("both run", || session.json("inspect", &[])["status"]["running"] == 2);
        let place = session.place();
        session.remove();
        assert!(!place.exists(), "its directory is there");
        client.wait().refused("has ended");
        nobody_remains(&mark(scene));
    });
}

#[test]
fn a_paused_session_stands_still_and_its_time_runs_on() {
    each(|scene| {
        let session = Session::create(scene, flags());
        let process = session.detach(&["--timeout", "4s"], "while :; do echo x; sleep 0.02; done");
        session.call("pause", &[] as &[&str]).code(0);
        std::thread::sleep(Duration::from_millis(300));
        let count = || session.json("ps", &[])[0]["output"].as_u64().unwrap();
        let before = count();
        session.call("exec", &["true"]).refused("paused");
        std::thread::sleep(Duration::from_secs(5));
        assert_eq!(count(), before, "it went on");
        session.call("resume", &[] as &[&str]).code(0);
        session.call("wait", &[process.to_string()]).code(124);
        let process = session.detach(&[], "while :; do echo x; sleep 0.02; done");
        session.call("pause", &[] as &[&str]).code(0);
        session.call("resume", &[] as &[&str]).code(0);
        let count = || session.json("ps", &[])[1]["output"].as_u64().unwrap();
        let before = count();
        eventually("it goes on", || count() > before);
        session.call("signal", &["--tree".to_owned(), process.to_string()]).code(0);
    });
}

/// Whoever notices first, and without another sandbox, which would sweep as it starts.
#[test]
fn what_a_killed_keeper_left_outside_is_taken_away_by_whoever_notices() {
    for identity in Identity::all() {
        for notices in ["ls", "rm", "inspect", "exec"] {
            let scene = Scene::new(identity);
            let before = Leftovers::before().without_fds().watch(scene.workspace()).marker(&scene.token);
            let workspace = scene.workspace().display().to_string();
            let session = Session::create(&scene, ["--workspace", &workspace]);
            session.sh("sleep 1000 & exit 0").code(0);
            kill_keeper(&session, Signal::KILL);
            eventually("its lock is free", || is_unheld(&session));
            let noticed = match notices {
                "ls" => Test::in_scene(&scene).verb(["session", "ls"]).call(),
                "exec" => session.call("exec", &["true"]),
                verb => session.call::<&str>(verb, &[]),
            };
            let left = before.since_within(Duration::from_millis(500));
            assert!(
                left.is_empty(),
                "after `session {notices}` as {identity:?}: {left:#?}\n{}",
                noticed.describe()
            );
        }
    }
}

fn is_unheld(session: &Session<'_>) -> bool {
    use rustix::fs::{FlockOperation, flock};
    let lock = std::fs::File::open(session.place().join("lock")).unwrap();
    flock(lock, FlockOperation::NonBlockingLockShared).is_ok()
}
