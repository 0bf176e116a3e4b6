//! A detached process goes on without any client, and its output is read later, byte for byte.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::chown;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ringfence_testing::{Outcome, Scene, Session, eventually};
use rustix::process::Signal;
use serde_json::Value;

use crate::each;

/// On each of the two streams.
const BYTES: usize = 5 << 20;

/// Writes two files to stdout and stderr, in pieces and with pauses that are nowhere the same.
const WRITER: &str = r#"
import os, random, time
left = [[1, open("out", "rb").read()], [2, open("err", "rb").read()]]
while left:
    one = random.choice(left)
    size = random.choice([1, 7, 100, 4096, 4097, 65536, 200000])
    piece, one[1] = one[1][:size], one[1][size:]
    while piece:
        piece = piece[os.write(one[0], piece):]
    if not one[1]:
        left.remove(one)
    if random.random() < 0.2:
        time.sleep(random.random() / 50)
"#;

/// Random bytes in a file of the workspace.
fn random_file(scene: &Scene, name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    File::open("/dev/urandom").unwrap().take(BYTES as u64).read_to_end(&mut bytes).unwrap();
    let path = scene.workspace().join(name);
    std::fs::write(&path, &bytes).unwrap();
    chown(&path, Some(scene.identity.uid()), Some(scene.identity.gid())).unwrap();
    bytes
}

/// What `logs --json` printed: stdout, stderr, and both in the order in which they came.
#[derive(Default)]
struct Pieces {
    streams: [Vec<u8>; 2],
    all: Vec<(u8, u8)>,
    next: u64,
}

fn parse(outcome: &Outcome) -> Pieces {
    let mut read = Pieces::default();
    for line in outcome.output.lines() {
        let piece: Value = serde_json::from_str(line).unwrap();
        let stream = u8::from(piece["stream"] == "stderr");
        let bytes = match piece["base64"].as_str() {
            Some(text) => BASE64_STANDARD.decode(text).unwrap(),
            None => piece["text"].as_str().unwrap().as_bytes().to_vec(),
        };
        read.all.extend(bytes.iter().map(|byte| (stream, *byte)));
        read.streams[usize::from(stream)].extend(bytes);
        read.next = piece["next"].as_u64().unwrap();
    }
    read
}

/// As `ps` has it.
fn output_of(session: &Session<'_>, process: &str) -> u64 {
    let all = session.json("ps", &[]);
    let mut all = all.as_array().unwrap().iter();
    all.find(|one| one["process"].as_u64() == process.parse().ok())
        .and_then(|one| one["output"].as_u64())
        .unwrap()
}

#[test]
fn all_output_of_a_process_that_nobody_watched_is_there() {
    each(|scene| {
        let written = [random_file(scene, "out"), random_file(scene, "err")];
        scene.write("ws/writer.py", WRITER);
        let workspace = scene.workspace().display().to_string();
        // By the default limit of what is kept.
        let session = Session::create(scene, ["--workspace", &workspace]);
        let process = &*session.detach(&[], "exec python3 writer.py").to_string();
        // Two who follow, from the start and from the middle, and one who waits are killed early. Nobody is there until the
        // writer has come far without them; then two follow again, to the end.
        let follow =
            |from: &str| session.test("logs", &[process, "--follow", "--json", "--from", from]).spawn_call();
        let early = [follow("0"), follow("3000000"), session.test("wait", &[process]).spawn_call()];
        eventually("it writes", || output_of(&session, process) > 100_000);
        for client in early {
            client.signal(Signal::KILL);
            let _ = client.wait();
        }
        let alone_from = output_of(&session, process);
        let far = BYTES as u64 * 3 / 2;
        assert!(alone_from < far, "it was done before it was left alone");
        // Only who asks how it is looks in between, and is gone again.
        eventually("it goes on alone", || output_of(&session, process) > far);
        let followers = ["0", "3000000"].map(follow);
        session.call("wait", &[process]).code(0);
        let end = &session.json("ps", &[])[0];
        assert!(
            end["result"]["code"] == 0 && end["output"] == 2 * BYTES as u64 && end["gone"] == true,
            "{end}"
        );
        let whole = parse(session.call("logs", &[process, "--json"]).code(0));
        assert!(whole.streams == written, "what was read is not what was written");
        assert_eq!(whole.next, 2 * BYTES as u64);
        for (from, follower) in [0, 3_000_000].into_iter().zip(followers) {
            let followed = parse(follower.wait().code(0));
            assert!(
                followed.all == whole.all[from..],
                "what was followed from {from} is not what was written"
            );
        }
        for from in [1, 4_096, 65_537, 5_000_001, 2 * BYTES - 1, 2 * BYTES] {
            let part = parse(session.call("logs", &[process, "--json", "--from", &from.to_string()]).code(0));
            assert!(part.all == whole.all[from..], "what was read from {from} is not what was written");
        }
        let file = File::create(scene.path("plain")).unwrap();
        let plain = session.test("logs", &[process]).stdout_file(file).call();
        plain.code(0);
        assert!(std::fs::read(scene.path("plain")).unwrap() == written[0], "plain stdout differs");
    });
}

#[test]
fn stdin_of_a_detached_process_is_written_by_later_clients() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let process = session.detach(&["-i"], "cat; echo end").to_string();
        session.test("stdin", &[&process]).stdin("one\n").call().code(0);
        session.test("stdin", &["--close", &process]).stdin("two\n").call().code(0);
        session.call("wait", &[&process]).code(0);
        session.call("logs", &[&process]).stdout("one\ntwo\nend\n");
        session.test("stdin", &[&process]).stdin("three\n").call().refused("has ended");
        let deaf = session.detach(&[], "cat; sleep 1000").to_string();
        session.test("stdin", &[&deaf]).stdin("x").call().refused("is closed");
    });
}

#[test]
fn attach_types_to_a_process_and_ends_with_it() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let process = session.detach(&["-i"], "read line; echo got $line; exit 6").to_string();
        session.test("attach", &[&process]).stdin("hello\n").call().code(6).stdout("got hello\n");
    });
}
