//! A shim takes one command after the other, and one of them waits for the next: what commands do to it while it waits.

use ringfence_testing::{Scene, Session, Stage, children, eventually};
use rustix::process::{Pid, Signal, kill_process};

use crate::{each, mark, nobody_remains};

/// `waiting`: the shims that are not this command's own.
const WAITING: &str = r#"waiting() {
    for status in /proc/[0-9]*/status; do
        pid=${status#/proc/}; pid=${pid%/status}
        [ "$pid" = "$PPID" ] || { grep -q '^PPid:[[:space:]]*1$' "$status" && echo "$pid"; }
    done 2>/dev/null
    true
};"#;

fn with_workspace(scene: &Scene) -> [String; 6] {
    let reads = Stage::get().probe_dir().display().to_string();
    let workspace = scene.workspace().display().to_string();
    ["--profile", "restrictive", "--workspace", &workspace, "--read", &reads].map(Into::into)
}

/// Have a command run beside a shim that waits: it is the one that a second command leaves.
fn beside_a_waiting_shim(scene: &Scene, session: &Session<'_>, script: &str) -> u32 {
    let _ = std::fs::remove_file(scene.workspace().join("go"));
    let process = session.detach(&[], &format!("{WAITING} until [ -e go ]; do sleep 0.01; done; {script}"));
    session.assert_answers();
    scene.write("ws/go", "");
    process
}

#[test]
fn one_command_after_the_other_has_the_same_shim_and_two_at_once_have_not() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let first = session.sh("echo $PPID");
        first.code(0);
        for _ in 0..3 {
            session.sh("echo $PPID").code(0).stdout(&first.output);
        }
        session.exec(["/nowhere"]).code(127);
        session.sh("echo $PPID").code(0).stdout(&first.output);
        let kept = session.detach(&[], &format!("sleep 1000; : {}", mark(scene)));
        let second = session.sh("echo $PPID");
        assert_ne!(second.output, first.output, "two commands have one shim");
        session.call("signal", &["--tree", &kept.to_string(), "KILL"]).code(0);
        nobody_remains(&mark(scene));
        session.sh("echo $PPID").code(0).stdout(&second.output);
    });
}

#[test]
fn a_shim_whose_command_left_something_waits_for_that() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let left = session.sh(&format!("(setsid sleep 1000 &); echo $PPID; : {}", mark(scene)));
        left.code(0);
        let other = session.sh("echo $PPID");
        assert_ne!(other.output, left.output, "it took a command while it had one");
        session.call("signal", &["--tree", "1", "KILL"]).code(0);
        eventually("what it left is gone", || session.json("ps", &[])[0]["gone"] == true);
        session.assert_answers();
    });
}

#[test]
fn a_shim_that_waits_can_not_be_looked_into_or_taken_over() {
    const ATTACKS: [&str; 12] = [
        "memory-file",
        "process-fds",
        "pidfd-getfd",
        "attach",
        "seize",
        "vm-read",
        "vm-write",
        "prlimit",
        "affinity",
        "scheduler",
        "renice",
        "process-file-write",
    ];
    each(|scene| {
        let session = Session::create(scene, with_workspace(scene));
        let probe = Stage::get().probe.display().to_string();
        let attacks: String = ATTACKS
            .iter()
            .map(|attack| {
                let more = if *attack == "process-file-write" { "oom_score_adj 900" } else { "" };
                format!("{probe} {attack} $shim {more} && echo \"escaped: {attack}\";")
            })
            .collect();
        let script = format!("shim=$(waiting); {attacks} echo tried");
        let process = beside_a_waiting_shim(scene, &session, &script);
        session.call("wait", &[process.to_string()]).code(0);
        let outcome = session.call("logs", &[process.to_string()]);
        outcome.code(0).stdout_contains("tried");
        assert!(!outcome.output.contains("escaped:"), "{}", outcome.describe());
        assert_eq!(outcome.output.matches("held:").count(), ATTACKS.len(), "{}", outcome.describe());
        session.assert_answers();
    });
}

/// Whatever is done to it, the next command runs: in it, or in another.
#[test]
fn every_signal_to_a_shim_that_waits_leaves_the_next_command_alone() {
    each(|scene| {
        let session = Session::create(scene, with_workspace(scene));
        for signal in (1..=31).chain([64]) {
            let script =
                format!("shim=$(waiting); kill -{signal} $shim && echo sent; sleep 1000; : {}", mark(scene));
            let process = beside_a_waiting_shim(scene, &session, &script);
            eventually("the signal is sent", || {
                session.call("logs", &[process.to_string()]).output == "sent\n"
            });
            for _ in 0..3 {
                session.assert_answers();
            }
            session.call("signal", &["--tree", &process.to_string(), "KILL"]).code(0);
            nobody_remains(&mark(scene));
        }
    });
}

#[test]
fn a_command_that_stops_its_own_shim_ends_as_it_would() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        for _ in 0..5 {
            session.sh("kill -STOP $PPID; echo on; exit 3").code(3).stdout("on\n");
            session.sh("kill -STOP -1; kill -STOP $PPID; exit 4").code(4);
            session.assert_answers();
        }
    });
}

/// A hostile command kills every other shim as soon as it is there. A command is then killed, or it has run; never twice, and
/// none is lost.
#[test]
fn commands_among_killed_shims_run_once_or_are_killed() {
    const KILLED: i32 = 128 + 9;
    const COMMANDS: usize = 60;
    each(|scene| {
        let session = Session::create(scene, with_workspace(scene));
        let script = format!("while :; do kill -9 $(waiting); done 2>/dev/null; : {}", mark(scene));
        let killer = session.detach(&[], &format!("{WAITING} {script}"));
        let mut ran = 0;
        for number in 0..COMMANDS {
            let outcome = session.sh(&format!("echo {number} >> runs; exit 5"));
            let runs = scene.read("ws/runs").unwrap_or_default();
            let count = runs.lines().filter(|line| *line == number.to_string()).count();
            match outcome.exit {
                5 => assert_eq!(count, 1, "{}", outcome.describe()),
                KILLED => assert!(count <= 1, "it ran {count} times"),
                _ => panic!("{}", outcome.describe()),
            }
            ran += count;
        }
        println!("{ran} of {COMMANDS} ran");
        session.call("signal", &["--tree", &killer.to_string(), "KILL"]).code(0);
        nobody_remains(&mark(scene));
        session.assert_answers();
        let runs = scene.read("ws/runs").unwrap_or_default();
        let mut unique: Vec<&str> = runs.lines().collect();
        unique.dedup();
        assert_eq!(unique.len(), runs.lines().count(), "one ran twice");
    });
}

/// What a timeout kills is that command's tree only, also with a shim that had other commands before and gets none after.
#[test]
fn a_timeout_in_a_used_shim_ends_that_command_only() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        for _ in 0..5 {
            session.assert_answers();
            let script = format!("setsid sleep 1000 & (sleep 1000 &); sleep 1000; : {}", mark(scene));
            session.exec_with(&["--timeout", "100ms"], ["bash", "-c", &script]).code(124);
            // Longer than guard waits before it kills a shim whose command was killed.
            session.sh("sleep 0.4; echo whole").code(0).stdout("whole\n");
            nobody_remains(&mark(scene));
        }
    });
}

#[test]
fn a_full_house_takes_several_commands_at_once() {
    // An ordinary user without a cgroup has eight processes for them in all.
    const AT_ONCE: usize = 4;
    each(|scene| {
        let flags = with_workspace(scene).into_iter().chain(["--pids".into(), "48".into()]);
        let session = Session::create(scene, flags);
        let script = format!("for i in {{1..200}}; do sleep 1000 & done 2>/dev/null; : {}", mark(scene));
        let bomb = session.detach(&[], &format!("{script}; sleep 1000"));
        eventually("there are as many processes as may be", || {
            session.json("stats", &[])["processes"].as_u64().unwrap_or(0) >= 46
        });
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| session.assert_answers());
            }
        });
        session.call("signal", &["--tree", &bomb.to_string(), "KILL"]).code(0);
        nobody_remains(&mark(scene));
        session.assert_answers();
    });
}

/// As in `/proc/PID/stat`.
fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('X')
}

fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

/// There is no process left for it, and before that is known it is killed: making room for it then would start what nobody
/// waits for any more. (Without a cgroup there is a process for it, and it is killed like any other.)
#[test]
fn a_command_that_was_killed_meanwhile_is_not_ordered_again() {
    each(|scene| {
        let flags = with_workspace(scene).into_iter().chain(["--pids".into(), "48".into()]);
        let session = Session::create(scene, flags);
        let fill = format!("for i in {{1..200}}; do sleep 1000 & done 2>/dev/null; : {}", mark(scene));
        let bomb = beside_a_waiting_shim(scene, &session, &format!("{fill}; sleep 1000"));
        eventually("there are as many processes as may be", || {
            session.json("stats", &[])["processes"].as_u64().unwrap_or(0) >= 46
        });
        let guard = session.guard();
        let waiting = children(guard).into_iter().find(|shim| children(*shim).is_empty());
        let waiting = waiting.expect("a shim waits");
        // guard first: it lets a stopped shim go on.
        for pid in [guard, waiting] {
            send(pid, Signal::STOP);
            eventually("it is stopped", || state(pid) == 'T');
        }
        let client = session.start_sh("echo ran > ran; sleep 1000");
        let ordered = || session.json("ps", &[]).as_array().and_then(|all| all.last().cloned()).unwrap();
        eventually("it is ordered", || ordered()["argv"][2] == "echo ran > ran; sleep 1000");
        assert!(ordered()["pid"].is_null(), "it has started");
        let process = ordered()["process"].to_string();
        session.call("signal", &["--tree", &process, "KILL"]).code(0);
        send(waiting, Signal::CONT);
        eventually("the shim has tried", || matches!(state(waiting), 'S' | 'Z'));
        send(guard, Signal::CONT);
        // One that is ordered again would not end.
        let outcome = client.wait();
        assert_ne!(outcome.exit, 0, "{}", outcome.describe());
        let is_counted =
            std::fs::read_to_string(format!("/proc/{guard}/cgroup")).unwrap().contains("ringfence-");
        assert!(!is_counted || scene.read("ws/ran").is_none(), "it was started though it was killed");
        session.call("signal", &["--tree", &bomb.to_string(), "KILL"]).code(0);
        nobody_remains(&mark(scene));
        session.assert_answers();
    });
}
