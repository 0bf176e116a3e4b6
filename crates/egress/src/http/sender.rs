//! The connection to the host, over which requests go: dialled when it is first needed, and again when it is gone.
//!
//! One client's connection has one of these, so that requests of different clients never share a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::UPGRADE;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::answer::Answer;
use super::authority::{Form, Scheme};
use super::body::Body;
use super::recall::{Recall, Recalled, drive};
use crate::admission::Admission;
use crate::dial::{ForwardProxy, HttpDialling, dial, dial_http};
use crate::terminate::Reach;

/// Read at once, and what a head of HTTP/1 must fit into: what fits a processor's cache is copied again at little cost,
/// and is no new memory each time.
const READ: usize = 64 << 10;
/// Far above what a long poll takes.
const ANSWER: Duration = Duration::from_secs(15 * 60);
const LARGEST_HEAD: usize = 256 << 10;
const MOST_HEADERS: usize = 256;

/// What a host may send of one answer before it is read: enough for a long way, and enough for one of a crowd.
const WIDE: u32 = 2 << 20;
const NARROW: u32 = 128 << 10;

/// What both sides of an exchange speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    /// As TLS negotiates it.
    pub(crate) fn alpn(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 => b"h2",
        }
    }
}

/// How the host is reached.
pub(crate) enum Way {
    Clear,
    Tls(Arc<Reach>),
}

pub(crate) struct Sender {
    admission: Admission,
    way: Way,
    protocol: Protocol,
    /// A dial that was begun before there was a request.
    begun: Mutex<Option<HttpDialling>>,
    open: Mutex<Option<Open>>,
    /// Has the open connection brought an answer yet?
    has_served: AtomicBool,
}

/// An open connection.
pub(crate) enum Open {
    One {
        sender: http1::SendRequest<Body>,
        proxy: Option<ForwardProxy>,
        /// In clear only.
        recall: Option<Recall>,
    },
    Many(http2::SendRequest<Body>),
}

/// No answer came.
pub(crate) enum SendError {
    /// Say this instead.
    Answer(Answer),
    /// A connection that had served before closed at the same moment: do what the host did, and the client tries again.
    Closed,
}

impl Sender {
    pub(crate) fn clear(admission: Admission, protocol: Protocol, begun: Option<HttpDialling>) -> Self {
        Self::new(admission, Way::Clear, protocol, begun, None)
    }

    pub(crate) fn tls(admission: Admission, protocol: Protocol, reach: Arc<Reach>, open: Open) -> Self {
        Self::new(admission, Way::Tls(reach), protocol, None, Some(open))
    }

    fn new(
        admission: Admission,
        way: Way,
        protocol: Protocol,
        begun: Option<HttpDialling>,
        open: Option<Open>,
    ) -> Self {
        let (begun, open) = (Mutex::new(begun), Mutex::new(open));
        Self { admission, way, protocol, begun, open, has_served: AtomicBool::new(false) }
    }

    pub(crate) fn scheme(&self) -> Scheme {
        match self.way {
            Way::Clear => Scheme::Http,
            Way::Tls(_) => Scheme::Https,
        }
    }

    /// `write`: put the target into the form that the connection wants.
    pub(crate) async fn send(
        &self,
        mut request: Request<Body>,
        write: impl Fn(&mut Request<Body>, Form, Option<&str>) -> Result<(), hyper::http::Error>,
    ) -> Result<Response<Incoming>, SendError> {
        let malformed = |error: hyper::http::Error| {
            SendError::Answer(Answer::malformed(&self.admission, error.to_string()))
        };
        loop {
            let (mut open, is_new) = self.ready().await.map_err(SendError::Answer)?;
            let has_served = self.has_served.load(Ordering::Relaxed);
            let sent = match &mut open {
                Open::One { sender, proxy, recall } => {
                    let form = if proxy.is_some() { Form::Absolute } else { Form::Origin };
                    let authorization = proxy.as_ref().and_then(|proxy| proxy.authorization.as_deref());
                    write(&mut request, form, authorization).map_err(malformed)?;
                    if request.headers().contains_key(UPGRADE)
                        && let Some(recall) = recall.take()
                    {
                        recall.allow_upgrade().await;
                    }
                    timeout(ANSWER, sender.try_send_request(request)).await
                }
                Open::Many(sender) => {
                    write(&mut request, Form::Pseudo, None).map_err(malformed)?;
                    timeout(ANSWER, sender.try_send_request(request)).await
                }
            };
            let mut failed = match sent {
                Ok(Ok(response)) => {
                    self.has_served.store(true, Ordering::Relaxed);
                    // The next request waits there until this answer's body is through.
                    if matches!(open, Open::One { .. }) {
                        *self.open.lock().await = Some(open);
                    }
                    return Ok(response);
                }
                Ok(Err(failed)) => failed,
                Err(_) => return Err(self.broken("no answer came in time")),
            };
            if matches!(open, Open::Many(_)) && failed.error().is_closed() {
                self.open.lock().await.take();
            }
            // Not a byte of it was sent: another connection may have it. A new one that fails at once is the host's word.
            match failed.take_message() {
                Some(unsent) if !is_new => request = unsent,
                _ if has_served
                    && self.protocol == Protocol::Http1
                    && failed.error().is_incomplete_message() =>
                {
                    return Err(SendError::Closed);
                }
                _ => return Err(self.explain(failed.error(), has_served)),
            }
        }
    }

    /// Have the connection back in the middle of an answer. `None`: it can't be had, and brings its answer.
    pub(crate) async fn recall(&self) -> Option<Recalled> {
        let mut place = self.open.lock().await;
        match &mut *place {
            Some(Open::One { recall, .. }) => recall.take()?.give_back().await,
            Some(Open::Many(_)) | None => None,
        }
    }

    /// A connection that takes a request now, and whether it was made for it.
    async fn ready(&self) -> Result<(Open, bool), Answer> {
        let mut place = self.open.lock().await;
        let kept = match place.take() {
            Some(Open::One { mut sender, proxy, recall }) => {
                let is_ready = sender.ready().await.is_ok();
                is_ready.then_some(Open::One { sender, proxy, recall })
            }
            Some(Open::Many(sender)) if !sender.is_closed() => {
                *place = Some(Open::Many(sender.clone()));
                Some(Open::Many(sender))
            }
            Some(Open::Many(_)) | None => None,
        };
        if let Some(open) = kept {
            return Ok((open, false));
        }
        let open = self.connect().await?;
        self.has_served.store(false, Ordering::Relaxed);
        if let Open::Many(sender) = &open {
            *place = Some(Open::Many(sender.clone()));
        }
        Ok((open, true))
    }

    async fn connect(&self) -> Result<Open, Answer> {
        let (gate, admission) = (self.admission.gate(), &self.admission);
        let undialled = |error| Answer::undialled(admission, &error);
        match &self.way {
            Way::Clear => {
                let begun = self.begun.lock().await.take();
                let reached = match begun {
                    Some(begun) => begun.await,
                    None => dial_http(gate, admission).await,
                };
                let reached = reached.map_err(undialled)?;
                match (self.protocol, reached.proxy) {
                    // A proxy takes requests in HTTP/1 only.
                    (Protocol::Http2, Some(_)) => {
                        let stream = dial(gate, admission).await.map_err(undialled)?;
                        open(admission, stream, self.protocol, None).await
                    }
                    (protocol, proxy) => open(admission, reached.stream, protocol, proxy).await,
                }
            }
            Way::Tls(reach) => {
                let stream = dial(gate, admission).await.map_err(undialled)?;
                let stream = reach.shake_hands(admission.meter(stream), &[self.protocol]).await;
                let (stream, _) = stream.map_err(|error| error.answer(admission))?;
                open_metered(admission, stream, self.protocol, None).await
            }
        }
    }

    fn broken(&self, why: &str) -> SendError {
        self.admission.fail(why);
        SendError::Answer(Answer::failed(&self.admission, why))
    }

    /// A host that insists on a client certificate says so by breaking a new connection off, at the first request.
    fn explain(&self, error: &hyper::Error, has_served: bool) -> SendError {
        match &self.way {
            Way::Tls(reach) if !has_served && reach.wants_certificate() => {
                SendError::Answer(reach.certificate_wanted().answer(&self.admission))
            }
            _ => self.broken(&format!("it broke the connection off ({})", chain(error))),
        }
    }
}

/// An error and what is behind it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

async fn open(
    admission: &Admission,
    stream: TcpStream,
    protocol: Protocol,
    proxy: Option<ForwardProxy>,
) -> Result<Open, Answer> {
    let stream = admission.meter(stream);
    if protocol == Protocol::Http2 {
        return open_metered(admission, stream, protocol, proxy).await;
    }
    let (sender, connection) = begin_http1(admission, stream).await?;
    let (recall, orders) = Recall::new();
    let held = admission.clone();
    tokio::spawn(async move {
        drive(connection, orders).await;
        drop(held);
    });
    Ok(Open::One { sender, proxy, recall: Some(recall) })
}

async fn begin_http1<S>(
    admission: &Admission,
    stream: S,
) -> Result<(http1::SendRequest<Body>, http1::Connection<TokioIo<S>, Body>), Answer>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    http1::Builder::new()
        .preserve_header_case(true)
        .max_headers(MOST_HEADERS)
        .max_header_size(READ)
        .read_buf_exact_size(Some(READ))
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| not_begun(admission, &error))
}

fn not_begun(admission: &Admission, error: &hyper::Error) -> Answer {
    Answer::failed(admission, &format!("HTTP can't begin ({})", chain(error)))
}

/// Begin HTTP on a stream whose bytes are counted already.
pub(crate) async fn open_metered<S>(
    admission: &Admission,
    stream: S,
    protocol: Protocol,
    proxy: Option<ForwardProxy>,
) -> Result<Open, Answer>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // Held by the connection: what it carries is counted before the end is reported.
    let held = admission.clone();
    match protocol {
        Protocol::Http1 => {
            let (sender, connection) = begin_http1(admission, stream).await?;
            tokio::spawn(async move {
                let _ = connection.with_upgrades().await;
                drop(held);
            });
            Ok(Open::One { sender, proxy, recall: None })
        }
        Protocol::Http2 => {
            let stream_window = if admission.gate().is_crowded() { NARROW } else { WIDE };
            let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_header_list_size(LARGEST_HEAD as u32)
                .initial_stream_window_size(stream_window)
                .initial_connection_window_size(2 * stream_window)
                .handshake(TokioIo::new(stream))
                .await
                .map_err(|error| not_begun(admission, &error))?;
            tokio::spawn(async move {
                let _ = connection.await;
                drop(held);
            });
            Ok(Open::Many(sender))
        }
    }
}
