//! The outer side of a connection, from the decision to dial to the stream.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

use crate::admission::Admission;
use crate::dial::{DialError, Dialling, HttpDialling, HttpUpstream, dial, dial_http};
use crate::upstream::{ProxyKind, Purpose};

/// An HTTP proxy of the user's wants plain HTTP in another form than the rest, so the client is listened to first; a
/// server that speaks first is kept waiting only this long.
const HOLD: Duration = Duration::from_millis(200);

pub(super) enum Outer {
    /// Dialled at that time, unless the client speaks before.
    Held(Instant),
    Dialling(Dialling),
    Reached(TcpStream),
    Failed(DialError),
}

impl Outer {
    pub(super) fn start(admission: &Admission) -> Self {
        let proxies = admission.gate().proxies();
        let proxy = proxies.for_target(admission.host(), admission.port(), Purpose::PlainHttp);
        if proxy.is_some_and(|proxy| proxy.kind == ProxyKind::Http) {
            Self::Held(Instant::now() + HOLD)
        } else {
            Self::Dialling(begin(admission))
        }
    }

    /// Go on until it is reached or has failed; from then on, wait for ever.
    pub(super) async fn advance(&mut self, admission: &Admission) {
        loop {
            match self {
                Self::Held(until) => {
                    sleep_until(*until).await;
                    *self = Self::Dialling(begin(admission));
                }
                Self::Dialling(dialling) => {
                    *self = match dialling.await {
                        Ok(stream) => Self::Reached(stream),
                        Err(error) => Self::Failed(error),
                    };
                    return;
                }
                Self::Reached(_) | Self::Failed(_) => std::future::pending().await,
            }
        }
    }

    pub(super) fn is_reached(&self) -> bool {
        matches!(self, Self::Reached(_))
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    pub(super) async fn reach(self, admission: &Admission) -> Result<TcpStream, DialError> {
        self.dialling(admission).await
    }

    /// For something that tunnels.
    pub(super) fn dialling(self, admission: &Admission) -> Dialling {
        match self {
            Self::Held(_) => begin(admission),
            Self::Dialling(dialling) => dialling,
            Self::Reached(stream) => Box::pin(std::future::ready(Ok(stream))),
            Self::Failed(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    /// For plain HTTP.
    pub(super) fn http_dialling(self, admission: &Admission) -> HttpDialling {
        match self {
            Self::Held(_) => {
                let admission = admission.clone();
                Box::pin(async move { dial_http(admission.gate(), &admission).await })
            }
            other => {
                let dialling = other.dialling(admission);
                Box::pin(async move { Ok(HttpUpstream { stream: dialling.await?, proxy: None }) })
            }
        }
    }
}

fn begin(admission: &Admission) -> Dialling {
    let admission = admission.clone();
    Box::pin(async move { dial(admission.gate(), &admission).await })
}
