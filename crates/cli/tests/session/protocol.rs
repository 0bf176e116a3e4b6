//! A keeper's socket under whatever a client may send: it answers or hangs up, and goes on serving the others.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ringfence_testing::{Identity, Scene, Session, Stage};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open};
use rustix::pipe::pipe;
use serde_json::{Value, json};

use crate::client::{Client, EXEC, MOST_FDS};
use crate::each;

const CASES: u32 = 300;

fn pipes() -> [OwnedFd; 3] {
    let ((stdin, _), (_, stdout), (_, stderr)) = (pipe().unwrap(), pipe().unwrap(), pipe().unwrap());
    [stdin, stdout, stderr]
}

/// Send it and look at what comes back: an answer, or a closed connection.
fn endure(session: &Session<'_>, call: &str, fds: &[BorrowedFd<'_>]) -> Option<Value> {
    Client::connect(session).ask(call, fds)
}

fn runner() -> TestRunner {
    TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() })
}

#[test]
fn random_bytes_are_answered_or_hung_up_on() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let keeper = session.keeper();
        runner()
            .run(&prop::collection::vec(any::<u8>(), 1..9_000), |bytes| {
                let client = Client::connect(&session);
                client.send(&bytes, &[]).unwrap();
                if let Some(answer) = client.receive() {
                    prop_assert_eq!(&answer["answer"], "refused");
                }
                Ok(())
            })
            .unwrap();
        session.assert_answers();
        assert_eq!(session.keeper(), keeper);
    });
}

/// Something that is nearly a call: names that there are, values of all kinds.
fn nearly_a_call() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![
        "exec",
        "wait",
        "signal",
        "stdin",
        "close_stdin",
        "processes",
        "status",
        "stats",
        "pause",
        "resume",
        "hold",
        "extend",
        "files",
        "connect",
        "expose",
        "unexpose",
        "explain",
        "none",
    ]);
    let key = prop::sample::select(vec![
        "process",
        "signal",
        "tree",
        "ttl_ms",
        "idle_ms",
        "port",
        "lines",
        "argv",
        "environment",
        "directory",
        "timeout_ms",
        "stdio",
        "version",
        "call",
        "extra",
    ]);
    let value = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..70u32).prop_map(Value::from),
        // Long enough that nothing ends meanwhile.
        (4_000_000_000..u64::MAX).prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
        Just(json!(["true"])),
        Just(json!([])),
        Just(json!(["\u{1}ff", "\u{1}f"])),
        Just(json!({ "A": "b", "": "c", "=": "d" })),
        Just(json!({ "kind": "pipes" })),
        Just(json!({ "kind": "terminal", "rows": 65535, "columns": 0 })),
        Just(json!({ "kind": "log", "stdin": true, "terminal": null })),
        Just(json!({ "kind": "log", "stdin": false, "terminal": [1, 1] })),
    ];
    let fields = prop::collection::vec((key, value), 0..7);
    (name, fields).prop_map(|(name, fields)| {
        let mut call = json!({ "version": 1, "call": name });
        for (key, value) in fields {
            call[key] = value;
        }
        call
    })
}

/// Whether the keeper answers such a call only when something ends.
fn may_be_silent(call: &Value) -> bool {
    call["call"] == "wait"
}

#[test]
fn calls_that_are_nearly_right_are_answered() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let keeper = session.keeper();
        runner()
            .run(&nearly_a_call(), |call| {
                // The time that it may live is nobody's to cut here.
                prop_assume!(
                    call["call"] != "extend" || (call["ttl_ms"].is_null() && call["idle_ms"].is_null())
                );
                let client = Client::connect(&session);
                client.send(call.to_string().as_bytes(), &[]).unwrap();
                if !may_be_silent(&call) {
                    client.receive();
                }
                Ok(())
            })
            .unwrap();
        session.call("resume", &[] as &[&str]).code(0);
        session.assert_answers();
        assert_eq!(session.keeper(), keeper);
    });
}

fn refusal(answer: Option<Value>) -> String {
    let answer = answer.expect("an answer");
    assert_eq!(answer["answer"], "refused", "{answer}");
    assert!(answer["fix"].as_str().is_some_and(|fix| !fix.is_empty()), "{answer}");
    answer["why"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn another_version_is_refused_with_words() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        for version in ["0", "2", "4294967295"] {
            let call = format!(r#"{{"version":{version},"call":"status"}}"#);
            let why = refusal(endure(&session, &call, &[]));
            assert!(why.contains("version 1") && why.contains(version), "{why}");
        }
        assert!(refusal(endure(&session, r#"{"call":"status"}"#, &[])).contains("not a call"));
        session.assert_answers();
    });
}

#[test]
fn descriptors_that_nobody_asked_for_are_closed() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let keeper = session.keeper();
        let open_files = || std::fs::read_dir(format!("/proc/{keeper}/fd")).unwrap().count();
        let before = open_files();
        let file = File::open("/dev/null").unwrap();
        for count in [1, 4, 32, 33, 100, MOST_FDS] {
            let fds = vec![file.as_fd(); count];
            for call in [EXEC, r#"{"version":1,"call":"status"}"#, "@", "rubbish"] {
                let client = Client::connect(&session);
                client.ask(call, &fds);
            }
        }
        session.assert_answers();
        ringfence_testing::eventually("they are closed", || open_files() <= before);
    });
}

#[test]
fn only_pipes_of_the_right_direction_are_taken_as_stdio() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let path = scene.workspace();
        let directory = open(&path, OFlags::DIRECTORY, Mode::empty()).unwrap();
        let path_only = open(&path, OFlags::PATH, Mode::empty()).unwrap();
        let file: OwnedFd = File::create(scene.path("file")).unwrap().into();
        let (socket, _other) = UnixStream::pair().unwrap();
        let null: OwnedFd = File::options().read(true).write(true).open("/dev/null").unwrap().into();
        let (read, write) = pipe().unwrap();
        let memory = memfd_create("x", MemfdFlags::CLOEXEC).unwrap();
        let wrong_anywhere: [BorrowedFd<'_>; 6] = [
            directory.as_fd(),
            path_only.as_fd(),
            file.as_fd(),
            socket.as_fd(),
            null.as_fd(),
            memory.as_fd(),
        ];
        let good = pipes();
        let with = |number: usize, fd: BorrowedFd<'_>| {
            let mut fds: Vec<BorrowedFd<'_>> = good.iter().map(AsFd::as_fd).collect();
            fds[number] = fd;
            refusal(endure(&session, EXEC, &fds))
        };
        for number in 0..3 {
            for fd in wrong_anywhere {
                assert!(with(number, fd).contains("three pipes"));
            }
        }
        assert!(with(0, write.as_fd()).contains("three pipes"));
        assert!(with(1, read.as_fd()).contains("three pipes"));
        assert!(with(2, read.as_fd()).contains("three pipes"));
        for count in [0, 1, 2, 4] {
            let fds = vec![good[0].as_fd(); count];
            assert!(refusal(endure(&session, EXEC, &fds)).contains("three pipes"));
        }
        let fds: Vec<BorrowedFd<'_>> = good.iter().map(AsFd::as_fd).collect();
        let answer = endure(&session, EXEC, &fds).unwrap();
        assert_eq!(answer["answer"], "started", "{answer}");
    });
}

#[test]
fn a_message_in_a_file_is_read_from_a_file_only() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let (read, _write) = pipe().unwrap();
        let directory = open("/", OFlags::DIRECTORY, Mode::empty()).unwrap();
        let zero = File::open("/dev/zero").unwrap();
        for fd in [read.as_fd(), directory.as_fd(), zero.as_fd()] {
            endure(&session, "@", &[fd]);
        }
        endure(&session, "@", &[]);
        let huge = File::create_new(scene.path("huge")).unwrap();
        huge.set_len(1 << 40).unwrap();
        endure(&session, "@", &[File::open(scene.path("huge")).unwrap().as_fd()]);
        session.assert_answers();
    });
}

#[test]
fn the_most_clients_may_be_here_and_the_next_is_served_when_one_goes() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let crowd: Vec<Client> = (0..300).filter_map(|_| Client::try_connect(&session).ok()).collect();
        drop(crowd);
        session.assert_answers();
    });
}

/// Another user's programs don't get as far as a word: the directory is the owner's only, and so is the socket.
#[test]
fn another_user_is_not_let_in() {
    if !Identity::Root.is_available() {
        return;
    }
    const STRANGER: u32 = 61_235;
    let script = r#"
import os, socket, sys
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try:
    s.connect(sys.argv[1])
    s.send(b'{"version":1,"call":"status"}')
    print("in" if s.recv(100) else "hung up")
except (ConnectionResetError, BrokenPipeError):
    print("hung up")
except OSError as error:
    print(type(error).__name__)
"#;
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        // Short enough for an address.
        let door = tempfile::Builder::new().prefix("rf-door").tempdir_in("/tmp").unwrap();
        let link = door.path().join("s");
        std::os::unix::fs::symlink(session.place().join("socket"), &link).unwrap();
        open_to_all(door.path());
        let knock = |who: u32| {
            let output =
                Command::new("python3").args(["-c", script]).arg(&link).arg(who.to_string()).output();
            String::from_utf8_lossy(&output.unwrap().stdout).trim().to_owned()
        };
        assert_eq!(knock(0), "in");
        assert_eq!(knock(scene.identity.uid()), "in");
        assert_eq!(knock(STRANGER), "PermissionError");
        // With all doors open the keeper itself looks who it is.
        let (state, place) = (scene.state(), session.place());
        for path in [&state, &state.join("sessions"), &place, &place.join("socket")] {
            open_to_all(path);
        }
        assert_eq!(knock(STRANGER), "hung up");
        assert_eq!(knock(scene.identity.uid()), "in");
        session.assert_answers();
    });
}

fn open_to_all(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}

/// A path to the socket of a session whose state directory has a long name.
#[test]
fn a_long_state_directory_is_no_hindrance() {
    let scene = Scene::new(Identity::User);
    let deep = scene.state().join("d".repeat(100)).join("e".repeat(100));
    std::fs::create_dir_all(&deep).unwrap();
    for path in [deep.as_path(), deep.parent().unwrap()] {
        scene.identity.own(path);
    }
    let call = |args: &[&str]| {
        let mut command = Command::new(&Stage::get().ringfence);
        command.arg("session").args(args).current_dir(scene.workspace());
        command.env("HOME", scene.home()).env("RINGFENCE_STATE_DIR", &deep);
        scene.identity.apply(&mut command);
        command.output().unwrap()
    };
    let made = call(&["create", "--name", "long"]);
    assert!(made.status.success(), "{made:?}");
    let output = call(&["exec", "long", "--", "echo", "here"]);
    call(&["rm", "long"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "here\n", "{output:?}");
}
