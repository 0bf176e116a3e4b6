//! Workers, from the async side: one order, one report, and the pipes in between.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use ringfence_sandbox::Launcher;
use ringfence_service::workers::{Order, Report, frame_length, framed};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::error::{Answer, ApiError};

/// How long a worker may take to end what it began, when nobody waits for it any more.
const GRACE: Duration = Duration::from_secs(5);

/// A worker that is at something. Dropping it ends that, and the sandbox with it.
#[derive(Debug)]
pub(crate) struct Worker {
    launcher: Arc<Launcher>,
    id: u64,
    /// None: it has reported.
    socket: Option<UnixStream>,
}

/// The other ends of what a worker's command reads and writes.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stdin: pipe::Sender,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
}

impl Worker {
    /// Begin a job whose command reads and writes pipes of ours.
    pub(crate) async fn with_pipes(launcher: &Arc<Launcher>, order: &Order) -> Answer<(Self, Pipes)> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|error| ApiError::internal("make a pipe", error));
        let ((their_in, stdin), (stdout, their_out), (stderr, their_err)) = (pipe()?, pipe()?, pipe()?);
        let pipes = Pipes {
            stdin: pipe::Sender::from_owned_fd(stdin)?,
            stdout: pipe::Receiver::from_owned_fd(stdout)?,
            stderr: pipe::Receiver::from_owned_fd(stderr)?,
        };
        let worker = Self::begin(launcher, [their_in, their_out, their_err], order).await?;
        Ok((worker, pipes))
    }

    /// Begin a job that runs no command of its own.
    pub(crate) async fn silent(launcher: &Arc<Launcher>, order: &Order) -> Answer<Self> {
        let null = || std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").map(OwnedFd::from);
        Self::begin(launcher, [null()?, null()?, null()?], order).await
    }

    async fn begin(launcher: &Arc<Launcher>, stdio: [OwnedFd; 3], order: &Order) -> Answer<Self> {
        let bytes = framed(order)?;
        let job = launcher.begin(stdio)?;
        job.socket.set_nonblocking(true)?;
        let socket = UnixStream::from_std(job.socket)?;
        let mut worker = Self { launcher: Arc::clone(launcher), id: job.id, socket: Some(socket) };
        if let Some(socket) = &mut worker.socket {
            socket.write_all(&bytes).await?;
        }
        Ok(worker)
    }

    /// What came of it. May be waited for again where waiting was given up before the first byte came.
    pub(crate) async fn report(&mut self) -> Answer<Report> {
        let Some(socket) = &mut self.socket else {
            return Err(ApiError::internal("hear from a worker", "it has reported already"));
        };
        let heard = read_report(socket).await;
        self.socket = None;
        match heard.map_err(|error| ApiError::internal("hear from a worker", error))? {
            Report::Refused { error } => Err(error.into()),
            report => Ok(report),
        }
    }

    /// End what it runs; the report tells of that.
    pub(crate) fn stop(&self) {
        let _ = self.launcher.stop(self.id);
    }
}

async fn read_report(socket: &mut UnixStream) -> std::io::Result<Report> {
    let mut head = [0; 4];
    socket.read_exact(&mut head).await?;
    let mut bytes = vec![0; frame_length(head)?];
    socket.read_exact(&mut bytes).await?;
    Ok(serde_json::from_slice(&bytes)?)
}

impl Drop for Worker {
    fn drop(&mut self) {
        let Some(mut socket) = self.socket.take() else { return };
        let (launcher, id) = (Arc::clone(&self.launcher), self.id);
        let _ = launcher.stop(id);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            let _ = launcher.kill(id);
            return;
        };
        runtime.spawn(async move {
            if tokio::time::timeout(GRACE, read_report(&mut socket)).await.is_err() {
                let _ = launcher.kill(id);
            }
        });
    }
}
