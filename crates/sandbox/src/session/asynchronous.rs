//! The same for programs with an async runtime. What waits for a process or for its bytes holds no thread; everything else is
//! one call to the keeper, made on a thread of the runtime's that may wait.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::net::unix::pipe;

use super::client::{Exec, Process, Sandbox, SessionError};
use super::keeper::{Claim, SessionSpec};
use super::over_time::OverTimeError;
use super::wire::{ProcessInfo, ProcessResult, SessionStats, SessionStatus};
use crate::files::Files;
use crate::layers::WorkspaceLayers;
use crate::refusal::Refusal;
use crate::snapshots::{Restored, Saved, SnapshotId, SnapshotStore};

/// A command in a session, waited for without holding a thread.
#[derive(Debug)]
pub struct AsyncProcess {
    process: Process,
    /// A copy of the connection that tells of the end.
    ending: UnixDatagram,
    pub stdin: Option<pipe::Sender>,
    pub stdout: Option<pipe::Receiver>,
    pub stderr: Option<pipe::Receiver>,
}

fn failed(doing: &'static str) -> impl Fn(io::Error) -> SessionError {
    move |source| SessionError::Io { doing, source }
}

impl Sandbox {
    /// As [`Sandbox::exec`]. Must be called in a tokio runtime with I/O.
    pub fn exec_async(&self, exec: Exec) -> Result<AsyncProcess, SessionError> {
        AsyncProcess::new(self.exec(exec)?)
    }
}

impl AsyncProcess {
    fn new(mut process: Process) -> Result<Self, SessionError> {
        let open = failed("use the command's pipes");
        let receiver = |file: Option<std::fs::File>| file.map(pipe::Receiver::from_file).transpose();
        let stdin = process.stdin.take().map(pipe::Sender::from_file).transpose().map_err(&open)?;
        let stdout = receiver(process.stdout.take()).map_err(&open)?;
        let stderr = receiver(process.stderr.take()).map_err(&open)?;
        let ending = process.ending().try_clone_to_owned().map_err(&open)?;
        // Only to be told when there is something: the kind of socket does not matter for that.
        let ending = std::os::unix::net::UnixDatagram::from(ending);
        ending.set_nonblocking(true).map_err(&open)?;
        let ending = UnixDatagram::from_std(ending).map_err(&open)?;
        Ok(Self { process, ending, stdin, stdout, stderr })
    }

    pub fn id(&self) -> u32 {
        self.process.id
    }

    /// Wait for its end. Dropping this process instead ends it, as dropping a [`Process`] does.
    pub async fn wait(&mut self) -> Result<ProcessResult, SessionError> {
        if let Some(result) = self.process.result() {
            return Ok(result.clone());
        }
        let Self { process, ending, .. } = self;
        loop {
            ending.readable().await.map_err(failed("wait for the command"))?;
            let mut heard = None;
            // An error here is that there was nothing after all.
            let _ = ending.try_io(Interest::READABLE, || match process.wait() {
                Err(SessionError::Io { source, .. }) if source.kind() == io::ErrorKind::WouldBlock => {
                    Err(source)
                }
                told => {
                    heard = Some(told);
                    Ok(())
                }
            });
            if let Some(told) = heard {
                return told;
            }
        }
    }

    /// The other end of its terminal, if it has one; once only.
    pub fn take_terminal(&mut self) -> Option<std::fs::File> {
        self.process.terminal.take()
    }

    pub fn resize(&self, rows: u16, columns: u16) -> io::Result<()> {
        self.process.resize(rows, columns)
    }

    /// To its process group.
    pub fn signal(&self, signal: i32) -> Result<(), SessionError> {
        self.process.signal(signal)
    }

    /// It and all that it started.
    pub fn kill(&self) -> Result<(), SessionError> {
        self.process.kill()
    }
}

/// A [`Sandbox`] whose calls are futures. All must be awaited in a tokio runtime with I/O.
#[derive(Clone, Debug)]
pub struct AsyncSandbox(Sandbox);

impl From<Sandbox> for AsyncSandbox {
    fn from(sandbox: Sandbox) -> Self {
        Self(sandbox)
    }
}

/// On a thread that may wait; the runtime goes on meanwhile.
async fn aside<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Result<T, SessionError> {
    let done = tokio::task::spawn_blocking(act).await;
    done.map_err(|error| SessionError::Io { doing: "ask the session", source: io::Error::other(error) })
}

impl AsyncSandbox {
    /// As [`Sandbox::create`], in this very thread: only a process with one thread can. Before the first call of another kind,
    /// in a runtime of the current thread; a program with threads has a [`Launcher`](crate::Launcher).
    pub fn create(spec: SessionSpec) -> Result<Self, Refusal> {
        Sandbox::create(spec).map(Self)
    }

    /// As [`Sandbox::fork_of`], with the same condition as [`AsyncSandbox::create`]; take the snapshot first.
    pub fn fork<E: From<OverTimeError> + From<Refusal>>(
        &self,
        store: &SnapshotStore,
        name: Option<&str>,
        spec: impl FnOnce(Claim, WorkspaceLayers) -> Result<SessionSpec, E>,
    ) -> Result<Self, E> {
        self.0.fork(store, name, spec).map(Self)
    }

    /// The same, to be asked by a thread that may wait.
    pub fn blocking(&self) -> &Sandbox {
        &self.0
    }

    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Sandbox) -> Result<T, SessionError> + Send + 'static,
    ) -> Result<T, SessionError> {
        let sandbox = self.0.clone();
        aside(move || call(&sandbox)).await?
    }

    pub async fn exec(&self, exec: Exec) -> Result<AsyncProcess, SessionError> {
        AsyncProcess::new(self.call(|sandbox| sandbox.exec(exec)).await?)
    }

    pub async fn processes(&self) -> Result<Vec<ProcessInfo>, SessionError> {
        self.call(Sandbox::processes).await
    }

    pub async fn signal(&self, process: u32, signal: i32, tree: bool) -> Result<(), SessionError> {
        self.call(move |sandbox| sandbox.signal(process, signal, tree)).await
    }

    pub async fn status(&self) -> Result<SessionStatus, SessionError> {
        self.call(Sandbox::status).await
    }

    pub async fn stats(&self) -> Result<SessionStats, SessionError> {
        self.call(Sandbox::stats).await
    }

    pub async fn pause(&self) -> Result<(), SessionError> {
        self.call(Sandbox::pause).await
    }

    pub async fn resume(&self) -> Result<(), SessionError> {
        self.call(Sandbox::resume).await
    }

    pub async fn extend(&self, ttl: Option<Duration>, idle: Option<Duration>) -> Result<(), SessionError> {
        self.call(move |sandbox| sandbox.extend(ttl, idle)).await
    }

    pub async fn files(&self) -> Result<AsyncFiles, SessionError> {
        self.call(Sandbox::files).await.map(|files| AsyncFiles(Some(files)))
    }

    pub async fn snapshot(&self, store: Arc<SnapshotStore>, name: &str) -> Result<Saved, OverTimeError> {
        let (sandbox, name) = (self.0.clone(), name.to_owned());
        aside(move || sandbox.snapshot(&store, &name, &mut |_| ControlFlow::Continue(()))).await?
    }

    pub async fn rollback(
        &self,
        store: Arc<SnapshotStore>,
        id: SnapshotId,
    ) -> Result<Restored, OverTimeError> {
        let sandbox = self.0.clone();
        aside(move || sandbox.rollback(&store, id)).await?
    }

    pub async fn destroy(&self) -> Result<(), SessionError> {
        self.call(Sandbox::destroy).await
    }
}

/// The files of a session, for one act after the other.
#[derive(Debug)]
pub struct AsyncFiles(Option<Files>);

impl AsyncFiles {
    /// Do something with them on a thread that may wait. If this future is dropped it is done all the same, and they are
    /// not to be had any more.
    pub async fn with<T: Send + 'static>(
        &mut self,
        act: impl FnOnce(&mut Files) -> T + Send + 'static,
    ) -> Result<T, SessionError> {
        let mut files = self.0.take().ok_or_else(|| SessionError::Io {
            doing: "use the session's files",
            source: io::Error::other("what was done with them before was given up"),
        })?;
        let (done, files) = aside(move || (act(&mut files), files)).await?;
        self.0 = Some(files);
        Ok(done)
    }
}
