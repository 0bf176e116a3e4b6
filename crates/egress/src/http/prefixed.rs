//! A stream that begins with bytes which were read from it already.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, ReadBuf};

use super::write_through::write_through;

pub(crate) struct Prefixed<S> {
    prefix: Bytes,
    stream: S,
}

impl<S> Prefixed<S> {
    pub(crate) fn new(prefix: Bytes, stream: S) -> Self {
        Self { prefix, stream }
    }

    /// Without what is left of the prefix.
    pub(super) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.prefix.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = self.prefix.len().min(buffer.remaining());
        buffer.put_slice(&self.prefix[..count]);
        self.prefix.advance(count);
        Poll::Ready(Ok(()))
    }
}

write_through!(Prefixed);
