//! A large answer in clear, taken over from hyper on both sides: hyper writes its head, and the body is spliced.
//!
//! hyper copies every byte twice more than a relay does. What it gets as the body is one that never comes; once the
//! head is with the client, its connection is taken from hyper, and ends with this answer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

use super::body::BodyError;
use super::prefixed::Prefixed;
use super::recall::Recalled;
use super::watched::Watched;
use crate::admission::Admission;
use crate::lock::Lock;
use crate::relay::{Pump, Way, reset_on_close};

/// A client that was sent everything closes its side within this, or is closed on.
const FAREWELL: Duration = Duration::from_secs(5);

/// A client's stream, which may be TCP and nothing more.
pub(crate) trait Client: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    const IS_TCP: bool;

    /// What was read from it already is left out.
    fn into_tcp(self) -> Option<TcpStream>;
}

impl Client for TcpStream {
    const IS_TCP: bool = true;

    fn into_tcp(self) -> Option<TcpStream> {
        Some(self)
    }
}

impl<S: Client> Client for Prefixed<S> {
    const IS_TCP: bool = S::IS_TCP;

    fn into_tcp(self) -> Option<TcpStream> {
        self.into_inner().into_tcp()
    }
}

impl<S: Client> Client for Watched<S> {
    const IS_TCP: bool = S::IS_TCP;

    fn into_tcp(self) -> Option<TcpStream> {
        self.into_inner().into_tcp()
    }
}

impl<S: Client> Client for TlsStream<S> {
    const IS_TCP: bool = false;

    fn into_tcp(self) -> Option<TcpStream> {
        None
    }
}

/// Shared between a client's connection and the answers to its requests.
#[derive(Clone, Default)]
pub(super) struct Handover(Arc<Lock<State>>);

#[derive(Default)]
struct State {
    asked: Option<Takeover>,
    /// Since it was asked for.
    is_flushed: bool,
}

impl Handover {
    /// The head is written, or in hyper's buffer.
    fn ask(&self, takeover: Takeover) {
        *self.0.lock() = State { asked: Some(takeover), is_flushed: false };
    }

    pub(super) fn flushed(&self) {
        self.0.lock().is_flushed = true;
    }

    /// What is to be done now that hyper has written everything.
    pub(super) fn due(&self) -> Option<Takeover> {
        let mut state = self.0.lock();
        if state.is_flushed { state.asked.take() } else { None }
    }
}

/// The rest of an answer.
pub(super) struct Takeover {
    admission: Admission,
    length: u64,
    /// What hyper has read of the body, in order. Counted already.
    read: Vec<Bytes>,
    upstream: TcpStream,
}

impl Takeover {
    /// `body`: of the connection that was recalled.
    pub(super) async fn new(admission: Admission, mut body: Incoming, recalled: Recalled) -> Self {
        let length = body.size_hint().exact().unwrap_or_default();
        let mut read = Vec::new();
        // It ends with an error: its connection has gone.
        while let Some(Ok(frame)) = body.frame().await {
            read.extend(frame.into_data());
        }
        read.push(recalled.read);
        let mut left = length;
        for part in &mut read {
            part.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= part.len() as u64;
        }
        Self { admission, length, read, upstream: recalled.stream }
    }

    /// To the end of the answer, and of both connections.
    pub(super) async fn carry(self, client: TcpStream) {
        let Self { admission, length, read, upstream } = self;
        let moving = async {
            let mut pump = Pump::new(&upstream, &client, Way::In, &admission);
            let mut left = length;
            for part in read {
                pump.send_counted(&part).await?;
                left -= part.len() as u64;
            }
            pump.run_exactly(left).await
        };
        // A client that breaks off is not noticed by writing while the host is silent.
        let moved = tokio::select! {
            biased;
            moved = moving => moved,
            _ = client.ready(Interest::ERROR) => {
                admission.settle();
                Err(io::ErrorKind::ConnectionReset.into())
            }
        };
        match moved {
            Ok(()) => {
                drop(upstream);
                see_off(&client).await;
            }
            Err(error) => {
                admission.break_off(&error);
                reset_on_close(&client);
                reset_on_close(&upstream);
            }
        }
    }
}

/// Closing over bytes that a client has sent behind its request would be a reset, and it could lose what it has not read.
async fn see_off(client: &TcpStream) {
    let until_its_end = async {
        let mut nobody_reads = [0; 4096];
        while client.readable().await.is_ok() {
            match client.try_read(&mut nobody_reads) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => return,
            }
        }
    };
    let _ = timeout(FAREWELL, until_its_end).await;
}

/// What hyper takes for the body.
pub(super) struct Awaiting {
    length: u64,
    takeover: Option<Takeover>,
    handover: Handover,
}

impl Awaiting {
    pub(super) fn new(takeover: Takeover, handover: Handover) -> Self {
        Self { length: takeover.length, takeover: Some(takeover), handover }
    }
}

impl HttpBody for Awaiting {
    type Data = Bytes;
    type Error = BodyError;

    /// Asked for when the head is through; whoever drives the connection looks after each time.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(takeover) = self.takeover.take() {
            self.handover.ask(takeover);
        }
        Poll::Pending
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length)
    }
}
