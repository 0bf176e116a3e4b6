//! Clients that are slow or greedy on purpose, and the end of a server that they hold on to. Limits are short here; what is
//! asked is whether an end comes, never when.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use ringfence_testing::{EventReader, Leftovers, Scene, Server, eventually, processes_with_marker};
use rustix::process::Signal;
use serde_json::json;

use crate::scene;

const PATIENCE: Duration = Duration::from_secs(60);

fn impatient<'a>(scene: &'a Scene, limits: &str) -> Server<'a> {
    scene.write("server.toml", &format!("[limits]\n{limits}"));
    Server::start(scene, ["--config".to_owned(), scene.path("server.toml").display().to_string()])
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// Everything until the server closes; empty where it only closes.
fn rest(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    match stream.read_to_end(&mut text) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the server never closed: {error}"),
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn heads_that_drip_are_not_waited_for() {
    let scene = scene();
    let server = impatient(&scene, "head_time = '300ms'\nconnections = 4\n");
    let mut held: Vec<TcpStream> = (0..4).map(|_| connect(&server)).collect();
    for stream in &mut held {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-a: ").expect("send");
    }
    // All places are taken, by heads that get a byte now and then: still somebody else comes in.
    let dripping: Vec<TcpStream> = held.iter().map(|stream| stream.try_clone().expect("a copy")).collect();
    let drip = std::thread::spawn(move || {
        for mut stream in dripping {
            while stream.write_all(b"b").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
    let _ = server.ask(None, "GET", "/healthz", None).status(200);
    for stream in held {
        let told = rest(stream);
        assert!(told.is_empty() || told.starts_with("HTTP/1.1 408"), "{told}");
    }
    drip.join().expect("the dripping ends");
    // Who says nothing at all is let go too.
    assert_eq!(rest(connect(&server)), "");
}

#[test]
fn bodies_that_drip_are_given_up() {
    let scene = scene();
    let server = impatient(&scene, "body_time = '300ms'\n");
    let key = server.key("ada", "operator");
    let head = format!(
        "POST /v1/run HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{{"
    );
    let mut stream = connect(&server);
    stream.write_all(head.as_bytes()).expect("send");
    let mut drip = stream.try_clone().expect("a copy");
    let dripping = std::thread::spawn(move || {
        for _ in 0..900 {
            if drip.write_all(b" ").is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let told = rest(stream);
    assert!(told.starts_with("HTTP/1.1 408") && told.contains("\"slow_body\""), "{told}");
    dripping.join().expect("the dripping ends");
    // A large body that comes is no slow one.
    let long = json!({ "command": ["wc", "-c"], "stdin": "x".repeat(4 << 20) });
    let ran = server.ask(Some(&key), "POST", "/v1/run", Some(&long)).status(200).json();
    assert_eq!(ran["stdout"], format!("{}\n", 4 << 20));
}

#[test]
fn heads_are_bounded() {
    let scene = scene();
    let server = crate::server(&scene);
    let ask = |more: &str| {
        let mut stream = connect(&server);
        let head = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{more}\r\n");
        let _ = stream.write_all(head.as_bytes());
        rest(stream)
    };
    let many = |count: usize| (0..count).map(|n| format!("x-{n}: y\r\n")).collect::<String>();
    assert!(ask(&many(40)).starts_with("HTTP/1.1 200"));
    assert!(ask(&many(200)).starts_with("HTTP/1.1 431"));
    assert!(ask(&format!("x-a: {}\r\n", "y".repeat(16 << 10))).starts_with("HTTP/1.1 200"));
    let told = ask(&format!("x-a: {}\r\n", "y".repeat(256 << 10)));
    assert!(told.is_empty() || told.starts_with("HTTP/1.1 431"), "{told}");
    for smuggled in [
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: 5, 6\r\n",
        "content-length: -1\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "bad header: x\r\n",
    ] {
        let told = ask(smuggled);
        assert!(told.starts_with("HTTP/1.1 400"), "{smuggled:?}: {told}");
    }
}

#[test]
fn streams_are_drained_when_the_server_is_told_to_stop() {
    let scene = scene();
    let server = crate::server(&scene);
    let key = server.key("ada", "operator");
    let script = "echo first; while [ ! -e go ]; do sleep 0.05; done; echo last";
    let body = json!({ "command": ["sh", "-c", script] });
    let mut events = server.events(&key, "/v1/run/stream", None, Some(&body));
    while events.next_event().expect("an event").name != "stdout" {}
    let mut idle = connect(&server);
    server.signal(Signal::TERM);
    eventually("nobody new comes in", || TcpStream::connect(server.address()).is_err());
    // A connection with nothing under way is closed at once.
    let mut one = [0; 1];
    assert!(matches!(idle.read(&mut one), Ok(0) | Err(_)));
    let workspace = scene.state().join("workspaces/ada/default/files");
    std::fs::write(workspace.join("go"), "").expect("let it go");
    let told = events.rest();
    assert_eq!(told.last().map(|event| event.name.as_str()), Some("exit"), "{told:?}");
    assert_eq!(server.ended().exit, 0);
}

#[test]
fn a_drain_has_a_bound() {
    let before = Leftovers::before();
    {
        let scene = scene();
        let server = impatient(&scene, "drain = '300ms'\n");
        let (marker, _listening) = endless(&scene, &server);
        server.signal(Signal::TERM);
        assert_eq!(server.ended().exit, 0);
        eventually("the command ends", || processes_with_marker(&marker).is_empty());
    }
    before.assert_none_since();
}

#[test]
fn told_twice_it_ends_at_once() {
    let before = Leftovers::before();
    {
        let scene = scene();
        let server = impatient(&scene, "drain = '10h'\n");
        let (marker, _listening) = endless(&scene, &server);
        server.signal(Signal::TERM);
        eventually("it stops listening", || TcpStream::connect(server.address()).is_err());
        server.signal(Signal::TERM);
        assert_eq!(server.ended().exit, 0);
        eventually("the command ends", || processes_with_marker(&marker).is_empty());
    }
    before.assert_none_since();
}

/// A command that never ends by itself: its marker, and the client that listens on.
fn endless(scene: &Scene, server: &Server) -> (String, EventReader) {
    let key = server.key("ada", "operator");
    let marker = format!("endless-{}", scene.token);
    let body = json!({ "command": ["sh", "-c", "echo on; while :; do sleep 0.1; done", &marker], "timeout_ms": 600_000 });
    let mut events = server.events(&key, "/v1/run/stream", None, Some(&body));
    while events.next_event().expect("an event").name != "stdout" {}
    (marker, events)
}

#[test]
fn a_closed_terminal_ends_its_server() {
    // A session with a terminal of its own takes a program that can fork; the server tells python where it listens, and python
    // closes the terminal.
    const SCRIPT: &str = "
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
told = b''
while b'listening on' not in told:
    told += os.read(terminal, 4096)
os.close(terminal)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";
    let scene = scene();
    let ended = std::process::Command::new("python3")
        .args(["-c", SCRIPT])
        .arg(&ringfence_testing::Stage::get().ringfence)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .env("HOME", scene.home())
        .env("RINGFENCE_STATE_DIR", scene.state())
        .current_dir(scene.root())
        .output()
        .expect("python3 runs");
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}
