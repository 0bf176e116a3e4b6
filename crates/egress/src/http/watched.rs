//! A client's stream that is looked at for ambiguous requests while hyper reads it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::Framing;
use crate::lock::Lock;

/// What was found; shared between the stream and whoever answers its requests.
#[derive(Clone, Default)]
pub(crate) struct Finding(Arc<Lock<Option<&'static str>>>);

impl Finding {
    /// Set before hyper has parsed the request in which it was found.
    pub(crate) fn why(&self) -> Option<&'static str> {
        *self.0.lock()
    }
}

pub(crate) struct Watched<S> {
    stream: S,
    framing: Framing,
    finding: Finding,
}

impl<S> Watched<S> {
    pub(crate) fn new(stream: S) -> (Self, Finding) {
        let finding = Finding::default();
        (Self { stream, framing: Framing::new(), finding: finding.clone() }, finding)
    }

    pub(crate) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if let Err(why) = self.framing.feed(&buffer.filled()[before..]) {
            *self.finding.0.lock() = Some(why);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
