//! Clients that are slow on purpose: a body that drips, an answer that nobody reads. Heads have their own time in hyper.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Bytes a second: slower is no network, it is somebody who holds a place.
const LEAST_RATE: u64 = 1024;
/// How long a client may take none of its answer.
const STALLED: Duration = Duration::from_secs(120);

/// Set where a body was given up.
#[derive(Clone, Debug, Default)]
pub(crate) struct TooSlow(Arc<AtomicBool>);

impl TooSlow {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A body that must come: it may keep us waiting for `grace` in all, and longer the more of it is there.
/// Only waiting counts: what a handler takes its time over is not the client's.
pub(crate) struct Unhurried {
    inner: hyper::body::Incoming,
    grace: Duration,
    received: u64,
    waited: Duration,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    flag: TooSlow,
}

impl Unhurried {
    pub(crate) fn body(inner: hyper::body::Incoming, grace: Duration) -> (Body, TooSlow) {
        let flag = TooSlow::default();
        if inner.is_end_stream() {
            return (Body::empty(), flag);
        }
        let body =
            Self { inner, grace, received: 0, waited: Duration::ZERO, waiting: None, flag: flag.clone() };
        (Body::new(body.map_err(axum::Error::new)), flag)
    }

    fn left(&self) -> Duration {
        (self.grace + Duration::from_secs(self.received / LEAST_RATE)).saturating_sub(self.waited)
    }
}

impl HttpBody for Unhurried {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            if let Some((since, _)) = self.waiting.take() {
                self.waited += since.elapsed();
            }
            if let Some(Ok(data)) = frame.as_ref().map(|frame| frame.as_ref().map(|frame| frame.data_ref())) {
                self.received += data.map_or(0, Bytes::len) as u64;
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new)));
        }
        let left = self.left();
        let (_, sleep) =
            self.waiting.get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(left))));
        ready!(sleep.as_mut().poll(context));
        self.flag.0.store(true, Ordering::Relaxed);
        let late = std::io::Error::new(std::io::ErrorKind::TimedOut, "the body came too slowly");
        Poll::Ready(Some(Err(axum::Error::new(late))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A connection whose client must read.
pub(crate) struct MustRead<T> {
    inner: T,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<T> MustRead<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, stalled: None }
    }

    fn judged<R>(
        stalled: &mut Option<Pin<Box<Sleep>>>,
        context: &mut Context<'_>,
        done: Poll<std::io::Result<R>>,
    ) -> Poll<std::io::Result<R>> {
        if done.is_ready() {
            *stalled = None;
            return done;
        }
        let sleep = stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALLED)));
        ready!(sleep.as_mut().poll(context));
        Poll::Ready(Err(std::io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for MustRead<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for MustRead<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.inner).poll_write(context, bytes);
        Self::judged(&mut this.stalled, context, done)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.inner).poll_write_vectored(context, slices);
        Self::judged(&mut this.stalled, context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.inner).poll_flush(context);
        Self::judged(&mut this.stalled, context, done)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.inner).poll_shutdown(context);
        Self::judged(&mut this.stalled, context, done)
    }
}
