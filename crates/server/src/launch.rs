//! Workers, from the async side: one order, one report, and the pipes in between.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ringfence_sandbox::{Job, Launcher, send_order};
use ringfence_service::workers::{Order, Report, RunOrder, Shape, Stock, frame_length, framed};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::error::{Answer, ApiError};

/// How long a worker may take to end what it began, when nobody waits for it any more.
const GRACE: Duration = Duration::from_secs(5);

/// So long after a run the stock is filled up: its answer goes first.
const FILL_AFTER: Duration = Duration::from_millis(1);

/// A worker that is at something. Dropping it ends that, and the sandbox with it.
#[derive(Debug)]
pub(crate) struct Worker {
    launcher: Arc<Launcher>,
    id: u64,
    /// None: it has reported.
    socket: Option<UnixStream>,
    /// What there should be more of when it has.
    used: Option<(Arc<Stock>, Shape)>,
}

/// Whether a command gets something to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Some,
    Nothing,
}

impl Input {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        if bytes.is_empty() { Self::Nothing } else { Self::Some }
    }
}

/// The other ends of what a worker's command reads and writes.
#[derive(Debug)]
pub(crate) struct Pipes {
    /// Not there where the command has nothing to read.
    pub(crate) stdin: Option<pipe::Sender>,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
}

impl Worker {
    /// Begin a run whose command reads and writes pipes of ours, in a sandbox of the stock if there is one.
    pub(crate) async fn run(
        launcher: &Arc<Launcher>,
        stock: &Arc<Stock>,
        run: RunOrder,
        input: Input,
    ) -> Answer<(Self, Pipes)> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|error| ApiError::internal("make a pipe", error));
        let ((their_in, stdin), (stdout, their_out), (stderr, their_err)) = (pipe()?, pipe()?, pipe()?);
        let pipes = Pipes {
            stdin: match input {
                Input::Some => Some(pipe::Sender::from_owned_fd(stdin)?),
                Input::Nothing => None,
            },
            stdout: pipe::Receiver::from_owned_fd(stdout)?,
            stderr: pipe::Receiver::from_owned_fd(stderr)?,
        };
        let stdio = [their_in, their_out, their_err];
        let shape = Shape::of(&run);
        let bytes = framed(&Order::Run(Box::new(run)))?;
        let mut worker = match shape.as_ref().and_then(|shape| stock.take(shape)) {
            Some(job) => Self::hand_out(launcher, job, &stdio, &bytes).await,
            None => None,
        };
        if worker.is_none() {
            worker = Some(Self::begin(launcher, stdio, &bytes).await?);
        }
        let mut worker = worker.ok_or_else(|| ApiError::internal("begin a run", "there is no worker"))?;
        worker.used = shape.map(|shape| (Arc::clone(stock), shape));
        Ok((worker, pipes))
    }

    /// `None`: it has ended meanwhile, and has read nothing.
    async fn hand_out(
        launcher: &Arc<Launcher>,
        job: Job,
        stdio: &[OwnedFd; 3],
        bytes: &[u8],
    ) -> Option<Self> {
        // As much as it takes at once: the runtime would first have to hear that it may be written to.
        let sent = send_order(&job.socket, bytes, &stdio.each_ref().map(AsFd::as_fd)).ok()?;
        let rest = bytes.get(sent..)?;
        let socket = UnixStream::from_std(job.socket).ok()?;
        let mut worker =
            Self { launcher: Arc::clone(launcher), id: job.id, socket: Some(socket), used: None };
        let sent = match &mut worker.socket {
            Some(socket) => socket.write_all(rest).await,
            None => return None,
        };
        match sent {
            Ok(()) => Some(worker),
            Err(_) => {
                worker.socket = None;
                None
            }
        }
    }

    /// Begin a job that runs no command of its own.
    pub(crate) async fn silent(launcher: &Arc<Launcher>, order: &Order) -> Answer<Self> {
        let null = || std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").map(OwnedFd::from);
        Self::begin(launcher, [null()?, null()?, null()?], &framed(order)?).await
    }

    async fn begin(launcher: &Arc<Launcher>, stdio: [OwnedFd; 3], bytes: &[u8]) -> Answer<Self> {
        let job = launcher.begin(stdio)?;
        job.socket.set_nonblocking(true)?;
        let socket = UnixStream::from_std(job.socket)?;
        let mut worker =
            Self { launcher: Arc::clone(launcher), id: job.id, socket: Some(socket), used: None };
        if let Some(socket) = &mut worker.socket {
            socket.write_all(bytes).await?;
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
        if let Some((stock, shape)) = self.used.take() {
            tokio::spawn(async move {
                tokio::time::sleep(FILL_AFTER).await;
                if let Err(error) = stock.fill(&shape) {
                    tracing::warn!(%error, "the stock of sandboxes can't be filled");
                }
            });
        }
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
