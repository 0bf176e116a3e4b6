//! A terminal over a WebSocket: by key and by ticket, with its size, its end, and every way to be refused.

use ringfence_testing::{Server, WebSocket, eventually};
use serde_json::{Value, json};

use crate::{sandbox, scene, server};

fn by_key(key: &str) -> [(&'static str, String); 1] {
    [("authorization", format!("Bearer {key}"))]
}

fn start(server: &Server<'_>, key: &str, at: &str, command: Value) -> WebSocket {
    let mut socket =
        WebSocket::connect(server, &format!("{at}/terminal"), &by_key(key)).expect("a WebSocket");
    socket.say(&json!({ "command": command, "rows": 30, "columns": 100 }));
    socket
}

fn started(socket: &mut WebSocket) {
    let (_, told) = socket.until_text();
    assert!(told.as_ref().is_some_and(|told| told["started"]["process"].is_u64()), "{told:?}");
}

/// Over TCP, or through a unix socket.
fn dialled(server: &Server<'_>, socket: Option<&std::path::PathBuf>, key: &str, at: &str) -> WebSocket {
    let to = format!("{at}/terminal");
    match socket {
        Some(socket) => WebSocket::connect_unix(socket, &to, &by_key(key)),
        None => WebSocket::connect(server, &to, &by_key(key)),
    }
    .expect("a WebSocket")
}

#[test]
fn a_shell_of_ones_own() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let at = sandbox(&server, &key, &json!({}));
    let mut socket = start(&server, &key, &at, json!(["sh"]));
    started(&mut socket);
    socket.write(b"stty size; test -t 0 && echo is-a-terminal\n");
    socket.until_shown("30 100\r\nis-a-terminal\r\n");
    socket.say(&json!({ "resize": { "rows": 50, "columns": 120 } }));
    socket.write(b"stty size\n");
    socket.until_shown("50 120\r\n");
    socket.write(b"sh -c 'trap \"exit 42\" INT; echo rea\"\"dy; while :; do sleep 0.1; done'; echo got-$?\n");
    socket.until_shown("ready\r\n");
    // Ctrl-C, as a terminal has it.
    socket.write(&[3]);
    socket.until_shown("got-42");
    socket.say(&json!({ "reboot": 1 }));
    let (_, told) = socket.until_text();
    assert!(told.is_some_and(|told| told["problem"].is_string()));
    socket.write(b"echo last; exit 7\n");
    let (shown, told) = socket.until_text();
    let exit = told.expect("an end");
    assert_eq!((&exit["exit"]["code"], shown.contains("last\r\n")), (&json!(7), true), "{exit} {shown}");
    let rows = server.ask(Some(&key), "GET", "/v1/audit?kind=exec", None).status(200).json();
    assert_eq!(rows["rows"][0]["result"]["exit_code"], 7, "{rows}");
    let _ = server.ask(Some(&key), "DELETE", &at, None).status(204);
}

#[test]
fn a_command_ends_with_its_connection() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let at = sandbox(&server, &key, &json!({}));
    let mut socket = start(&server, &key, &at, json!(["sh", "-c", "echo up; sleep 1000 & sleep 1000"]));
    started(&mut socket);
    socket.until_shown("up");
    drop(socket);
    eventually("the command has ended", || {
        let rows = server.ask(Some(&key), "GET", &format!("{at}/processes"), None).status(200).json();
        rows.as_array().into_iter().flatten().all(|row| row["gone"] == true)
    });
    let mut none = start(&server, &key, &at, json!(["no-such-program"]));
    let (_, told) = none.until_text();
    assert_eq!(told.expect("an end")["exit"]["code"], 127);
    let _ = server.ask(Some(&key), "DELETE", &at, None).status(204);
}

#[test]
fn every_way_to_be_refused() {
    let scene = scene();
    let server = server(&scene);
    let (ada, eve) = (server.key("ada", "operator"), server.key("eve", "operator"));
    let viewer = server.key("ada", "viewer");
    let (at, other) = (sandbox(&server, &ada, &json!({})), sandbox(&server, &ada, &json!({})));
    let path = format!("{at}/terminal");
    let connect = |path: &str, headers: &[(&str, String)]| WebSocket::connect(&server, path, headers).err();
    assert_eq!(connect(&path, &[]), Some(401));
    assert_eq!(connect(&path, &by_key("rf_wrong")), Some(401));
    assert_eq!(connect(&path, &by_key(&eve)), Some(404));
    assert_eq!(connect(&path, &by_key(&viewer)), Some(403));
    let origin = [by_key(&ada)[0].clone(), ("origin", "http://evil.example".to_owned())];
    assert_eq!(connect(&path, &origin), Some(421));
    server.ask(Some(&ada), "GET", &path, None).refused(400, "bad_request");
    // Tickets: one sandbox, one use, no more than its maker may.
    let ticket = |key: &str, at: &str| {
        let path = format!("{at}/terminal/ticket");
        server.ask(Some(key), "POST", &path, Some(&json!({})))
    };
    ticket(&eve, &at).refused(404, "not_found");
    ticket(&viewer, &at).refused(403, "forbidden");
    let new = || ticket(&ada, &at).status(200).json()["ticket"].as_str().expect("a ticket").to_owned();
    assert_eq!(connect(&format!("{path}?ticket=wrong"), &[]), Some(401));
    assert_eq!(connect(&format!("{other}/terminal?ticket={}", new()), &[]), Some(401));
    let once = new();
    let evil = [("origin", "http://evil.example".to_owned())];
    assert_eq!(connect(&format!("{path}?ticket={once}"), &evil), Some(421));
    let own = [("origin", format!("http://{}", server.address()))];
    let mut socket =
        WebSocket::connect(&server, &format!("{path}?ticket={once}"), &own).expect("a WebSocket");
    assert_eq!(connect(&format!("{path}?ticket={once}"), &own), Some(401), "it was used");
    assert_eq!(connect(&format!("/v1/me?ticket={}", new()), &[]), Some(401), "it is for a terminal");
    socket.say(&json!({ "command": ["echo", "hi"] }));
    started(&mut socket);
    let (shown, told) = socket.until_text();
    assert_eq!((shown.as_str(), &told.expect("an end")["exit"]["code"]), ("hi\r\n", &json!(0)));
    for wrong in [json!({}), json!({ "command": [] }), json!({ "command": ["a"], "unknown": 1 }), json!("x")]
    {
        let mut socket = WebSocket::connect(&server, &path, &by_key(&ada)).expect("a WebSocket");
        socket.say(&wrong);
        let (_, told) = socket.until_text();
        assert_eq!(told.expect("an error")["error"]["code"], "bad_request", "{wrong}");
    }
    for at in [&at, &other] {
        let _ = server.ask(Some(&ada), "DELETE", at, None).status(204);
    }
}

/// Every byte is there before the end is told, however the client is connected, and also when what it typed was not read.
#[test]
fn the_last_output_comes_before_the_end() {
    const MUCH: usize = 1 << 20;
    let scene = scene();
    let path = scene.path("socket");
    let socket = path.display().to_string();
    let server = Server::start(&scene, ["--socket", &socket]);
    let key = server.key("ada", "operator");
    let at = sandbox(&server, &key, &json!({}));
    let script = format!("head -c {MUCH} /dev/zero | tr '\\0' x; exit 7");
    for round in 0..20 {
        for over_unix in [false, true] {
            let mut socket = dialled(&server, over_unix.then_some(&path), &key, &at);
            socket.say(&json!({ "command": ["sh", "-c", script] }));
            if round % 2 == 1 {
                // Nobody reads it: it must not cost the other direction anything.
                (0..64).for_each(|_| socket.write(&[b'y'; 4096]));
            }
            started(&mut socket);
            let (shown, told) = socket.until_text();
            let all = shown.bytes().filter(|byte| *byte == b'x').count();
            let code = told.as_ref().map(|told| &told["exit"]["code"]);
            assert_eq!((all, code), (MUCH, Some(&json!(7))), "round {round}, unix {over_unix}: {told:?}");
            assert_eq!(socket.next_frame(), ringfence_testing::Frame::Close);
        }
    }
    let _ = server.ask(Some(&key), "DELETE", &at, None).status(204);
}

/// A command that has closed its terminal is not hung up on: it ends as it wants to, and may open the terminal again.
#[test]
fn a_command_that_lets_go_of_its_terminal_lives_on() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let at = sandbox(&server, &key, &json!({}));
    let script = "exec <&- >&- 2>&-; sleep 0.5; echo again >/dev/tty; sleep 0.5; exit 7";
    let mut socket = start(&server, &key, &at, json!(["sh", "-c", script]));
    started(&mut socket);
    let (shown, told) = socket.until_text();
    let code = told.as_ref().map(|told| &told["exit"]["code"]);
    assert_eq!((shown.as_str(), code), ("again\r\n", Some(&json!(7))), "{told:?}");
    let _ = server.ask(Some(&key), "DELETE", &at, None).status(204);
}

/// A client that has typed more than anybody read, and reads only when the server has said its last word: a connection that is
/// closed over unread bytes takes back what it was sent last.
#[test]
fn what_nobody_read_takes_nothing_back() {
    let scene = scene();
    let path = scene.path("socket");
    let socket = path.display().to_string();
    let server = Server::start(&scene, ["--socket", &socket]);
    let key = server.key("ada", "operator");
    let at = sandbox(&server, &key, &json!({}));
    let ended = |number: usize| {
        let rows = server.ask(Some(&key), "GET", "/v1/audit?kind=exec&limit=1000", None).status(200).json();
        rows["rows"].as_array().map(Vec::len) == Some(number)
    };
    for (number, (over_unix, much)) in [(false, 200_000), (true, 60_000)].repeat(5).into_iter().enumerate() {
        let mut socket = dialled(&server, over_unix.then_some(&path), &key, &at);
        let script = format!("stty -echo raw; echo up; head -c {much} /dev/zero | tr '\\0' x; exit 7");
        socket.say(&json!({ "command": ["sh", "-c", script] }));
        started(&mut socket);
        socket.until_shown("up");
        (0..40).for_each(|_| socket.write(&[b'y'; 4096]));
        eventually("the command has ended", || ended(number + 1));
        let (shown, told) = socket.until_text();
        let all = shown.bytes().filter(|byte| *byte == b'x').count();
        let code = told.as_ref().map(|told| &told["exit"]["code"]);
        assert_eq!((all > much - 4096, code), (true, Some(&json!(7))), "unix {over_unix}: {all} {told:?}");
    }
    let _ = server.ask(Some(&key), "DELETE", &at, None).status(204);
}
