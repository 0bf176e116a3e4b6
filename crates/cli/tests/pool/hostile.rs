//! A command in one sandbox of a pool, and the others that wait beside it.

use ringfence_testing::Pool;

use crate::each;

#[test]
fn a_command_neither_sees_nor_reaches_what_waits() {
    each(|scene| {
        let pool = Pool::start(scene, ["--size", "3", "--profile", "restrictive"]);
        let waiting = pool.processes();
        assert!(waiting.len() >= 8, "the pool, its helper, three workers and their guards: {waiting:?}");
        let pids: Vec<String> = waiting.iter().map(u32::to_string).collect();
        let script = format!(
            "for pid in {}; do kill -0 $pid 2>/dev/null && echo reached $pid; done; \
             kill -9 -1 2>/dev/null; ls /proc | grep -c '^[0-9]'; \
             for fd in /proc/1/fd/*; do test -e $fd && echo open $fd; done; \
             test -e {} && echo socket; find / -type s 2>/dev/null; cat /proc/net/unix | grep -c pool; \
             echo over > /tmp/left; true",
            pids.join(" "),
            pool.socket().display()
        );
        let outcome = pool.test().profile("restrictive").run(["bash", "-c", &script]);
        assert!(outcome.is_pooled(), "{}", outcome.describe());
        for sign in ["reached", "open", "socket", "/"] {
            assert!(!outcome.output.contains(sign), "{}", outcome.describe());
        }
        // All that waited still do, but for the one that was used.
        let now = pool.processes();
        let kept = waiting.iter().filter(|pid| now.contains(pid)).count();
        assert!(kept >= waiting.len() - 2, "{waiting:?} became {now:?}");
        let next =
            pool.test().profile("restrictive").run(["ls", "-A", "/tmp", "/dev/shm", "/run", "/var/tmp"]);
        assert!(next.is_pooled() && !next.output.contains("left"), "{}", next.describe());
    });
}

/// Orders that come at once each get a sandbox of their own, and their own answer.
#[test]
fn orders_are_not_confused() {
    each(|scene| {
        let pool = Pool::start(scene, ["--size", "2", "--profile", "restrictive"]);
        let running: Vec<_> = (0..8)
            .map(|number| {
                let script = format!("echo {number} > /tmp/own; cat; cat /tmp/own; exit {number}");
                let test = pool.test().profile("restrictive").stdin(format!("for {number} "));
                test.spawn(["sh", "-c", &script])
            })
            .collect();
        for (number, running) in running.into_iter().enumerate() {
            running.wait().code(number as i32).stdout(&format!("for {number} {number}\n"));
        }
    });
}

/// Whoever connects and says nothing, or nonsense, or goes, takes one sandbox and no more.
#[test]
fn a_client_that_says_nothing_sensible_harms_nobody() {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    each(|scene| {
        let pool = Pool::start(scene, ["--size", "1", "--profile", "restrictive"]);
        let connect = || UnixStream::connect(pool.socket());
        // Of another user's, as root they are refused: only the owner's own can be silly.
        let silent: Vec<_> = (0..3).map(|_| connect()).collect();
        for nonsense in [&b"\xff\xff\xff\xff"[..], b"x", b"\x02\0\0\0{}", b"\x04\0\0\0nope"] {
            if let Ok(mut stream) = connect() {
                let _ = stream.write_all(nonsense);
            }
        }
        pool.test().profile("restrictive").run(["echo", "on"]).code(0).stdout("on\n");
        drop(silent);
        pool.test().profile("restrictive").run(["echo", "on"]).code(0).stdout("on\n");
    });
}
