//! A server under test: the real `ringfence serve` in a scene, on a loopback port of its own, and a small client.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::{Running, Scene, Test, eventually};

/// Far beyond what any answer takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server of a scene; ended when dropped.
#[derive(Debug)]
pub struct Server<'a> {
    scene: &'a Scene,
    running: Option<Running>,
    address: SocketAddr,
    first_url: Option<String>,
}

/// What came back.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// One Server-Sent Event.
#[derive(Clone, Debug, PartialEq)]
pub struct SentEvent {
    pub id: Option<String>,
    pub name: String,
    pub data: Value,
}

/// An answer that is still being given.
#[derive(Debug)]
pub struct EventReader {
    pub status: u16,
    reader: BufReader<TcpStream>,
    chunk: usize,
}

impl<'a> Server<'a> {
    /// Start it and wait until it listens.
    ///
    /// # Panics
    /// If it does not.
    #[must_use]
    #[track_caller]
    pub fn start<S: Into<OsString>>(scene: &'a Scene, flags: impl IntoIterator<Item = S>) -> Self {
        Self::start_in(scene, flags, &scene.state())
    }

    /// The same with variables of its own.
    ///
    /// # Panics
    /// If it does not listen.
    #[must_use]
    #[track_caller]
    pub fn start_with<S: Into<OsString>>(
        scene: &'a Scene,
        flags: impl IntoIterator<Item = S>,
        environment: &[(&str, &str)],
    ) -> Self {
        let test =
            environment.iter().fold(Test::in_scene(scene), |test, (name, value)| test.env(name, value));
        Self::of(scene, test, flags)
    }

    /// The same with a state directory of its own.
    ///
    /// # Panics
    /// If it does not listen.
    #[must_use]
    #[track_caller]
    pub fn start_in<S: Into<OsString>>(
        scene: &'a Scene,
        flags: impl IntoIterator<Item = S>,
        state: &std::path::Path,
    ) -> Self {
        Self::of(scene, Test::in_scene(scene).state(state), flags)
    }

    #[track_caller]
    fn of<S: Into<OsString>>(scene: &'a Scene, test: Test, flags: impl IntoIterator<Item = S>) -> Self {
        let told = scene.path(&format!("told-{}", unique()));
        let out = File::create(&told).expect("a file for what the server tells");
        let mut running = test
            .verb(["serve"])
            .args(["--json", "--listen", "127.0.0.1:0"])
            .args(flags)
            .stdout_file(out)
            .spawn_call();
        let mut text = String::new();
        eventually("the server listens", || {
            if running.has_ended() {
                return true;
            }
            text = std::fs::read_to_string(&told).unwrap_or_default();
            text.ends_with('\n')
        });
        if running.has_ended() {
            panic!("the server did not start: {}", running.wait().describe());
        }
        let told: Value = serde_json::from_str(&text).expect("what the server tells is JSON");
        let address =
            told["addresses"][0].as_str().and_then(|url| url.split_once("://")).map(|(_, rest)| rest);
        Self {
            scene,
            running: Some(running),
            address: address.expect("an address").parse().expect("an address and port"),
            first_url: told["first_url"].as_str().map(str::to_owned),
        }
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL with the one-time token of a first start.
    #[must_use]
    pub fn first_url(&self) -> Option<&str> {
        self.first_url.as_deref()
    }

    /// The pid of the server.
    ///
    /// # Panics
    /// If it was ended.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.running.as_ref().expect("a server").pid()
    }

    /// A key made by the command line, as whoever owns the state directory can.
    ///
    /// # Panics
    /// If it can't be made.
    #[must_use]
    #[track_caller]
    pub fn key(&self, user: &str, role: &str) -> String {
        let outcome =
            Test::in_scene(self.scene).verb(["key", "create", "--user", user, "--role", role]).call();
        assert_eq!(outcome.exit, 0, "no key\n{}", outcome.describe());
        outcome.output.trim().to_owned()
    }

    /// One request, whole.
    ///
    /// # Panics
    /// If there is no answer.
    #[must_use]
    #[track_caller]
    pub fn ask(&self, key: Option<&str>, method: &str, path: &str, body: Option<&Value>) -> Reply {
        let body = body.map(Value::to_string);
        let kind = body.as_ref().map(|_| "application/json");
        self.ask_bytes(key, method, path, kind, body.unwrap_or_default().as_bytes())
    }

    /// The same with any bytes.
    ///
    /// # Panics
    /// If there is no answer.
    #[must_use]
    #[track_caller]
    pub fn ask_bytes(
        &self,
        key: Option<&str>,
        method: &str,
        path: &str,
        kind: Option<&str>,
        body: &[u8],
    ) -> Reply {
        let mut headers = Vec::new();
        headers.extend(key.map(|key| ("authorization", format!("Bearer {key}"))));
        headers.extend(kind.map(|kind| ("content-type", kind.to_owned())));
        self.ask_raw(method, path, &headers, body)
    }

    /// The same with any headers; `host` and `content-length` are added where they are missing.
    ///
    /// # Panics
    /// If there is no answer.
    #[must_use]
    #[track_caller]
    pub fn ask_raw(&self, method: &str, path: &str, headers: &[(&str, String)], body: &[u8]) -> Reply {
        let stream = self.send(method, path, headers, body, "close");
        let mut reader = BufReader::new(stream);
        let (status, headers) = head(&mut reader);
        let mut raw = Vec::new();
        reader.read_to_end(&mut raw).expect("the body of an answer");
        let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let body = if chunked { dechunked(&raw) } else { raw };
        Reply { status, headers, body }
    }

    /// A request whose answer is a stream of events.
    ///
    /// # Panics
    /// If there is no answer.
    #[must_use]
    #[track_caller]
    pub fn events(&self, key: &str, path: &str, last: Option<&str>, body: Option<&Value>) -> EventReader {
        let mut headers = vec![("authorization", format!("Bearer {key}"))];
        headers.extend(last.map(|last| ("last-event-id", last.to_owned())));
        headers.extend(body.map(|_| ("content-type", "application/json".to_owned())));
        let body = body.map(Value::to_string).unwrap_or_default();
        let stream = self.send("POST", path, &headers, body.as_bytes(), "keep-alive");
        let mut reader = BufReader::new(stream);
        let (status, _) = head(&mut reader);
        EventReader { status, reader, chunk: 0 }
    }

    /// A request whose answer nobody reads yet: dropping it is going away.
    ///
    /// # Panics
    /// If the server can't be reached.
    #[must_use]
    #[track_caller]
    pub fn open_raw(&self, method: &str, path: &str, headers: &[(&str, String)], body: &[u8]) -> TcpStream {
        self.send(method, path, headers, body, "keep-alive")
    }

    /// A stream of events that is only listened to.
    ///
    /// # Panics
    /// If there is no answer.
    #[must_use]
    #[track_caller]
    pub fn listen(&self, key: &str, path: &str, last: Option<&str>) -> EventReader {
        let mut headers = vec![("authorization", format!("Bearer {key}"))];
        headers.extend(last.map(|last| ("last-event-id", last.to_owned())));
        self.listen_raw("GET", path, &headers, b"")
    }

    /// The same to whatever request.
    ///
    /// # Panics
    /// If there is no answer.
    #[must_use]
    #[track_caller]
    pub fn listen_raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, String)],
        body: &[u8],
    ) -> EventReader {
        let mut reader = BufReader::new(self.send(method, path, headers, body, "keep-alive"));
        let (status, _) = head(&mut reader);
        EventReader { status, reader, chunk: 0 }
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, String)],
        body: &[u8],
        connection: &str,
    ) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).expect("connect to the server");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut text = format!("{method} {path} HTTP/1.1\r\nconnection: {connection}\r\n");
        let given = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        if !given("host") {
            text.push_str(&format!("host: {}\r\n", self.address));
        }
        if !given("content-length") && !given("transfer-encoding") {
            text.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        stream.write_all(text.as_bytes()).expect("send the request");
        // A server that has refused already may not read the rest.
        let _ = stream.write_all(body);
        stream
    }

    /// SIGKILL, and wait until it is gone.
    pub fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.signal(Signal::KILL);
            let _ = running.wait();
        }
    }

    /// A signal, and go on.
    ///
    /// # Panics
    /// If it was ended already.
    pub fn signal(&self, signal: Signal) {
        self.running.as_ref().expect("a server").signal(signal);
    }

    /// Wait for its end, after a signal or by itself, and what it said.
    ///
    /// # Panics
    /// If it was ended already, or does not end.
    #[must_use]
    pub fn ended(mut self) -> crate::Outcome {
        self.running.take().expect("a server").wait()
    }

    /// SIGTERM, and what it said.
    ///
    /// # Panics
    /// If it was ended already.
    #[must_use]
    pub fn stop(mut self) -> crate::Outcome {
        let running = self.running.take().expect("a server");
        running.signal(Signal::TERM);
        running.wait()
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.signal(Signal::TERM);
            let _ = running.wait();
        }
    }
}

pub(crate) fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

fn head(reader: &mut BufReader<TcpStream>) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    reader.read_line(&mut line).expect("a status line");
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no status in {line:?}"));
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a header");
        let Some((name, value)) = line.trim_end().split_once(':') else { return (status, headers) };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

fn dechunked(mut raw: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = raw.windows(2).position(|pair| pair == b"\r\n") {
        let size =
            std::str::from_utf8(&raw[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let size = size.expect("the size of a chunk");
        raw = &raw[end + 2..];
        if size == 0 {
            break;
        }
        whole.extend_from_slice(&raw[..size]);
        raw = &raw[size + 2..];
    }
    whole
}

impl Reply {
    /// # Panics
    /// If it is no JSON.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// # Panics
    /// If the status is another.
    #[track_caller]
    pub fn status(self, expected: u16) -> Self {
        assert_eq!(self.status, expected, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    /// An error of the one shape, with this status and code.
    ///
    /// # Panics
    /// If it is none.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Self {
        let reply = self.status(status);
        let body = reply.json();
        assert_eq!(body["error"]["code"], code, "{body}");
        for field in ["message", "hint", "request_id"] {
            assert!(body["error"][field].as_str().is_some_and(|text| !text.is_empty()), "no {field}: {body}");
        }
        assert_eq!(body["error"]["request_id"].as_str(), reply.header("x-request-id"));
        reply
    }
}

impl EventReader {
    /// The next event; `None` at the end of the stream.
    ///
    /// # Panics
    /// If it is none.
    pub fn next_event(&mut self) -> Option<SentEvent> {
        let mut event = SentEvent { id: None, name: String::new(), data: Value::Null };
        let mut empty = true;
        loop {
            let line = self.line()?;
            match line.split_once(':') {
                _ if line.is_empty() && empty => {}
                _ if line.is_empty() => return Some(event),
                Some(("", _)) => {}
                Some((field, value)) => {
                    empty = false;
                    let value = value.trim_start();
                    match field {
                        "id" => event.id = Some(value.to_owned()),
                        "event" => event.name = value.to_owned(),
                        "data" => event.data = serde_json::from_str(value).expect("data is JSON"),
                        _ => {}
                    }
                }
                None => {}
            }
        }
    }

    /// All that are left.
    #[must_use]
    pub fn rest(mut self) -> Vec<SentEvent> {
        std::iter::from_fn(|| self.next_event()).collect()
    }

    fn line(&mut self) -> Option<String> {
        let mut bytes = Vec::new();
        loop {
            match self.byte()? {
                b'\n' => return Some(String::from_utf8_lossy(&bytes).into_owned()),
                byte => bytes.push(byte),
            }
        }
    }

    fn byte(&mut self) -> Option<u8> {
        if self.chunk == 0 {
            let mut line = String::new();
            self.reader.read_line(&mut line).ok()?;
            if line.trim().is_empty() {
                line.clear();
                self.reader.read_line(&mut line).ok()?;
            }
            self.chunk = usize::from_str_radix(line.trim(), 16).ok().filter(|size| *size > 0)?;
        }
        let mut byte = [0];
        self.reader.read_exact(&mut byte).ok()?;
        self.chunk -= 1;
        Some(byte[0])
    }
}

/// Where a server keeps its database.
#[must_use]
pub fn database(scene: &Scene) -> PathBuf {
    scene.state().join("server.db")
}
