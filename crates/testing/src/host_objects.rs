//! Things of the host that a sandbox must not reach, made by a test and gone when dropped: a process, listening
//! sockets that greet with a token, a message queue, shared memory.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};

use ringfence_linux::probe_calls;

use crate::{Identity, Stage};

/// A process of an identity on the host: one that waits to be attacked, or one that serves.
#[derive(Debug)]
pub struct Victim(Child);

impl Victim {
    /// One that waits, with a word in its environment.
    ///
    /// # Panics
    /// If it can't be started.
    #[must_use]
    pub fn start(identity: Identity, word: &str) -> Self {
        Self::probe(identity, Path::new("/"), &["victim"], word)
    }

    /// One that runs the probe's `unix-serve` in `dir`: it binds `path`, which may be relative, and greets with `token`.
    ///
    /// # Panics
    /// If it can't be started.
    #[must_use]
    pub fn serve_unix(identity: Identity, dir: &Path, path: &str, token: &str) -> Self {
        Self::probe(identity, dir, &["unix-serve", path, token], "")
    }

    /// A process that takes datagrams at a path, and makes a file `heard-TOKEN` in `dir` for the first right one.
    ///
    /// # Panics
    /// If it can't be started.
    #[must_use]
    pub fn serve_unix_datagram(identity: Identity, dir: &Path, path: &str, token: &str) -> Self {
        Self::probe(identity, dir, &["unix-hear", path, token], "")
    }

    fn probe(identity: Identity, dir: &Path, args: &[&str], word: &str) -> Self {
        let mut command = Command::new(&Stage::get().probe);
        command.args(args).env("SECRET_WORD", word).current_dir(dir);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        identity.apply(&mut command);
        let mut child = command.spawn().expect("start a process");
        let mut line = String::new();
        let pipe = child.stdout.as_mut().expect("its stdout");
        BufReader::new(pipe).read_line(&mut line).expect("hear from it");
        assert_eq!(line, "ready\n", "the process did not get ready: {args:?}");
        Self(child)
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// # Panics
    /// If it can't be waited for.
    pub fn is_alive(&mut self) -> bool {
        self.0.try_wait().expect("wait for the victim").is_none()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Listening sockets that answer with a token. Their threads end with the test process.
#[derive(Debug)]
pub struct Greeter;

impl Greeter {
    /// # Panics
    /// If the address can't be bound.
    #[must_use]
    pub fn tcp(address: &str, token: &str) -> SocketAddr {
        let listener = TcpListener::bind(address).expect("bind a TCP socket");
        let bound = listener.local_addr().expect("the bound address");
        greet(listener, |listener| listener.accept().map(|(stream, _)| stream), token);
        bound
    }

    /// # Panics
    /// If the address can't be bound.
    #[must_use]
    pub fn udp(address: &str, token: &str) -> SocketAddr {
        let socket = UdpSocket::bind(address).expect("bind a UDP socket");
        let bound = socket.local_addr().expect("the bound address");
        let token = token.to_owned();
        std::thread::spawn(move || {
            let mut bytes = [0u8; 64];
            while let Ok((_, from)) = socket.recv_from(&mut bytes) {
                let _ = socket.send_to(token.as_bytes(), from);
            }
        });
        bound
    }

    /// # Panics
    /// If the path can't be bound.
    pub fn unix(path: &Path, token: &str) {
        let listener = UnixListener::bind(path).expect("bind a unix socket");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))
            .expect("open the socket to all");
        greet(listener, |listener| listener.accept().map(|(stream, _)| stream), token);
    }

    /// # Panics
    /// If the name can't be bound.
    pub fn abstract_name(name: &str, token: &str) {
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name).expect("an abstract name");
        let listener = UnixListener::bind_addr(&address).expect("bind an abstract socket");
        greet(listener, |listener| listener.accept().map(|(stream, _)| stream), token);
    }
}

fn greet<L: Send + 'static, S: Write + 'static>(
    listener: L,
    accept: fn(&L) -> std::io::Result<S>,
    token: &str,
) {
    let token = token.to_owned();
    std::thread::spawn(move || {
        while let Ok(mut stream) = accept(&listener) {
            let _ = stream.write_all(token.as_bytes());
        }
    });
}

/// A POSIX message queue of the host.
#[derive(Debug)]
pub struct HostQueue(String);

impl HostQueue {
    /// # Panics
    /// If it can't be made.
    #[must_use]
    pub fn create(name: &str) -> Self {
        probe_calls::create_queue(name).expect("make a message queue");
        Self(name.to_owned())
    }
}

impl Drop for HostQueue {
    fn drop(&mut self) {
        let _ = probe_calls::remove_queue(&self.0);
    }
}

/// A System V shared memory segment of the host.
#[derive(Debug)]
pub struct HostSharedMemory(i32);

impl HostSharedMemory {
    /// # Panics
    /// If it can't be made.
    #[must_use]
    pub fn create() -> Self {
        static NEXT: AtomicI32 = AtomicI32::new(0);
        // Other test processes make segments too: their pid is in the key.
        let pid = (std::process::id() & 0xf_ffff) as i32;
        let key = 0x4000_0000 | (pid << 8) | (NEXT.fetch_add(1, Ordering::Relaxed) & 0xff);
        probe_calls::create_shared_memory(key).expect("make shared memory");
        Self(key)
    }

    #[must_use]
    pub fn key(&self) -> i32 {
        self.0
    }
}

impl Drop for HostSharedMemory {
    fn drop(&mut self) {
        let _ = probe_calls::remove_shared_memory(self.0);
    }
}
