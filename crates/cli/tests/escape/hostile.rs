//! The first command of a session: it attacks guard and its own shim, or leaves something behind, before the row's own
//! command is run.

use ringfence_testing::{Session, Stage};

/// Each row gets one of them. `{probe}` is the probe, `$PPID` the shim.
const FIRST: &[&str] = &[
    // Processes that outlive it, nobody's children, with its stdout and stderr open.
    "(setsid sleep 1000 &); setsid bash -c 'sleep 1000 & disown'; trap '' TERM HUP; sleep 1000 &",
    // guard and the shim are looked into, taken over, stopped and killed.
    "for pid in 1 $PPID; do for attack in memory-file process-fds attach seize pidfd-getfd vm-write prlimit; do \
     {probe} $attack $pid; done; done; for signal in STOP TERM INT CONT KILL; do kill -$signal 1; done; kill -KILL $PPID",
    // All private space is taken.
    "head -c 1G /dev/zero >/tmp/full; head -c 1G /dev/zero >/dev/shm/full",
    // Signals to guard, for as long as the session lives.
    "(while sleep 0.001; do kill -CHLD 1; done) & (while sleep 0.001; do kill -CONT 1 $PPID; done) &",
    // Everybody is stopped, the shim too; the timeout ends it.
    "kill -STOP -1",
];

/// How it ends is its own affair, but it must end, and the session must live.
pub(crate) fn first_command(session: &Session<'_>, row: &str) {
    let turn = row.bytes().map(usize::from).sum::<usize>() % FIRST.len();
    let script = FIRST[turn].replace("{probe}", &Stage::get().probe.display().to_string());
    let outcome = session.exec_with(&["--timeout", "2s"], ["bash", "-c", &script]);
    assert!(outcome.json.is_some(), "the hostile command's end was not told\n{}", outcome.describe());
}
