//! The first command of a session: it attacks guard, its own shim or the keeper, or leaves something behind, before the row's own
//! command is run.

use ringfence_testing::{Session, Stage};

enum Opening {
    /// In the foreground, until its timeout.
    Command(&'static str),
    /// The same with more on its stdin than any pipe holds.
    Deaf(&'static str),
    /// Detached, and still at it when the row's command comes.
    Meanwhile(&'static str),
}

/// Each row gets one of them. `{probe}` is the probe, `$PPID` the shim.
const FIRST: &[Opening] = &[
    // Processes that outlive it, nobody's children, with its stdout and stderr open.
    Opening::Command(
        "(setsid sleep 1000 &); setsid bash -c 'sleep 1000 & disown'; trap '' TERM HUP; sleep 1000 &",
    ),
    // guard and the shim are looked into, taken over, stopped and killed.
    Opening::Command(
        "for pid in 1 $PPID; do for attack in memory-file process-fds attach seize pidfd-getfd vm-write prlimit; do \
         {probe} $attack $pid; done; done; for signal in STOP TERM INT CONT KILL; do kill -$signal 1; done; kill -KILL $PPID",
    ),
    // All private space is taken.
    Opening::Command("head -c 1G /dev/zero >/tmp/full; head -c 1G /dev/zero >/dev/shm/full"),
    // Signals to guard, for as long as the session lives.
    Opening::Command(
        "(while sleep 0.001; do kill -CHLD 1; done) & (while sleep 0.001; do kill -CONT 1 $PPID; done) &",
    ),
    // Everybody is stopped, the shim too; the timeout ends it.
    Opening::Command("kill -STOP -1"),
    // More output than anybody wants, on both streams, into the keeper's own hands, for as long as the row may take.
    Opening::Meanwhile(
        "flood() { for i in {1..200}; do head -c 1M /dev/zero; sleep 0.05; done; }; flood & flood >&2 & wait",
    ),
    // Nothing of what comes is read, and another process holds the pipe open when this one has ended.
    Opening::Deaf("setsid sleep 1000 & sleep 1000"),
];

/// Beyond any pipe.
const MUCH: usize = 4 << 20;

/// How it ends is its own affair, but it must end, and the session must live.
pub(crate) fn first_command(session: &Session<'_>, row: &str) {
    let turn = row.bytes().map(usize::from).sum::<usize>() % FIRST.len();
    let opening = &FIRST[turn];
    let (Opening::Command(script) | Opening::Deaf(script) | Opening::Meanwhile(script)) = opening;
    let script = script.replace("{probe}", &Stage::get().probe.display().to_string());
    let test = match opening {
        Opening::Meanwhile(_) => {
            session.detach(&[], &script);
            return;
        }
        Opening::Deaf(_) => session.exec_test(&["--timeout", "700ms"]).stdin(vec![b'x'; MUCH]),
        Opening::Command(_) => session.exec_test(&["--timeout", "2s"]),
    };
    let outcome = test.run(["bash", "-c", &script]);
    assert!(outcome.json.is_some(), "the hostile command's end was not told\n{}", outcome.describe());
}
