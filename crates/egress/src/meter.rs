//! Counting what a connection carries, and holding it to the bandwidth.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::limits::{Bandwidth, Share};

/// Bytes towards the host, and from it.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Counts {
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub(crate) fn add_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The outer side of a connection that is read and written here (HTTP, terminated TLS).
pub(crate) struct Metered<S> {
    stream: S,
    counts: Arc<Counts>,
    reads: Share,
    writes: Share,
}

impl<S> Metered<S> {
    pub(crate) fn new(stream: S, counts: Arc<Counts>, bandwidth: &Bandwidth) -> Self {
        Self { stream, counts, reads: bandwidth.inward(), writes: bandwidth.outward() }
    }

    pub(crate) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let allowed = ready!(this.reads.poll_allowance(context, buffer.remaining()));
        let before = buffer.filled().len();
        let result = if allowed >= buffer.remaining() {
            Pin::new(&mut this.stream).poll_read(context, buffer)
        } else {
            let mut part = ReadBuf::new(buffer.initialize_unfilled_to(allowed));
            let result = Pin::new(&mut this.stream).poll_read(context, &mut part);
            let filled = part.filled().len();
            buffer.advance(filled);
            result
        };
        let count = buffer.filled().len() - before;
        this.reads.used(count);
        this.counts.add_received(count as u64);
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let allowed = ready!(this.writes.poll_allowance(context, bytes.len()));
        let part = bytes.get(..allowed).unwrap_or(bytes);
        let written = ready!(Pin::new(&mut this.stream).poll_write(context, part))?;
        this.writes.used(written);
        this.counts.add_sent(written as u64);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
