//! Where the server listens: TCP, with TLS or without, and unix sockets. One task a connection, HTTP/1.1, every size and time
//! bounded.

use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::metrics::gauge::Gauge;
use ringfence_service::ServiceError;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::config::RequestLimits;
use crate::patience::{MustRead, Unhurried};
use crate::serve::failed;

/// Headers of a request, and bytes of its head.
const MOST_HEADERS: usize = 64;
const MOST_HEAD: usize = 32 << 10;
const BACKLOG: i32 = 1024;
/// Connections beyond `limits.connections`, for whoever asks whether the server lives. Others are told that it is busy.
const RESERVE: usize = 32;

/// Which places a connection has one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Ordinary,
    Reserve,
}

/// Where to listen.
#[derive(Clone, Debug)]
pub enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

pub(crate) struct Bound {
    socket: Socket,
    tls: Option<TlsAcceptor>,
}

enum Socket {
    Tcp(TcpListener, SocketAddr),
    /// The device and inode tell our socket from one that another server put in its place.
    Unix(UnixListener, PathBuf, (u64, u64)),
}

enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Bound {
    /// A unix socket is for one user of this machine: it has no TLS.
    pub(crate) async fn new(
        listen: &Listen,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Result<Self, ServiceError> {
        match listen {
            Listen::Tcp(address) => {
                let next = "end what listens there, or choose another with --listen";
                let problem = |error| failed(&format!("listen on {address}"), error, next);
                let listener = TcpListener::bind(address).await.map_err(problem)?;
                let address = listener.local_addr().map_err(problem)?;
                Ok(Self { socket: Socket::Tcp(listener, address), tls: tls.map(TlsAcceptor::from) })
            }
            Listen::Unix(path) => {
                let next = "end the server that listens there, or choose another path with --socket";
                let problem =
                    |error: std::io::Error| failed(&format!("listen on {}", path.display()), error, next);
                remove_stale(path).map_err(problem)?;
                let listener = private_socket(path).map_err(problem)?;
                let facts = std::fs::symlink_metadata(path).map_err(problem)?;
                Ok(Self {
                    socket: Socket::Unix(listener, path.clone(), (facts.dev(), facts.ino())),
                    tls: None,
                })
            }
        }
    }

    /// For people and programs.
    pub(crate) fn shown(&self) -> String {
        match &self.socket {
            Socket::Tcp(_, address) if self.tls.is_some() => format!("https://{address}"),
            Socket::Tcp(_, address) => format!("http://{address}"),
            Socket::Unix(_, path, _) => format!("unix:{}", path.display()),
        }
    }

    async fn accept(&self) -> std::io::Result<Accepted> {
        match &self.socket {
            Socket::Tcp(listener, _) => listener.accept().await.map(|(stream, _)| Accepted::Tcp(stream)),
            Socket::Unix(listener, ..) => listener.accept().await.map(|(stream, _)| Accepted::Unix(stream)),
        }
    }

    /// Until it is told to stop and every connection has ended.
    pub(crate) async fn serve(
        self,
        router: Router,
        limits: RequestLimits,
        open: Gauge,
        stopped: watch::Receiver<bool>,
    ) {
        let places = Arc::new(Semaphore::new(limits.connections as usize));
        let reserve = Arc::new(Semaphore::new(RESERVE));
        let mut connections = JoinSet::new();
        let mut stop = stopped.clone();
        loop {
            while connections.try_join_next().is_some() {}
            let next = async {
                // Those of the reserve are soon over: there is a place, or there will be.
                let place = tokio::select! {
                    biased;
                    place = Arc::clone(&places).acquire_owned() => place.map(|place| (place, Room::Ordinary)),
                    place = Arc::clone(&reserve).acquire_owned() => place.map(|place| (place, Room::Reserve)),
                };
                let accepted = self.accept().await;
                // What came free while nobody came is better.
                let place = place.map(|held| match Arc::clone(&places).try_acquire_owned() {
                    Ok(place) if held.1 == Room::Reserve => (place, Room::Ordinary),
                    _ => held,
                });
                (place, accepted)
            };
            let accepted = tokio::select! {
                accepted = next => accepted,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            let (Ok((place, room)), accepted) = accepted else { break };
            let counted = Counted::new(&open);
            let limits = match room {
                Room::Ordinary => limits,
                Room::Reserve => limits.in_a_hurry(),
            };
            let talk = Talk { router: router.clone(), limits, room, stopped: stopped.clone() };
            match (accepted, &self.tls) {
                (Ok(Accepted::Tcp(stream)), tls) => {
                    // An answer is written whole: waiting for more of it only costs time.
                    let _ = stream.set_nodelay(true);
                    find_out_who_is_gone(&stream);
                    let tls = tls.clone();
                    connections.spawn(async move {
                        talk.over_tcp(stream, tls).await;
                        drop((place, counted));
                    });
                }
                (Ok(Accepted::Unix(stream)), _) => {
                    connections.spawn(async move {
                        talk.over(stream).await;
                        drop((place, counted));
                    });
                }
                (Err(error), _) => {
                    // Out of descriptors, most likely: those that are open end some time.
                    tracing::warn!(%error, "a connection can't be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        self.close();
        while connections.join_next().await.is_some() {}
    }

    /// Nobody finds us any more.
    fn close(self) {
        let Socket::Unix(listener, path, ours) = self.socket else { return };
        drop(listener);
        let is_ours = |facts: std::fs::Metadata| (facts.dev(), facts.ino()) == ours;
        if std::fs::symlink_metadata(&path).is_ok_and(is_ours) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Counted for as long as it is held.
struct Counted(Gauge);

impl Counted {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// One connection.
struct Talk {
    router: Router,
    limits: RequestLimits,
    room: Room,
    stopped: watch::Receiver<bool>,
}

impl Talk {
    async fn over_tcp(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        let Some(tls) = tls else { return self.over(stream).await };
        let hello = tokio::time::timeout(self.limits.head_time.duration(), tls.accept(stream)).await;
        match hello {
            Ok(Ok(stream)) => self.over(stream).await,
            Ok(Err(error)) => tracing::debug!(%error, "no TLS came about"),
            Err(_) => tracing::debug!("a TLS hello took too long"),
        }
    }

    async fn over(mut self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let (router, room, grace) = (self.router, self.room, self.limits.body_time.duration());
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let (parts, body) = request.into_parts();
            let (body, too_slow) = Unhurried::body(body, grace);
            let mut request = Request::from_parts(parts, body);
            request.extensions_mut().insert(too_slow);
            request.extensions_mut().insert(room);
            router.clone().oneshot(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head_time.duration())
            .max_headers(MOST_HEADERS)
            .max_buf_size(MOST_HEAD)
            .serve_connection(TokioIo::new(MustRead::new(stream)), service)
            .with_upgrades();
        tokio::pin!(connection);
        let mut stopping = false;
        loop {
            tokio::select! {
                ended = &mut connection => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection broke off");
                    }
                    return;
                }
                _ = self.stopped.wait_for(|stop| *stop), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }
}

/// A client that vanished without a word holds its place no longer than this, also where nothing is ever sent to it.
fn find_out_who_is_gone(stream: &TcpStream) {
    const QUIET: Duration = Duration::from_secs(60);
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, QUIET);
    let _ = sockopt::set_tcp_keepintvl(stream, QUIET / 4);
}

/// A socket that a killed server left. One that somebody listens on stays, also while they are too busy to answer.
fn remove_stale(path: &Path) -> std::io::Result<()> {
    let Ok(facts) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !facts.file_type().is_socket() {
        return Ok(());
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let client = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&client, &SocketAddrUnix::new(path)?) {
        Err(rustix::io::Errno::CONNREFUSED) => std::fs::remove_file(path),
        _ => Ok(()),
    }
}

/// Never, not for a moment, open to anybody else: on Linux a socket's file gets the mode that the socket has before.
fn private_socket(path: &Path) -> std::io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(0o600))?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    UnixListener::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn a_socket_is_private_and_only_a_dead_one_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("socket");
        let listen = Listen::Unix(path.clone());
        let first = Bound::new(&listen, None).await.unwrap();
        assert_eq!(std::fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Bound::new(&listen, None).await.is_err(), "somebody listens");
        // As a killed server leaves it.
        drop(first);
        assert!(path.exists());
        let second = Bound::new(&listen, None).await.unwrap();
        // Another has taken its place meanwhile.
        std::fs::remove_file(&path).unwrap();
        let third = Bound::new(&listen, None).await.unwrap();
        second.close();
        assert!(path.exists());
        third.close();
        assert!(!path.exists());
        // What is no socket is somebody's file.
        std::fs::write(&path, "kept").unwrap();
        assert!(Bound::new(&listen, None).await.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
    }

    #[tokio::test]
    async fn a_listener_too_busy_to_answer_is_not_dead() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("socket");
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&socket, 0).unwrap();
        let mut waiting = Vec::new();
        loop {
            let flags = SocketFlags::NONBLOCK;
            let client =
                rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
            let full = rustix::net::connect(&client, &SocketAddrUnix::new(&path).unwrap()).is_err();
            waiting.push(client);
            if full {
                break;
            }
        }
        remove_stale(&path).unwrap();
        assert!(path.exists());
        drop((socket, waiting));
        remove_stale(&path).unwrap();
        assert!(!path.exists());
    }
}
