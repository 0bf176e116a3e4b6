//! The same for programs with an async runtime: what waits for a process or for its bytes is a future, everything else is
//! answered at once and stays as it is.

use std::io;

use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::net::unix::pipe;

use super::client::{Exec, Process, Sandbox, SessionError};
use super::wire::ProcessResult;

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
        let mut process = self.exec(exec)?;
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
        Ok(AsyncProcess { process, ending, stdin, stdout, stderr })
    }
}

impl AsyncProcess {
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

    /// To its process group.
    pub fn signal(&self, signal: i32) -> Result<(), SessionError> {
        self.process.signal(signal)
    }

    /// It and all that it started.
    pub fn kill(&self) -> Result<(), SessionError> {
        self.process.kill()
    }
}
