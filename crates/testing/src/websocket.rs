//! A small WebSocket client for tests: one connection, whole messages, no extension.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::Server;

const PATIENCE: Duration = Duration::from_secs(60);

/// How many pings in a row are borne: a minute and more.
const QUIET: usize = 4;

/// What a server sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    Text(Value),
    Binary(Vec<u8>),
    Close,
}

/// What a connection is made of.
trait Wire: Read + Write + std::fmt::Debug {}

impl<T: Read + Write + std::fmt::Debug> Wire for T {}

#[derive(Debug)]
pub struct WebSocket {
    reader: BufReader<Box<dyn Wire>>,
}

impl WebSocket {
    /// Ask for a WebSocket; the status where that is refused.
    ///
    /// # Panics
    /// If there is no answer.
    pub fn connect(server: &Server<'_>, path: &str, headers: &[(&str, String)]) -> Result<Self, u16> {
        let stream = TcpStream::connect(server.address()).expect("connect to the server");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self::over(Box::new(stream), &server.address().to_string(), path, headers)
    }

    /// The same through a unix socket.
    ///
    /// # Panics
    /// If there is no answer.
    pub fn connect_unix(socket: &Path, path: &str, headers: &[(&str, String)]) -> Result<Self, u16> {
        let stream = UnixStream::connect(socket).expect("connect to the server");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self::over(Box::new(stream), "localhost", path, headers)
    }

    fn over(
        mut stream: Box<dyn Wire>,
        host: &str,
        path: &str,
        headers: &[(&str, String)],
    ) -> Result<Self, u16> {
        let mut text = format!(
            "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        );
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        stream.write_all(text.as_bytes()).expect("send the request");
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).expect("a status line");
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        while !line.trim().is_empty() {
            line.clear();
            reader.read_line(&mut line).expect("a header");
        }
        if status == 101 { Ok(Self { reader }) } else { Err(status) }
    }

    /// # Panics
    /// If it can't be sent.
    pub fn say(&mut self, value: &Value) {
        self.send(1, value.to_string().as_bytes());
    }

    /// # Panics
    /// If it can't be sent.
    pub fn write(&mut self, bytes: &[u8]) {
        self.send(2, bytes);
    }

    fn send(&mut self, kind: u8, bytes: &[u8]) {
        let mut frame = vec![0x80 | kind];
        match u16::try_from(bytes.len()).expect("a short message") {
            length @ ..=125 => frame.push(0x80 | length as u8),
            length => {
                frame.push(0x80 | 126);
                frame.extend(length.to_be_bytes());
            }
        }
        // A mask of zeros is a mask.
        frame.extend([0; 4]);
        frame.extend(bytes);
        self.reader.get_mut().write_all(&frame).expect("send a message");
    }

    /// The next message but for pings; `Close` too where the connection is closed.
    ///
    /// # Panics
    /// If what comes is no message.
    pub fn next_frame(&mut self) -> Frame {
        // The server pings: without this, a test that waits for what never comes would wait for ever.
        for _ in 0..QUIET {
            let mut head = [0; 2];
            if self.reader.read_exact(&mut head).is_err() {
                return Frame::Close;
            }
            let length = match head[1] & 0x7f {
                126 => {
                    let mut more = [0; 2];
                    self.reader.read_exact(&mut more).expect("a length");
                    u64::from(u16::from_be_bytes(more))
                }
                127 => {
                    let mut more = [0; 8];
                    self.reader.read_exact(&mut more).expect("a length");
                    u64::from_be_bytes(more)
                }
                short => u64::from(short),
            };
            let mut bytes = vec![0; usize::try_from(length).expect("a length")];
            self.reader.read_exact(&mut bytes).expect("a message");
            match head[0] & 0x0f {
                1 => return Frame::Text(serde_json::from_slice(&bytes).expect("text is JSON")),
                2 => return Frame::Binary(bytes),
                8 => return Frame::Close,
                _ => {}
            }
        }
        panic!("nothing but pings");
    }

    /// What is shown until the next text message, and that one; `None` where the connection is closed instead.
    pub fn until_text(&mut self) -> (String, Option<Value>) {
        let mut shown = Vec::new();
        let text = loop {
            match self.next_frame() {
                Frame::Binary(bytes) => shown.extend(bytes),
                Frame::Text(value) => break Some(value),
                Frame::Close => break None,
            }
        };
        (String::from_utf8_lossy(&shown).into_owned(), text)
    }

    /// What is shown, until it holds `wanted`.
    ///
    /// # Panics
    /// If it ends before that.
    pub fn until_shown(&mut self, wanted: &str) -> String {
        let mut shown = Vec::new();
        loop {
            match self.next_frame() {
                Frame::Binary(bytes) => shown.extend(bytes),
                other => panic!("{other:?} before {wanted:?} in {:?}", String::from_utf8_lossy(&shown)),
            }
            let text = String::from_utf8_lossy(&shown);
            if text.contains(wanted) {
                return text.into_owned();
            }
        }
    }
}
