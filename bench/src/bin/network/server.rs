//! The server: `GET /N` gives N bytes from memory, in clear and over TLS.
//!
//! Its threads wait in `accept` from the start, one for each connection at one time, so that a direct connection costs as
//! little as it can: it is what everything else is held against.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use ringfence_linux::set_limit;
use rustix::process::{Resource, getrlimit};
use rustls::{ServerConnection, StreamOwned};

use crate::certificates::Certificates;
use crate::measure::CROWD;
use crate::place::listen_there;

pub(crate) const CLEAR_PORT: u16 = 8080;
pub(crate) const TLS_PORT: u16 = 8443;
/// What a request to the host with the secret must carry; a sandbox has only a placeholder for it.
pub(crate) const SECRET: &str = "the-secret-of-the-network-bench";

const THREADS: usize = CROWD + 64;
const STACK: usize = 256 << 10;
const BACKLOG: i32 = 4096;
const MOST_HEAD: usize = 16 << 10;
static BODY: [u8; 256 << 10] = [b'r'; 256 << 10];

/// Both ports, until the process ends.
pub(crate) fn start(certificates: Certificates) -> Result<()> {
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(1 << 20);
    set_limit(Resource::Nofile, most).context("cannot raise the limit of open files")?;
    listen(CLEAR_PORT, |mut stream| serve(&mut stream))?;
    let config = certificates.server;
    listen(TLS_PORT, move |stream| {
        let session = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(session, stream);
        serve(&mut stream)?;
        stream.conn.send_close_notify();
        stream.flush()
    })
}

fn listen(port: u16, serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> Result<()> {
    let listener = listen_there(port)?;
    rustix::net::listen(&listener, BACKLOG)?;
    let shared = Arc::new((listener, serve));
    for _ in 0..THREADS {
        let shared = shared.clone();
        let work = move || {
            let (listener, serve) = &*shared;
            while let Ok((stream, _)) = listener.accept() {
                let _ = stream.set_nodelay(true);
                // A client that goes away in the middle sees that itself.
                let _ = serve(stream);
            }
        };
        thread::Builder::new().stack_size(STACK).spawn(work).context("cannot start the server's threads")?;
    }
    Ok(())
}

/// Requests one after the other, until one asks for the end.
fn serve(stream: &mut (impl Read + Write)) -> io::Result<()> {
    while let Some(head) = read_head(stream)? {
        let head = head.to_ascii_lowercase();
        let path = head.split(' ').nth(1).unwrap_or_default();
        let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let wanted = path.trim_start_matches('/').parse();
        let known = header("authorization:").is_none_or(|value| value.ends_with(SECRET));
        match (wanted, known) {
            (Ok(bytes), true) => answer(stream, bytes)?,
            (Ok(_), false) => stream.write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")?,
            (Err(_), _) => stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?,
        }
        stream.flush()?;
        if header("connection:") == Some("close") {
            break;
        }
    }
    Ok(())
}

/// `None` at the end.
fn read_head(stream: &mut impl Read) -> io::Result<Option<String>> {
    let mut head = Vec::with_capacity(512);
    while !head.ends_with(b"\r\n\r\n") {
        let mut buffer = [0; 1024];
        match stream.read(&mut buffer)? {
            0 => return Ok(None),
            read => head.extend_from_slice(&buffer[..read]),
        }
        if head.len() > MOST_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(String::from_utf8(head).ok())
}

fn answer(stream: &mut impl Write, bytes: usize) -> io::Result<()> {
    let mut start = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
    let mut left = bytes;
    // A short answer in one piece, as a server that means well sends it.
    if bytes <= 1024 {
        start.extend_from_slice(&BODY[..bytes]);
        left = 0;
    }
    stream.write_all(&start)?;
    while left > 0 {
        let part = left.min(BODY.len());
        stream.write_all(&BODY[..part])?;
        left -= part;
    }
    Ok(())
}
