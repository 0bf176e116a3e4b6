//! A session from outside: what programs use. The command line is a thin layer over this.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::termios::{Winsize, tcsetwinsize};

use super::dial::Dial;
use super::keeper::{self, SessionSpec};
use super::link::Link;
use super::place::{Place, SessionFacts};
use super::wire::{
    Answer, Call, Envelope, ExecCall, ProcessInfo, ProcessResult, SessionStats, SessionStatus, StdioKind,
    VERSION,
};
use crate::denial::Denial;
use crate::files::{FileTimeouts, Files};
use crate::infer::telling_lines;
use crate::refusal::Refusal;

/// Whatever is asked of a keeper is answered at once, but for the end of a process and of the session.
const PATIENCE: Duration = Duration::from_secs(30);
/// Whoever only looks waits no longer than this.
const LOOK: Duration = Duration::from_secs(5);
/// Longer than a keeper takes that has answered for the last time.
const LAST: Duration = Duration::from_secs(10);

/// Why a session did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("there is no session `{name}`")]
    None { name: String },
    /// It has ended, or its keeper was killed.
    #[error("session `{name}` has ended")]
    Ended { name: String },
    #[error("session `{name}` has as many clients as it takes")]
    Busy { name: String },
    /// Its keeper lives, but is stopped or stuck, or its socket is gone.
    #[error("session `{name}` does not answer: its keeper is stopped or busy, or its socket is gone")]
    Silent { name: String },
    /// Its keeper is of another ringfence, and does not understand this one.
    #[error("{why}")]
    OtherVersion { why: String },
    #[error("{why}")]
    Refused { why: String, fix: String },
    #[error("cannot {doing}: {source}")]
    Io { doing: &'static str, source: io::Error },
}

impl SessionError {
    pub fn fix(&self) -> &str {
        match self {
            Self::None { .. } => "see `ringfence session ls` for those that there are",
            Self::Ended { .. } => {
                "`ringfence session inspect` tells why; make another with `ringfence session create`"
            }
            Self::Busy { .. } => {
                "try again when one of them is gone, or end the session: ringfence session rm --force"
            }
            Self::Silent { .. } => {
                "let its keeper go on if somebody stopped it, or end the session: ringfence session rm --force"
            }
            Self::OtherVersion { .. } => {
                "use the ringfence that made it, or end it and make another: ringfence session rm"
            }
            Self::Refused { fix, .. } => fix,
            Self::Io { .. } => "see whether the session still answers: ringfence session ls",
        }
    }
}

fn while_doing(doing: &'static str) -> impl Fn(io::Error) -> SessionError {
    move |source| SessionError::Io { doing, source }
}

/// A sandbox that stays. It lives in its keeper: dropping this ends nothing.
#[derive(Clone, Debug)]
pub struct Sandbox {
    place: Place,
}

/// What to run in a session.
#[derive(Debug, Default)]
pub struct Exec {
    pub argv: Vec<OsString>,
    /// On top of the session's own.
    pub environment: Vec<(String, OsString)>,
    pub directory: Option<PathBuf>,
    pub timeout: Option<Duration>,
    pub stdio: ExecStdio,
}

/// Where a command's stdio goes.
#[derive(Debug, Default)]
pub enum ExecStdio {
    /// New pipes, whose other ends come with the process.
    #[default]
    Pipes,
    /// Three pipes of the caller's.
    Given([OwnedFd; 3]),
    Terminal {
        rows: u16,
        columns: u16,
    },
    /// Kept by the session; the process goes on without this program.
    Log {
        stdin: bool,
        terminal: Option<(u16, u16)>,
    },
}

impl Sandbox {
    /// Make a session. Only a process with one thread can.
    pub fn create(spec: SessionSpec) -> Result<Self, Refusal> {
        Ok(Self { place: keeper::create(spec)? })
    }

    /// One that is there.
    pub fn open(sessions: &Path, name: &str) -> Result<Self, SessionError> {
        let none = || SessionError::None { name: name.to_string() };
        let place = Place::new(sessions, name).map_err(|_| none())?;
        if place.path().is_dir() { Ok(Self { place }) } else { Err(none()) }
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    pub fn name(&self) -> String {
        self.place.name()
    }

    pub fn facts(&self) -> Result<SessionFacts, SessionError> {
        self.place.facts().map_err(while_doing("read the session's facts"))
    }

    pub fn is_alive(&self) -> bool {
        self.place.is_held()
    }

    pub(crate) fn connect(&self) -> Result<Link, SessionError> {
        self.connect_within(PATIENCE)
    }

    fn connect_within(&self, patience: Duration) -> Result<Link, SessionError> {
        self.place.connect(patience).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused if self.place.is_silent() => {
                SessionError::Silent { name: self.name() }
            }
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                self.sweep_if_killed();
                SessionError::Ended { name: self.name() }
            }
            io::ErrorKind::WouldBlock => SessionError::Silent { name: self.name() },
            _ => SessionError::Io { doing: "reach the session", source },
        })
    }

    /// One call, one answer.
    fn call(&self, call: Call) -> Result<(Answer, Vec<OwnedFd>), SessionError> {
        self.call_within(PATIENCE, call)
    }

    fn call_within(&self, patience: Duration, call: Call) -> Result<(Answer, Vec<OwnedFd>), SessionError> {
        let link = self.connect_within(patience)?;
        ask(&link, &self.name(), call, &[])
    }

    fn done(&self, call: Call) -> Result<Vec<OwnedFd>, SessionError> {
        match self.call(call)? {
            (Answer::Done, fds) => Ok(fds),
            _ => Err(strange()),
        }
    }

    /// Start a command. What has no log ends with the returned process.
    pub fn exec(&self, exec: Exec) -> Result<Process, SessionError> {
        let link = self.connect()?;
        let mut process = self.process(link, 0);
        let mut theirs = Vec::new();
        let stdio = match exec.stdio {
            ExecStdio::Pipes => {
                let pipe = || {
                    pipe_with(PipeFlags::CLOEXEC).map_err(|error| while_doing("make a pipe")(error.into()))
                };
                let ((their_in, stdin), (stdout, their_out), (stderr, their_err)) =
                    (pipe()?, pipe()?, pipe()?);
                process.stdin = Some(stdin.into());
                process.stdout = Some(stdout.into());
                process.stderr = Some(stderr.into());
                theirs.extend([their_in, their_out, their_err]);
                StdioKind::Pipes
            }
            ExecStdio::Given(given) => {
                theirs.extend(given);
                StdioKind::Pipes
            }
            ExecStdio::Terminal { rows, columns } => StdioKind::Terminal { rows, columns },
            ExecStdio::Log { stdin, terminal } => StdioKind::Log { stdin, terminal },
        };
        let call = ExecCall {
            argv: exec.argv.into_iter().map(Into::into).collect(),
            environment: exec.environment.into_iter().map(|(name, value)| (name, value.into())).collect(),
            directory: exec.directory,
            timeout_ms: exec.timeout.map(|timeout| timeout.as_millis() as u64),
            stdio,
        };
        let fds: Vec<BorrowedFd<'_>> = theirs.iter().map(AsFd::as_fd).collect();
        send(&process.link, &process.name, Call::Exec(call), &fds)?;
        drop(theirs);
        match answer(&process.link, &process.name)? {
            (Answer::Started { process: id, pid }, fds) => {
                process.id = id;
                process.pid = pid;
                process.terminal = fds.into_iter().next().map(Into::into);
            }
            (Answer::Ended(result), _) => {
                process.id = result.process;
                process.result = Some(result);
            }
            _ => return Err(strange()),
        }
        process.link.set_patience(None).map_err(while_doing("wait for the command"))?;
        Ok(process)
    }

    /// Wait for a process that somebody started, to be heard of through the returned one.
    pub fn watch(&self, process: u32) -> Result<Process, SessionError> {
        let link = self.connect()?;
        link.set_patience(None).map_err(while_doing("wait for the command"))?;
        send(&link, &self.name(), Call::Wait { process }, &[])?;
        Ok(self.process(link, process))
    }

    fn process(&self, link: Link, id: u32) -> Process {
        Process {
            link,
            name: self.name(),
            place: self.place.clone(),
            id,
            pid: 0,
            stdin: None,
            stdout: None,
            stderr: None,
            terminal: None,
            result: None,
        }
    }

    pub fn processes(&self) -> Result<Vec<ProcessInfo>, SessionError> {
        match self.call(Call::Processes)? {
            (Answer::Processes { processes }, _) => Ok(processes),
            _ => Err(strange()),
        }
    }

    pub fn signal(&self, process: u32, signal: i32, tree: bool) -> Result<(), SessionError> {
        self.done(Call::Signal { process, signal, tree }).map(|_| ())
    }

    /// What writes to a kept process.
    pub fn stdin(&self, process: u32) -> Result<File, SessionError> {
        let fd = self.done(Call::Stdin { process })?.into_iter().next();
        fd.map(Into::into).ok_or_else(strange)
    }

    pub fn close_stdin(&self, process: u32) -> Result<(), SessionError> {
        self.done(Call::CloseStdin { process }).map(|_| ())
    }

    pub fn status(&self) -> Result<SessionStatus, SessionError> {
        self.status_within(PATIENCE)
    }

    /// The same for who looks at many: a keeper that does not answer soon is told of as such.
    pub fn look(&self) -> Result<SessionStatus, SessionError> {
        self.status_within(LOOK)
    }

    fn status_within(&self, patience: Duration) -> Result<SessionStatus, SessionError> {
        match self.call_within(patience, Call::Status) {
            Ok((Answer::Status(status), _)) => Ok(*status),
            Ok(_) => Err(strange()),
            // Nobody refuses that to whom he understands.
            Err(SessionError::Refused { why, .. }) => Err(SessionError::OtherVersion { why }),
            Err(error) => Err(error),
        }
    }

    pub fn stats(&self) -> Result<SessionStats, SessionError> {
        match self.call(Call::Stats)? {
            (Answer::Stats(stats), _) => Ok(stats),
            _ => Err(strange()),
        }
    }

    /// The file accesses that a failed command's error output suggests were refused by the session's policy; those that the
    /// result knows of already are not told twice.
    pub fn explain(&self, result: &mut ProcessResult, directory: Option<&Path>, stderr: &[u8]) {
        let lines = telling_lines(stderr);
        if result.end.exit_code() == 0 || lines.is_empty() {
            return;
        }
        let call = Call::Explain { lines, directory: directory.map(Path::to_path_buf) };
        // A keeper that can't say it has not seen a denial either.
        let Ok((Answer::Denials { denials }, _)) = self.call_within(LOOK, call) else { return };
        let new = |denial: &Denial| !result.denials.iter().any(|known| known.what == denial.what);
        let denials: Vec<Denial> = denials.into_iter().filter(new).collect();
        result.denials.extend(denials);
    }

    pub fn pause(&self) -> Result<(), SessionError> {
        self.done(Call::Pause).map(|_| ())
    }

    pub fn resume(&self) -> Result<(), SessionError> {
        self.done(Call::Resume).map(|_| ())
    }

    /// Paused as long as what this gives lives, whatever becomes of this process; others may want it paused too.
    pub fn hold(&self) -> Result<Held, SessionError> {
        let link = self.connect()?;
        match ask(&link, &self.name(), Call::Hold, &[])? {
            (Answer::Done, _) => Ok(Held { _link: link }),
            _ => Err(strange()),
        }
    }

    pub fn extend(&self, ttl: Option<Duration>, idle: Option<Duration>) -> Result<(), SessionError> {
        let millis = |time: Duration| time.as_millis() as u64;
        self.done(Call::Extend { ttl_ms: ttl.map(millis), idle_ms: idle.map(millis) }).map(|_| ())
    }

    /// The sandbox's files, with the rights of its commands.
    pub fn files(&self) -> Result<Files, SessionError> {
        let channel = self.done(Call::Files)?.into_iter().next().ok_or_else(strange)?;
        Files::connect(channel, FileTimeouts::default())
            .map_err(|error| SessionError::Refused { why: error.to_string(), fix: error.fix().into() })
    }

    /// Connect to a port of the sandbox's own loopback.
    pub fn connect_port(&self, port: u16) -> Result<TcpStream, SessionError> {
        self.dial(port)?.finish().map_err(while_doing("connect to the port inside"))
    }

    /// The same, for who has more to do meanwhile.
    pub(super) fn dial(&self, port: u16) -> Result<Dial, SessionError> {
        Ok(Dial::new(self.done(Call::Connect)?, port))
    }

    /// Be known as who forwards this port, until the returned link is dropped or the keeper closes it.
    pub fn expose(&self, port: u16) -> Result<Exposed, SessionError> {
        let link = self.connect()?;
        match ask(&link, &self.name(), Call::Expose { port }, &[])? {
            (Answer::Done, _) => Ok(Exposed(link)),
            _ => Err(strange()),
        }
    }

    pub fn unexpose(&self, port: u16) -> Result<(), SessionError> {
        self.done(Call::Unexpose { port }).map(|_| ())
    }

    /// End the sandbox and take its directory away. When this returns nothing of it is left.
    pub fn destroy(&self) -> Result<(), SessionError> {
        self.end_whole()?;
        self.place.remove().map_err(while_doing("remove the session's directory"))
    }

    /// End the sandbox, if it has not ended, and wait until its keeper is gone. What the end check found.
    pub fn end_whole(&self) -> Result<Vec<String>, SessionError> {
        // Whoever does not answer soon is not going to end either; an end itself may take its time.
        match self.look().and_then(|_| self.end()) {
            Ok(()) | Err(SessionError::Ended { .. }) => {}
            Err(SessionError::OtherVersion { .. }) => self.end_by_signal()?,
            Err(error) => return Err(error),
        }
        // The keeper lets go of the lock as its last act. Nothing may be taken away under one that lives.
        let deadline = Instant::now() + LAST;
        while self.place.is_held() {
            if Instant::now() >= deadline {
                return Err(SessionError::Silent { name: self.name() });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.sweep_if_killed();
        let ended = self.place.facts().ok().and_then(|facts| facts.ended);
        Ok(ended.map(|end| end.notes).unwrap_or_default())
    }

    /// End the sandbox; its directory stays.
    pub fn end(&self) -> Result<(), SessionError> {
        let link = self.connect()?;
        match ask(&link, &self.name(), Call::End, &[]) {
            Ok((Answer::Done, _)) | Err(SessionError::Ended { .. }) => Ok(()),
            Ok(_) => Err(strange()),
            Err(error) => Err(error),
        }
    }
}

/// A session that is paused meanwhile.
#[derive(Debug)]
pub struct Held {
    _link: Link,
}

/// A registered forwarder.
#[derive(Debug)]
pub struct Exposed(Link);

impl AsFd for Exposed {
    /// Hangs up when the session ends or the port is no longer to be forwarded.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn ask(
    link: &Link,
    name: &str,
    call: Call,
    fds: &[BorrowedFd<'_>],
) -> Result<(Answer, Vec<OwnedFd>), SessionError> {
    send(link, name, call, fds)?;
    answer(link, name)
}

fn send(link: &Link, name: &str, call: Call, fds: &[BorrowedFd<'_>]) -> Result<(), SessionError> {
    let sent = link.send(&Envelope { version: VERSION, body: call }, fds);
    sent.map_err(|error| match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::PIPE | Errno::CONNRESET) => turned_away(link, name),
        Some(Errno::AGAIN) => SessionError::Silent { name: name.to_string() },
        _ => while_doing("ask the session")(error),
    })
}

/// The answer to what was just asked, which comes soon or not at all.
fn answer(link: &Link, name: &str) -> Result<(Answer, Vec<OwnedFd>), SessionError> {
    receive(link, name).map_err(|error| match error {
        SessionError::Io { source, .. } if source.kind() == io::ErrorKind::WouldBlock => {
            SessionError::Silent { name: name.to_string() }
        }
        error => error,
    })
}

fn receive(link: &Link, name: &str) -> Result<(Answer, Vec<OwnedFd>), SessionError> {
    match link.receive() {
        Ok(Some((Answer::Refused { why, version: Some(version), .. }, _))) if version != VERSION => {
            Err(SessionError::OtherVersion { why })
        }
        Ok(Some((Answer::Refused { why, fix, .. }, _))) => Err(SessionError::Refused { why, fix }),
        Ok(Some((Answer::Busy, _))) => Err(SessionError::Busy { name: name.to_string() }),
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => Err(SessionError::Ended { name: name.to_string() }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(turned_away(link, name)),
        Err(error) => Err(while_doing("hear from the session")(error)),
    }
}

/// The keeper has closed the connection without reading what was asked.
fn turned_away(link: &Link, name: &str) -> SessionError {
    match link.receive_last() {
        Some(Answer::Busy) => SessionError::Busy { name: name.to_string() },
        _ => SessionError::Ended { name: name.to_string() },
    }
}

fn strange() -> SessionError {
    SessionError::Refused {
        why: "the session's keeper gave an answer to something else".into(),
        fix: "report this as a bug".into(),
    }
}

/// A command in a session.
#[derive(Debug)]
pub struct Process {
    link: Link,
    name: String,
    place: Place,
    pub id: u32,
    /// Inside.
    pub pid: i32,
    pub stdin: Option<File>,
    pub stdout: Option<File>,
    pub stderr: Option<File>,
    pub terminal: Option<File>,
    result: Option<ProcessResult>,
}

impl Process {
    /// Readable when it has ended.
    pub fn ending(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }

    /// How it ended, if that has been told already.
    pub fn result(&self) -> Option<&ProcessResult> {
        self.result.as_ref()
    }

    /// Wait for its end.
    pub fn wait(&mut self) -> Result<ProcessResult, SessionError> {
        if let Some(result) = &self.result {
            return Ok(result.clone());
        }
        match receive(&self.link, &self.name)? {
            (Answer::Ended(result), _) => {
                self.result = Some(result.clone());
                Ok(result)
            }
            _ => Err(strange()),
        }
    }

    /// To its process group.
    pub fn signal(&self, signal: i32) -> Result<(), SessionError> {
        Sandbox { place: self.place.clone() }.signal(self.id, signal, false)
    }

    /// It and all that it started.
    pub fn kill(&self) -> Result<(), SessionError> {
        Sandbox { place: self.place.clone() }.signal(self.id, 9, true)
    }

    pub fn resize(&self, rows: u16, columns: u16) -> io::Result<()> {
        let Some(terminal) = &self.terminal else { return Err(io::ErrorKind::Unsupported.into()) };
        Ok(tcsetwinsize(terminal, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })?)
    }
}
