//! PID 1 inside (guard) under attack from commands of its own uid. The twins attack a process of the caller.

use ringfence_testing::{Scene, Stage, Test, Victim};

use crate::attempt::{Twin, attempt};
use crate::row::{Row, drill};

pub(crate) fn rows() -> Vec<Row> {
    let row = |name: &str, what: &str, args: &[&str]| {
        attempt(format!("guard-{name}"), what).probe(args.iter().copied()).twin(Twin::Host)
    };
    let denied = |name: &str, call: &str, args: &[&str]| {
        attempt(format!("guard-{name}"), format!("{call} on PID 1"))
            .probe(args.iter().copied())
            .denied(call)
            .twin(Twin::Host)
    };
    let mut rows = vec![
        row("mem", "reads the memory of PID 1", &["memory-file", "{target}"]),
        row("environ", "reads the environment of PID 1", &["process-file", "{target}", "environ"]),
        row("maps", "reads the memory map of PID 1", &["process-file", "{target}", "maps"]),
        row("auxv", "reads the auxiliary vector of PID 1", &["process-file", "{target}", "auxv"]),
        row("smaps", "reads the memory statistics of PID 1", &["process-file", "{target}", "smaps"]),
        row("io", "reads the I/O counters of PID 1", &["process-file", "{target}", "io"]),
        row("fds", "looks at the open files of PID 1", &["process-fds", "{target}"]),
        row("exe", "finds the program of PID 1", &["process-link", "{target}", "exe"]),
        row("cwd", "finds the directory of PID 1", &["process-link", "{target}", "cwd"]),
        row("root", "reads through the root of PID 1", &["process-root", "{target}", "{secret}", "{token}"]),
        row(
            "oom",
            "offers PID 1 to the OOM killer",
            &["process-file-write", "{target}", "oom_score_adj", "900"],
        ),
        row(
            "coredump",
            "changes what PID 1 dumps",
            &["process-file-write", "{target}", "coredump_filter", "0xff"],
        ),
        row("clear-refs", "clears PID 1's page bits", &["process-file-write", "{target}", "clear_refs", "1"]),
        denied("pidfd-getfd", "pidfd_getfd", &["pidfd-getfd", "{target}"]),
        denied("attach", "ptrace", &["attach", "{target}"]),
        denied("seize", "ptrace", &["seize", "{target}"]),
        denied("vm-read", "process_vm_readv", &["vm-read", "{target}"]),
        denied("vm-write", "process_vm_writev", &["vm-write", "{target}"]),
        denied("kcmp", "kcmp", &["kcmp", "{target}"]),
        denied("prlimit", "prlimit64", &["prlimit", "{target}"]),
        denied("affinity", "sched_setaffinity", &["affinity", "{target}"]),
        denied("scheduler", "sched_setscheduler", &["scheduler", "{target}"]),
        denied("renice", "setpriority", &["renice", "{target}"]),
        denied("ioprio", "ioprio_set", &["ioprio", "{target}"]),
        row("pidfd-kill", "kills PID 1 by pidfd", &["pidfd-signal", "{target}"]),
        row("all-signals", "sends PID 1 every signal there is", &["all-signals", "{target}"]),
    ];
    for (name, number) in [("kill", "9"), ("stop", "19"), ("term", "15"), ("abort", "6"), ("quit", "3")] {
        rows.push(row(
            &format!("signal-{name}"),
            "sends PID 1 a deadly signal",
            &["kill", "{target}", number],
        ));
    }
    rows.push(kill_all());
    rows
}

/// `kill(-1)` inside reaches nothing outside, and guard still reports how the command ended.
fn kill_all() -> Row {
    drill(
        "kill-all",
        "kills every process it can reach",
        "tests/session/guard.rs",
        |identity| {
            let scene = Scene::new(identity);
            let mut victim = Victim::start(identity, &scene.token);
            let script = format!("sleep 60 & {} kill-all; exit 7", Stage::get().probe.display());
            let test = Test::in_scene(&scene).profile("restrictive").with_probe();
            let outcome = test.run(["setsid".to_owned(), "-w".into(), "bash".into(), "-c".into(), script]);
            if !victim.is_alive() {
                return Err("a process of the host is dead".into());
            }
            // The shell dies of it too; that guard says so shows that guard is alive.
            if outcome.json.is_none() || outcome.exit == 125 {
                return Err(format!("the end was not reported\n{}", outcome.describe()));
            }
            Ok(())
        },
        |identity| {
            let scene = Scene::new(identity);
            // In a PID namespace made for this, where only its own processes can die.
            let script =
                format!("sleep 5 & {} kill-all; wait $!; echo ended with $?", Stage::get().probe.display());
            let command =
                ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "bash", "-c"];
            let command: Vec<String> = command.iter().map(|s| (*s).to_owned()).chain([script]).collect();
            let text = crate::stdio::on_host(&scene, &command, |_| {});
            // PID 1 of a namespace, the shell, can't be killed from inside: it lives to tell.
            if text.contains("ended with 137") { Ok(()) } else { Err(text) }
        },
    )
}
