//! guard and the shims under attack by commands of their own uid. What PID 1 holds against a single command is in the
//! escape table, which goes through sessions too; here are the drills that need two commands.

use ringfence_testing::{Session, Stage, children, eventually, processes_with_marker};

use crate::{each, mark, marked, nobody_remains};

/// As `$shim`: whose child this command is.
const OWN_SHIM: &str = "shim=$PPID;";

fn probe() -> String {
    Stage::get().probe.display().to_string()
}

fn flags() -> [String; 4] {
    let reads = Stage::get().probe_dir().display().to_string();
    ["--profile".into(), "restrictive".into(), "--read".into(), reads]
}

#[test]
fn a_shim_can_not_be_looked_into_or_taken_over() {
    let attacks = [
        "memory-file {shim}",
        "process-file {shim} environ",
        "process-file {shim} maps",
        "process-file {shim} auxv",
        "process-fds {shim}",
        "process-link {shim} exe",
        "process-link {shim} cwd",
        "process-link {shim} root",
        "process-file-write {shim} oom_score_adj 900",
        "pidfd-getfd {shim}",
        "attach {shim}",
        "seize {shim}",
        "vm-read {shim}",
        "vm-write {shim}",
        "prlimit {shim}",
        "affinity {shim}",
        "scheduler {shim}",
        "renice {shim}",
    ];
    each(|scene| {
        let session = Session::create(scene, flags());
        for attack in attacks {
            let attack = attack.replace("{shim}", "$shim");
            let outcome = session.sh(&format!("{OWN_SHIM} {} {attack}; exit $?", probe()));
            outcome.code(1).stdout_contains("held:");
        }
        session.assert_answers();
    });
}

#[test]
fn every_signal_to_its_own_shim_ends_the_command_at_most() {
    const KILLED: i32 = 128 + 9;
    each(|scene| {
        let session = Session::create(scene, flags());
        let others = session.detach(&[], &format!("sleep 1000; : {}other", scene.token));
        for signal in 1..=64 {
            let script =
                format!("{OWN_SHIM} kill -{signal} $shim; sleep 0.05; echo alive; exit 0; : {}", mark(scene));
            let outcome = session.exec_with(&["--timeout", "2s"], ["bash", "-c", &script]);
            let ended = match signal {
                9 => outcome.exit == KILLED,
                // guard does not leave it stopped.
                19 => outcome.exit == 0 && outcome.output == "alive\n",
                _ => outcome.exit == KILLED || outcome.output == "alive\n",
            };
            assert!(ended, "signal {signal}\n{}", outcome.describe());
        }
        nobody_remains(&mark(scene));
        session.assert_answers();
        assert_eq!(processes_with_marker(&format!("{}other", scene.token)).len(), 1, "the other one is gone");
        session.call("signal", &["--tree", &others.to_string(), "KILL"]).code(0);
    });
}

#[test]
fn killing_the_shim_of_another_command_ends_that_command_only() {
    each(|scene| {
        let session = Session::create(scene, flags());
        let script = format!("setsid sleep 1000 & (sleep 1000 &); sleep 1000; : {}", mark(scene));
        let victim = session.detach(&[], &script);
        let pid = session.json("ps", &[])[0]["pid"].as_i64().unwrap();
        session.sh(&format!("kill -9 $(awk '/^PPid/ {{ print $2 }}' /proc/{pid}/status)")).code(0);
        nobody_remains(&mark(scene));
        eventually("its end is known", || {
            let info = &session.json("ps", &[])[0];
            info["gone"] == true && info["result"]["signal"] == 9
        });
        session.call("wait", &[victim.to_string()]).code(128 + 9);
        session.sh("test -z \"$(pgrep -x sleep)\"").code(0);
        session.assert_answers();
    });
}

#[test]
fn a_relay_that_killed_its_shim_is_caught() {
    each(|scene| {
        scene.write("ws/sprint", "[ $1 -gt 0 ] && sh ./sprint $(($1 - 1)) $2 &\nexit 0\n");
        let session = Session::create(scene, flags().into_iter().chain(workspace(scene)));
        for _ in 0..5 {
            let script = format!("{OWN_SHIM} sh ./sprint 3000 {}; kill -9 $shim; sleep 5", mark(scene));
            session.sh(&script).code(128 + 9);
            nobody_remains(&mark(scene));
        }
        session.assert_answers();
    });
}

fn workspace(scene: &ringfence_testing::Scene) -> [String; 2] {
    ["--workspace".into(), scene.workspace().display().to_string()]
}

#[test]
fn a_command_that_stops_everybody_is_ended_by_its_timeout() {
    each(|scene| {
        let session = Session::create(scene, flags());
        let script = format!("sleep 1000 & kill -STOP -1; sleep 1000; : {}", mark(scene));
        session.exec_with(&["--timeout", "1s"], ["bash", "-c", &script]).code(124);
        nobody_remains(&mark(scene));
        session.assert_answers();
    });
}

#[test]
fn a_command_that_kills_everybody_leaves_guard() {
    each(|scene| {
        let session = Session::create(scene, flags());
        session.detach(&[], &format!("setsid sleep 1000 & sleep 1000; : {}", mark(scene)));
        let outcome = session.sh(&format!("{} kill-all; exit 7", probe()));
        assert!(outcome.json.is_some() && outcome.exit != 125, "{}", outcome.describe());
        nobody_remains(&mark(scene));
        session.assert_answers();
    });
}

#[test]
fn no_command_dumps_its_core() {
    each(|scene| {
        let session = Session::create(scene, flags().into_iter().chain(workspace(scene)));
        session.exec([probe(), "dump-core".into()]).code(128 + 6);
        let entries = std::fs::read_dir(scene.workspace()).unwrap().flatten();
        let dumps = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("core"));
        assert_eq!(dumps.count(), 0, "there is a core dump");
    });
}

#[test]
fn a_storm_of_signals_to_guard_holds_nobody_up() {
    each(|scene| {
        let session = Session::create(scene, flags());
        let storm = format!("while :; do kill -CHLD 1; kill -CONT 1; done; : {}", mark(scene));
        for _ in 0..3 {
            session.detach(&[], &storm);
        }
        eventually("the storm is there", || marked(scene) == 3);
        for _ in 0..5 {
            session.assert_answers();
        }
        session.exec_with(&["--timeout", "300ms"], ["sleep", "1000"]).code(124);
    });
}

/// The runtime has handlers for faults, on a stack that two of them at once overrun where registers are wide. What that makes
/// is a fault that ends PID 1 too.
#[test]
fn no_fault_that_is_sent_from_inside_runs_a_handler_of_guard_or_a_shim() {
    const FAULTS: u64 = 1 << (7 - 1) | 1 << (11 - 1);
    let caught = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap() & FAULTS
    };
    // This test's own runtime has them.
    assert_eq!(caught(std::process::id()), FAULTS, "nothing would be seen");
    each(|scene| {
        for _ in 0..5 {
            let session = Session::create(scene, flags());
            session.detach(&[], &format!("sleep 1000; : {}", mark(scene)));
            let guard = session.guard();
            let shims = children(guard);
            assert!(!shims.is_empty(), "guard has no shim");
            for pid in shims.into_iter().chain([guard]) {
                assert_eq!(caught(pid), 0, "process {pid} has a handler");
            }
            // Both wait for guard when it wakes up.
            session.sh("kill -BUS 1; kill -SEGV 1; kill -BUS 1; kill -SEGV 1").code(0);
            session.assert_answers();
            assert_eq!(session.guard(), guard, "guard is another");
        }
    });
}

#[test]
fn a_full_house_takes_another_command() {
    each(|scene| {
        let session = Session::create(scene, flags().into_iter().chain(["--pids".into(), "48".into()]));
        let script = format!("for i in {{1..200}}; do sleep 1000 & done 2>/dev/null; : {}", mark(scene));
        let bomb = session.detach(&[], &format!("{script}; sleep 1000"));
        eventually("there are as many processes as may be", || {
            session.json("stats", &[])["processes"].as_u64().unwrap_or(0) >= 46
        });
        for _ in 0..5 {
            session.assert_answers();
        }
        session.call("signal", &["--tree", &bomb.to_string(), "KILL"]).code(0);
        eventually("the bomb is gone", || session.json("ps", &[])[0]["gone"] == true);
        session.assert_answers();
    });
}

/// Where this host can limit the memory of this caller.
#[test]
fn a_command_without_memory_leaves_guard_and_the_session() {
    each(|scene| {
        let session = Session::named(scene);
        let made = session.make(flags()).args(["--memory", "64M"]).call();
        if made.exit == 125 && made.errors.contains("memory") {
            return;
        }
        made.code(0);
        for _ in 0..3 {
            let outcome = session.exec([probe(), "memory-bomb".into(), "160".into()]);
            assert!(!outcome.output.contains("escaped:"), "{}", outcome.describe());
            outcome.denial("limits.memory");
            session.assert_answers();
        }
    });
}

#[test]
fn what_is_left_of_a_first_command_does_not_hold_the_next_ones_up() {
    each(|scene| {
        let session = Session::create(scene, flags());
        let first =
            format!("setsid sleep 1000 & (setsid sleep 1000 &); echo done; exit 3; : {}", mark(scene));
        session.sh(&first).code(3).stdout("done\n");
        let info = session.json("ps", &[])[0].clone();
        assert!(info["gone"] == false && info["result"]["code"] == 3, "{info}");
        session.assert_answers();
        session.call("signal", &["--tree", "1", "KILL"]).code(0);
        eventually("what it left is gone", || session.json("ps", &[])[0]["gone"] == true);
        session.sh("test -z \"$(pgrep -x sleep)\"").code(0);
    });
}
