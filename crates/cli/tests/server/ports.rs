//! Ports of sandboxes, through the server: what goes in, what comes out, and who gets there.

use ringfence_testing::{Frame, Server, WebSocket, eventually};
use serde_json::{Value, json};

use crate::{sandbox, scene, server};

/// Answers with what it was sent, and with what it should not be able to say.
const INSIDE: &str = r#"
import http.server
class Echo(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        text = f"{self.command} {self.path}\n" + "".join(f"{k.lower()}: {v}\n" for k, v in self.headers.items())
        data = text.encode() + body
        self.send_response(418)
        self.send_header("set-cookie", "session=evil")
        self.send_header("access-control-allow-origin", "*")
        self.send_header("content-security-policy", "default-src *")
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(data)))
        self.send_header("x-mine", "kept")
        self.end_headers()
        self.wfile.write(data)
    do_GET = do_POST = do_PUT = do_DELETE = answer
    def log_message(self, *args): pass
http.server.HTTPServer(("127.0.0.1", 8765), Echo).serve_forever()
"#;

#[test]
fn what_listens_inside_is_reached_with_a_key_only() {
    let scene = scene();
    let server = server(&scene);
    let (ada, eve) = (server.key("ada", "operator"), server.key("eve", "operator"));
    let viewer = server.key("ada", "viewer");
    let at = sandbox(&server, &ada, &json!({}));
    let start = json!({ "command": ["python3", "-c", INSIDE] });
    let _ = server.ask(Some(&ada), "POST", &format!("{at}/processes"), Some(&start)).status(201);
    let through = format!("{at}/ports/8765/http");
    server.ask(Some(&ada), "GET", &format!("{through}/"), None).refused(404, "not_found");
    let show = |key: &str, port: u32| {
        server.ask(Some(key), "POST", &format!("{at}/ports"), Some(&json!({ "port": port })))
    };
    show(&eve, 8765).refused(404, "not_found");
    show(&viewer, 8765).refused(403, "forbidden");
    show(&ada, 0).refused(400, "bad_body");
    show(&ada, 70_000).refused(400, "bad_body");
    let told = show(&ada, 8765).status(201).json();
    assert_eq!(told["path"], format!("{through}/"));
    eventually("it listens", || server.ask(Some(&ada), "GET", &format!("{through}/"), None).status == 418);
    let headers = [
        ("authorization", format!("Bearer {ada}")),
        ("cookie", "a=b".to_owned()),
        ("x-asked", "yes".to_owned()),
    ];
    let reply = server.ask_raw("POST", &format!("{through}/a%2Fb/../c?d=e"), &headers, b"body").status(418);
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    assert!(text.starts_with("POST /a%2Fb/../c?d=e\n") && text.ends_with("body"), "{text}");
    assert!(text.contains("x-asked: yes") && text.contains("host: localhost:8765"), "{text}");
    assert!(!text.contains(&ada) && !text.contains("cookie"), "no key goes in: {text}");
    assert_eq!(reply.header("x-mine"), Some("kept"));
    assert_eq!((reply.header("set-cookie"), reply.header("access-control-allow-origin")), (None, None));
    assert!(reply.header("content-security-policy").is_some_and(|policy| policy.starts_with("sandbox")));
    // Others, other ports, and the server's own loopback.
    for key in [&eve, &viewer] {
        let reply = server.ask(Some(key), "GET", &format!("{through}/"), None);
        assert!(matches!(reply.status, 403 | 404), "{}", reply.status);
    }
    server.ask(None, "GET", &format!("{through}/"), None).refused(401, "unauthenticated");
    let _ = show(&ada, u32::from(server.address().port())).status(201);
    let own = format!("{at}/ports/{}/http/healthz", server.address().port());
    server.ask(Some(&ada), "GET", &own, None).refused(502, "no_answer");
    let listed = server.ask(Some(&ada), "GET", &format!("{at}/ports"), None).status(200).json();
    assert_eq!(listed["ports"].as_array().map(Vec::len), Some(2), "{listed}");
    let _ = server.ask(Some(&ada), "DELETE", &format!("{at}/ports/8765"), None).status(204);
    server.ask(Some(&ada), "DELETE", &format!("{at}/ports/8765"), None).refused(404, "not_found");
    server.ask(Some(&ada), "GET", &format!("{through}/"), None).refused(404, "not_found");
    let _ = server.ask(Some(&ada), "DELETE", &at, None).status(204);
}

/// A WebSocket server of few lines: says as JSON what it was asked with, then sends every message back, and more where it is told.
const ECHO: &str = r#"
import base64, hashlib, json, socket, socketserver, struct
class Echo(socketserver.StreamRequestHandler):
    def frame(self, kind, data):
        size = len(data)
        head = bytes([0x80 | kind]) + (bytes([size]) if size < 126 else b"\x7e" + struct.pack(">H", size) if size < 65536 else b"\x7f" + struct.pack(">Q", size))
        self.wfile.write(head + data)
    def handle(self):
        first = self.rfile.readline().decode().split()
        headers = {}
        while (line := self.rfile.readline().decode().strip()):
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        if "sec-websocket-key" not in headers:
            self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n" if "/forged" in first[1] else b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno")
            return
        accept = base64.b64encode(hashlib.sha1((headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        self.wfile.write(("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSet-Cookie: a=evil\r\nSec-WebSocket-Accept: " + accept + "\r\n\r\n").encode())
        self.frame(1, json.dumps({"path": first[1], "headers": headers}).encode())
        while (head := self.rfile.read(2)) and len(head) == 2:
            size = head[1] & 0x7f
            if size == 126: size = struct.unpack(">H", self.rfile.read(2))[0]
            mask = self.rfile.read(4)
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(size)))
            if head[0] & 15 == 8: return
            if data == b"much":
                self.frame(2, b"z" * (4 << 20))
                # Closed over unread bytes, its own kernel would take back what is not yet read of that.
                self.connection.shutdown(socket.SHUT_WR)
                self.rfile.read()
                return
            self.frame(head[0] & 15, data)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
Server(("127.0.0.1", 8766), Echo).serve_forever()
"#;

fn by_key(key: &str) -> [(&'static str, String); 1] {
    [("authorization", format!("Bearer {key}"))]
}

/// A sandbox with that server on a shown port; the sandbox's path, and the port's.
fn with_echo(server: &Server<'_>, key: &str) -> (String, String) {
    let at = sandbox(server, key, &json!({}));
    let start = json!({ "command": ["python3", "-c", ECHO] });
    let _ = server.ask(Some(key), "POST", &format!("{at}/processes"), Some(&start)).status(201);
    let _ = server.ask(Some(key), "POST", &format!("{at}/ports"), Some(&json!({ "port": 8766 }))).status(201);
    let through = format!("{at}/ports/8766/http");
    eventually("it listens", || server.ask(Some(key), "GET", &format!("{through}/"), None).status == 200);
    (at, through)
}

fn asked_with(socket: &mut WebSocket) -> Value {
    match socket.next_frame() {
        Frame::Text(value) => value,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_websocket_goes_both_ways_and_only_for_its_owner() {
    let scene = scene();
    let server = server(&scene);
    let (ada, eve) = (server.key("ada", "operator"), server.key("eve", "operator"));
    let viewer = server.key("ada", "viewer");
    let (at, through) = with_echo(&server, &ada);
    let path = format!("{through}/a%2Fb?c=d&ticket=none");
    let headers =
        [by_key(&ada)[0].clone(), ("cookie", "a=b".to_owned()), ("sec-fetch-site", "none".to_owned())];
    let mut socket = WebSocket::connect(&server, &path, &headers).expect("a WebSocket");
    let asked = asked_with(&mut socket);
    assert_eq!(
        (&asked["path"], &asked["headers"]["host"]),
        (&json!("/a%2Fb?c=d"), &json!("localhost:8766")),
        "{asked}"
    );
    let text = asked.to_string();
    assert!(!text.contains(&ada) && !text.contains("cookie") && !text.contains("sec-fetch"), "{text}");
    socket.say(&json!({ "said": "hello" }));
    assert_eq!(socket.next_frame(), Frame::Text(json!({ "said": "hello" })));
    socket.write(&[7; 60_000]);
    assert_eq!(socket.next_frame(), Frame::Binary(vec![7; 60_000]));
    // The last that is said comes whole, also over what nobody reads any more.
    socket.write(b"much");
    socket.write(&[8; 60_000]);
    assert_eq!(socket.next_frame(), Frame::Binary(vec![b'z'; 4 << 20]));
    assert_eq!(socket.next_frame(), Frame::Close);
    // Who may not, may not.
    let connect = |path: &str, headers: &[(&str, String)]| WebSocket::connect(&server, path, headers).err();
    let path = format!("{through}/");
    assert_eq!(connect(&path, &[]), Some(401));
    assert_eq!(connect(&path, &by_key("rf_wrong")), Some(401));
    assert_eq!(connect(&path, &by_key(&eve)), Some(404));
    assert_eq!(connect(&path, &by_key(&viewer)), Some(403));
    let evil = [by_key(&ada)[0].clone(), ("origin", "http://evil.example".to_owned())];
    assert_eq!(connect(&path, &evil), Some(421));
    assert_eq!(connect(&format!("{at}/ports/8767/http/"), &by_key(&ada)), Some(404));
    // Tickets: for one WebSocket to this port, and for nothing else.
    let ticket =
        |key: &str, port: u16| server.ask(Some(key), "POST", &format!("{at}/ports/{port}/ticket"), None);
    ticket(&eve, 8766).refused(404, "not_found");
    ticket(&viewer, 8766).refused(403, "forbidden");
    ticket(&ada, 8767).refused(404, "not_found");
    let new = || ticket(&ada, 8766).status(200).json()["ticket"].as_str().expect("a ticket").to_owned();
    let own = [("origin", format!("http://{}", server.address()))];
    let once = new();
    assert_eq!(
        connect(&format!("{path}?ticket={once}"), &[("origin", "http://evil.example".to_owned())]),
        Some(421)
    );
    let mut socket =
        WebSocket::connect(&server, &format!("{path}x?ticket={once}&e=f"), &own).expect("a WebSocket");
    let asked = asked_with(&mut socket);
    assert!(asked["path"] == "/x?e=f" && !asked.to_string().contains(&once), "{asked}");
    assert_eq!(connect(&format!("{path}?ticket={once}"), &own), Some(401), "it was used");
    assert_eq!(connect(&format!("{at}/terminal?ticket={}", new()), &own), Some(401), "it is for a port");
    server.ask(None, "GET", &format!("{path}?ticket={}", new()), None).refused(401, "unauthenticated");
    // What only looks like an agreement is none.
    server.ask(Some(&ada), "GET", &format!("{path}forged"), None).status(502);
    // It ends with its sandbox.
    let _ = server.ask(Some(&ada), "DELETE", &at, None).status(204);
    assert_eq!(socket.next_frame(), Frame::Close);
}

#[test]
fn websockets_are_bounded_and_end_with_the_server() {
    let scene = scene();
    // What listens inside is one of the three.
    scene.write("server.toml", "[roles.operator.quotas]\ncommands = 3\n");
    let config = scene.path("server.toml").display().to_string();
    let server = Server::start(&scene, ["--config", &config]);
    let key = server.key("ada", "operator");
    let (at, through) = with_echo(&server, &key);
    let connect = || WebSocket::connect(&server, &format!("{through}/"), &by_key(&key));
    let mut first = connect().expect("a WebSocket");
    let mut second = connect().expect("a WebSocket");
    let _ = (asked_with(&mut first), asked_with(&mut second));
    assert_eq!(connect().err(), Some(429));
    drop(second);
    let mut third = None;
    eventually("a place is free again", || {
        third = connect().ok();
        third.is_some()
    });
    let _ = asked_with(third.as_mut().expect("a WebSocket"));
    drop(third);
    eventually("it can be removed", || {
        server.ask(Some(&key), "POST", "/v1/run", Some(&json!({ "command": ["true"] }))).status == 200
    });
    // The sandbox lives on, the server does not: whoever is connected is told.
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(first.next_frame(), Frame::Close);
    drop(first);
    let outcome = server.ended();
    assert_eq!(outcome.exit, 0, "{}", outcome.describe());
    let again = Server::start(&scene, ["--config", &config]);
    let _ = again.ask(Some(&key), "DELETE", &at, None).status(204);
}
