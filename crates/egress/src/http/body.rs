//! Bodies on their way through: as they are, rewritten, whole, or with a deadline.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::HeaderMap;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

use crate::swap::{Streaming, Swap};

pub(crate) type BodyError = Box<dyn Error + Send + Sync>;
pub(crate) type Body = UnsyncBoxBody<Bytes, BodyError>;

/// The next part of a body, when there is one.
type NextFrame = Poll<Option<Result<Frame<Bytes>, BodyError>>>;

/// When so long nothing more has come, a message is taken to have ended.
pub(super) const QUIET: Duration = Duration::from_millis(50);
/// Bodies up to this size are rewritten as a whole, so that they keep a length.
pub(super) const WHOLE: u64 = 256 << 10;

pub(crate) fn boxed<B>(body: B) -> Body
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    body.map_err(Into::into).boxed_unsync()
}

pub(crate) fn text(text: String) -> Body {
    boxed(Full::new(Bytes::from(text)))
}

pub(crate) fn empty() -> Body {
    boxed(Empty::new())
}

/// Send the body through `stream`; of an answer (`mask`) the trailers as well. A body of a known, small length comes out
/// with a known length.
pub(super) async fn rewrite(
    mut body: Body,
    mut stream: Streaming,
    mask: Option<Arc<Swap>>,
) -> Result<Body, BodyError> {
    if body.is_end_stream() {
        return Ok(body);
    }
    if body.size_hint().exact().is_none_or(|length| length > WHOLE) {
        return Ok(Rewritten { body, stream, quiet: None, mask, trailers: None, ended: false }.boxed_unsync());
    }
    let mut data = BytesMut::new();
    let mut trailers = None;
    while let Some(frame) = body.frame().await {
        match frame?.into_data() {
            Ok(chunk) => data.extend_from_slice(&stream.push(chunk)),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    data.extend_from_slice(&stream.finish());
    if let (Some(swap), Some(trailers)) = (&mask, &mut trailers) {
        swap.mask_headers(trailers);
    }
    Ok(Whole { data: data.freeze(), trailers }.boxed_unsync())
}

struct Rewritten {
    body: Body,
    stream: Streaming,
    /// Runs while the stream holds a little back and nothing more comes.
    quiet: Option<Pin<Box<Sleep>>>,
    mask: Option<Arc<Swap>>,
    trailers: Option<HeaderMap>,
    ended: bool,
}

impl HttpBody for Rewritten {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> NextFrame {
        let this = &mut *self;
        while !this.ended {
            let frame = match Pin::new(&mut this.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => {
                    this.ended = true;
                    break;
                }
                Poll::Pending if this.stream.holds_little() => {
                    let quiet = this.quiet.get_or_insert_with(|| Box::pin(sleep(QUIET)));
                    ready!(quiet.as_mut().poll(context));
                    this.quiet = None;
                    return Poll::Ready(Some(Ok(Frame::data(this.stream.release()))));
                }
                Poll::Pending => return Poll::Pending,
            };
            this.quiet = None;
            match frame.into_data() {
                Ok(chunk) => {
                    let out = this.stream.push(chunk);
                    if !out.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(out))));
                    }
                }
                Err(frame) => {
                    this.ended = true;
                    this.trailers = frame.into_trailers().ok();
                }
            }
        }
        let rest = this.stream.finish();
        if !rest.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(rest))));
        }
        let Some(mut trailers) = this.trailers.take() else { return Poll::Ready(None) };
        if let Some(swap) = &this.mask {
            swap.mask_headers(&mut trailers);
        }
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }
}

struct Whole {
    data: Bytes,
    trailers: Option<HeaderMap>,
}

impl HttpBody for Whole {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> NextFrame {
        if !self.data.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.data)))));
        }
        Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_empty() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.len() as u64)
    }
}

/// A body that breaks when nothing more of it has come for a while.
pub(super) struct Timely<B> {
    body: B,
    patience: Duration,
    /// Runs while the client is waited for, not while the host takes its time.
    deadline: Pin<Box<Sleep>>,
    waiting: bool,
}

impl<B> Timely<B> {
    pub(super) fn new(body: B, patience: Duration) -> Self {
        Self { body, patience, deadline: Box::pin(sleep(patience)), waiting: true }
    }
}

impl<B> HttpBody for Timely<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BodyError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> NextFrame {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.waiting = false;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        if !std::mem::replace(&mut this.waiting, true) {
            this.deadline.as_mut().reset(Instant::now() + this.patience);
        }
        ready!(this.deadline.as_mut().poll(context));
        Poll::Ready(Some(Err("the client stopped in the middle of a body".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
