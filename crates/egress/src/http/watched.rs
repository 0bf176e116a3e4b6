//! A client's stream that is looked at for ambiguous requests while hyper reads it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::framing::Framing;
use super::write_through::write_through;
use crate::lock::Lock;

/// What was found; shared between the stream and whoever answers its requests.
#[derive(Clone, Default)]
pub(crate) struct Finding(Arc<Lock<Found>>);

#[derive(Default)]
struct Found {
    why: Option<&'static str>,
    told: bool,
    is_http: bool,
}

impl Finding {
    /// Set before hyper has parsed the request in which it was found. Whoever asks records it.
    pub(crate) fn why(&self) -> Option<&'static str> {
        let mut found = self.0.lock();
        found.told |= found.why.is_some();
        found.why
    }

    /// What nobody has asked for yet: it was found behind the last request that was answered.
    pub(crate) fn untold(&self) -> Option<&'static str> {
        let found = self.0.lock();
        found.why.filter(|_| !found.told)
    }

    /// Was there any request at all?
    pub(crate) fn is_http(&self) -> bool {
        self.0.lock().is_http
    }
}

pub(crate) struct Watched<S> {
    stream: S,
    framing: Framing,
    finding: Finding,
}

impl<S> Watched<S> {
    /// What is wrong with its requests goes into `finding`.
    pub(crate) fn new(stream: S, finding: Finding) -> Self {
        Self { stream, framing: Framing::new(), finding }
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
        let wrong = self.framing.feed(&buffer.filled()[before..]).err();
        let mut found = self.finding.0.lock();
        found.why = found.why.or(wrong);
        found.is_http = self.framing.is_http();
        drop(found);
        Poll::Ready(Ok(()))
    }
}

write_through!(Watched);
