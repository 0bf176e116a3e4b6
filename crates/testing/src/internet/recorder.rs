//! Servers of the test internet that tell the test what reached them: one that greets and echoes, a mail server (which
//! speaks first), and an HTTP server that takes everything at its word. They are threads of the test process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{EVIL, EVIL_V6, Place};

/// Greets with `welcome to ADDRESS`, then says every line again. TCP on every address, UDP on two.
pub const ECHO_PORT: u16 = 4242;
pub const SMTP_PORT: u16 = 25;
/// Answers each request head with what it says; reads nothing but heads.
pub const RAW_HTTP_PORT: u16 = 8080;
/// Answers `GET /` with what it was told to, byte for byte.
pub const SCRIPTED_HTTP_PORT: u16 = 8081;

/// A connection, or a datagram, that arrived.
#[derive(Clone, Debug)]
pub struct Contact {
    /// Which of the other hosts was meant.
    pub at: IpAddr,
    pub port: u16,
    pub from: IpAddr,
    /// What it said so far.
    pub said: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
pub struct Recorder {
    contacts: Arc<Mutex<Vec<Contact>>>,
    script: Arc<Mutex<Vec<u8>>>,
}

impl Recorder {
    pub(super) fn start(place: &Place) -> Self {
        let recorder = Self::default();
        type Serve = fn(&Recorder, TcpStream, usize) -> std::io::Result<()>;
        let services: [(u16, Serve); 4] = [
            (ECHO_PORT, Self::echo),
            (SMTP_PORT, Self::mail),
            (RAW_HTTP_PORT, Self::raw_http),
            (SCRIPTED_HTTP_PORT, Self::scripted_http),
        ];
        for (port, serve) in services {
            // A wildcard IPv6 socket takes IPv4 too.
            let listener = place.within(|| TcpListener::bind(("::", port)).expect("bind a recorder"));
            let recorder = recorder.clone();
            place.stay("recorder", move || {
                for stream in listener.incoming().flatten() {
                    let recorder = recorder.clone();
                    std::thread::spawn(move || {
                        let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
                        if let Some(index) = recorder.note(&stream) {
                            let _ = serve(&recorder, stream, index);
                        }
                    });
                }
            });
        }
        for address in [EVIL, EVIL_V6] {
            let socket = place.within(|| UdpSocket::bind((address, ECHO_PORT)).expect("bind a recorder"));
            let recorder = recorder.clone();
            place.stay("recorder-udp", move || recorder.datagrams(&socket));
        }
        recorder
    }

    /// Whether any of these servers heard `words`.
    #[must_use]
    pub fn heard(&self, words: &str) -> bool {
        self.contacts().iter().any(|contact| holds(&contact.said, words.as_bytes()))
    }

    /// Everything that arrived.
    ///
    /// # Panics
    /// If a thread panicked while it held the list.
    #[must_use]
    pub fn contacts(&self) -> Vec<Contact> {
        self.contacts.lock().expect("the contacts").clone()
    }

    /// Forget what was said so far.
    ///
    /// # Panics
    /// If a thread panicked while it held the list.
    pub fn forget(&self) {
        for contact in self.contacts.lock().expect("the contacts").iter_mut() {
            contact.said.clear();
        }
    }

    /// What the scripted HTTP server answers from now on.
    ///
    /// # Panics
    /// If a thread panicked while it held the script.
    pub fn script(&self, answer: impl Into<Vec<u8>>) {
        *self.script.lock().expect("the script") = answer.into();
    }

    fn note(&self, stream: &TcpStream) -> Option<usize> {
        let (local, peer) = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
        Some(self.add(local, peer, Vec::new()))
    }

    fn add(&self, local: SocketAddr, peer: SocketAddr, said: Vec<u8>) -> usize {
        let mut contacts = self.contacts.lock().expect("the contacts");
        let (at, from) = (local.ip().to_canonical(), peer.ip().to_canonical());
        contacts.push(Contact { at, port: local.port(), from, said });
        contacts.len() - 1
    }

    fn hear(&self, index: usize, bytes: &[u8]) {
        self.contacts.lock().expect("the contacts")[index].said.extend(bytes);
    }

    fn echo(&self, mut stream: TcpStream, index: usize) -> std::io::Result<()> {
        let greeting = format!("welcome to {}\n", stream.local_addr()?.ip().to_canonical());
        stream.write_all(greeting.as_bytes())?;
        let mut bytes = [0; 65536];
        loop {
            let length = stream.read(&mut bytes)?;
            if length == 0 {
                return Ok(());
            }
            self.hear(index, &bytes[..length]);
            stream.write_all(&bytes[..length])?;
        }
    }

    fn mail(&self, mut stream: TcpStream, index: usize) -> std::io::Result<()> {
        stream.write_all(b"220 mail.test ESMTP\r\n")?;
        let mut lines = BufReader::new(stream.try_clone()?);
        let (mut line, mut in_data) = (Vec::new(), false);
        loop {
            line.clear();
            if lines.read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            self.hear(index, &line);
            let word = String::from_utf8_lossy(&line).to_ascii_uppercase();
            let answer: &[u8] = match word.trim_end() {
                "." if in_data => {
                    in_data = false;
                    b"250 taken\r\n"
                }
                _ if in_data => continue,
                "DATA" => {
                    in_data = true;
                    b"354 go on\r\n"
                }
                "QUIT" => {
                    stream.write_all(b"221 bye\r\n")?;
                    return Ok(());
                }
                _ => b"250 mail.test\r\n",
            };
            stream.write_all(answer)?;
        }
    }

    /// Whatever ends with an empty line counts as a request, bodies and smuggled ones too.
    fn raw_http(&self, mut stream: TcpStream, index: usize) -> std::io::Result<()> {
        let (mut bytes, mut pending) = ([0; 65536], Vec::new());
        loop {
            let length = stream.read(&mut bytes)?;
            if length == 0 {
                return Ok(());
            }
            self.hear(index, &bytes[..length]);
            pending.extend(&bytes[..length]);
            while let Some(end) = pending.windows(4).position(|window| window == b"\r\n\r\n") {
                let head: Vec<u8> = pending.drain(..end + 4).collect();
                let first = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
                let body = [b"seen: ", first, b"\n"].concat();
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len())?;
                stream.write_all(&body)?;
            }
        }
    }

    fn scripted_http(&self, mut stream: TcpStream, index: usize) -> std::io::Result<()> {
        let (mut bytes, mut head) = ([0; 65536], Vec::new());
        while !holds(&head, b"\r\n\r\n") {
            let length = stream.read(&mut bytes)?;
            if length == 0 {
                return Ok(());
            }
            self.hear(index, &bytes[..length]);
            head.extend(&bytes[..length]);
        }
        let answer = self.script.lock().expect("the script").clone();
        stream.write_all(&answer)
    }

    fn datagrams(&self, socket: &UdpSocket) {
        let mut bytes = [0; 65536];
        while let (Ok((length, from)), Ok(local)) = (socket.recv_from(&mut bytes), socket.local_addr()) {
            self.add(local, from, bytes[..length].to_vec());
            let _ = socket.send_to(format!("welcome to {}\n", local.ip()).as_bytes(), from);
        }
    }
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
