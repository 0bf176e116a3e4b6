//! The daemon: where its socket is, whether it answers, which version of its API it speaks, and one call of it.
//!
//! Invariant: only a unix socket is spoken to. Descriptors pass between guard and its owner, so that the daemon must be on
//! this machine, and a port without TLS would be everybody's.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::http::{Answer, Call, exchange};
use crate::providers::Cause;
use crate::refusal::Refusal;

/// Where daemons listen, the first that is there.
const PLACES: [&str; 2] = ["/var/run/docker.sock", "/run/podman/podman.sock"];
/// What listens there, where it is installed.
const DAEMONS: [&str; 4] =
    ["/usr/bin/dockerd", "/usr/sbin/dockerd", "/usr/local/bin/dockerd", "/usr/bin/podman"];
/// The oldest version of the API with all that a container is given here (Docker 19.03), and the newest that was read about.
const OLDEST: (u32, u32) = (1, 40);
const NEWEST: (u32, u32) = (1, 44);
/// How long a daemon may take to say that it is there, and for anything else.
const PING: Duration = Duration::from_secs(5);
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A daemon that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Engine {
    pub(super) socket: PathBuf,
    /// Of the API, as paths begin with it.
    version: (u32, u32),
    /// As it calls itself.
    pub(super) name: String,
}

/// Why a daemon can't be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("Docker is not here: there is no socket at {}", PLACES.join(" or "))]
    Missing,
    #[error("DOCKER_HOST is `{0}`: only a unix socket of this machine can be used")]
    Transport(String),
    #[error("this user may not use the Docker socket {0}")]
    NotPermitted(String),
    #[error("the Docker daemon does not answer at {0}: {1}")]
    Down(String, io::Error),
    #[error("what answers at {0} does not speak Docker's API: {1}")]
    Strange(String, String),
    #[error("the daemon at {0} speaks version {1} of Docker's API, which is too old")]
    TooOld(String, String),
    #[error("Docker refused to {0}: {2} ({1})")]
    Said(String, u16, String),
}

impl Trouble {
    pub(super) fn fix(&self) -> String {
        let text = match self {
            Self::Missing => {
                "install and start it: apt install docker.io (Debian, Ubuntu), or set DOCKER_HOST=unix:///path/of/its.sock"
            }
            Self::Transport(_) => "set DOCKER_HOST=unix:///path/of/its.sock, or leave it out",
            Self::NotPermitted(_) => {
                "docker needs access to the socket, which makes its user root in all but name: `usermod -aG docker NAME` if \
                 that is meant, or use --provider native or bwrap, which need no such right"
            }
            Self::Down(..) => {
                "start it: systemctl start docker (or podman.socket), then see `ringfence provider ls`"
            }
            Self::Strange(..) => "set DOCKER_HOST to the socket of a Docker or Podman daemon",
            Self::TooOld(..) => "install Docker 19.03 or later, or Podman 4 or later",
            Self::Said(..) => "see `docker info` and the daemon's log, or use --provider native",
        };
        text.to_owned()
    }

    pub(super) fn cause(&self) -> Cause {
        match self {
            // Its socket comes and goes with the daemon.
            Self::Missing if DAEMONS.iter().any(|path| Path::new(path).is_file()) => Cause::Down,
            Self::Missing => Cause::Absent,
            Self::NotPermitted(_) => Cause::NotPermitted,
            Self::Down(..) => Cause::Down,
            Self::TooOld(..) => Cause::TooOld,
            Self::Transport(_) | Self::Strange(..) | Self::Said(..) => Cause::Unusable,
        }
    }

    /// A call that the daemon took and said no to, with this status.
    pub(super) fn is_said(&self, wanted: u16) -> bool {
        matches!(self, Self::Said(_, status, _) if *status == wanted)
    }
}

impl From<Trouble> for Refusal {
    fn from(trouble: Trouble) -> Self {
        let fix = trouble.fix();
        match trouble {
            Trouble::Said(step, _, why) => Self::Failed { step, subject: String::new(), why, fix },
            other => Self::bad(other.to_string(), fix),
        }
    }
}

/// The socket of `DOCKER_HOST`, or the usual one.
fn find(host: Option<&str>) -> Result<PathBuf, Trouble> {
    match host {
        Some(host) if !host.is_empty() => match host.strip_prefix("unix://").map(Path::new) {
            Some(path) if path.is_absolute() => Ok(path.to_path_buf()),
            _ => Err(Trouble::Transport(host.chars().take(200).collect())),
        },
        _ => {
            let there = |path: &&Path| path.symlink_metadata().is_ok();
            PLACES.iter().map(Path::new).find(there).map(Path::to_path_buf).ok_or(Trouble::Missing)
        }
    }
}

impl Engine {
    /// The daemon that this user's environment names.
    pub(super) fn here() -> Result<Self, Trouble> {
        let host = std::env::var_os("DOCKER_HOST").map(|host| host.to_string_lossy().into_owned());
        Self::at(find(host.as_deref())?)
    }

    /// The daemon behind this socket.
    pub(super) fn at(socket: PathBuf) -> Result<Self, Trouble> {
        let at = socket.display().to_string();
        let answer =
            ask(&socket, PING, &Call { method: "GET", target: "/_ping", kind: "text/plain", body: b"" })?;
        let said =
            answer.header("api-version").filter(|_| answer.status == 200).unwrap_or_default().to_owned();
        let Some(spoken) = parse_version(&said) else {
            return Err(Trouble::Strange(at, format!("status {} without its version", answer.status)));
        };
        if spoken < OLDEST {
            return Err(Trouble::TooOld(at, said));
        }
        let name = answer.header("server").unwrap_or("Docker").chars().filter(|c| !c.is_control()).take(100);
        Ok(Self {
            socket,
            version: spoken.min(NEWEST),
            name: format!("{}, API {said}", name.collect::<String>()),
        })
    }

    /// Ask for something that is answered with JSON. `step` says what it is for.
    pub(super) fn get<T: DeserializeOwned>(&self, step: &str, target: &str) -> Result<T, Trouble> {
        self.json(step, "GET", target, b"", PATIENCE)
    }

    pub(super) fn post<T: DeserializeOwned>(
        &self,
        step: &str,
        target: &str,
        body: &serde_json::Value,
    ) -> Result<T, Trouble> {
        self.json(step, "POST", target, body.to_string().as_bytes(), PATIENCE)
    }

    fn json<T: DeserializeOwned>(
        &self,
        step: &str,
        method: &'static str,
        target: &str,
        body: &[u8],
        patience: Duration,
    ) -> Result<T, Trouble> {
        let kind = "application/json";
        let answer = self.call(step, patience, method, target, kind, body)?;
        serde_json::from_slice(&answer.body)
            .map_err(|error| Trouble::Strange(self.socket.display().to_string(), error.to_string()))
    }

    /// Ask; what is not a success is what the daemon said.
    pub(super) fn call(
        &self,
        step: &str,
        patience: Duration,
        method: &'static str,
        target: &str,
        kind: &'static str,
        body: &[u8],
    ) -> Result<Answer, Trouble> {
        let target = format!("/v{}.{}{target}", self.version.0, self.version.1);
        let answer = ask(&self.socket, patience, &Call { method, target: &target, kind, body })?;
        if (200..300).contains(&answer.status) {
            return Ok(answer);
        }
        Err(Trouble::Said(step.to_owned(), answer.status, words(&answer.body)))
    }
}

#[derive(Deserialize)]
struct Said {
    message: String,
}

/// Why, in the daemon's words, on one line.
fn words(body: &[u8]) -> String {
    let said = serde_json::from_slice::<Said>(body).map(|said| said.message);
    let said = said.unwrap_or_else(|_| String::from_utf8_lossy(body).into_owned());
    said.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(1_000).collect()
}

fn ask(socket: &Path, patience: Duration, call: &Call<'_>) -> Result<Answer, Trouble> {
    let at = || socket.display().to_string();
    let mut stream = open(socket, patience).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => Trouble::NotPermitted(at()),
        _ => Trouble::Down(at(), error),
    })?;
    exchange(&mut stream, call).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => Trouble::Strange(at(), error.to_string()),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            Trouble::Down(at(), io::Error::other(format!("nothing came within {} s", patience.as_secs())))
        }
        _ => Trouble::Down(at(), error),
    })
}

/// A socket whose daemon does not take calls is waited for no longer than `patience`.
fn open(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(patience))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// `1.41` is (1, 41).
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
