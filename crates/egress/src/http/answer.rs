//! What egress itself answers: short text that says what was refused, why, and what would grant it.

use hyper::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode, Version};
use ringfence_policy::{Blocked, NetworkReason, remedy};

use super::body::{Body, text};
use crate::admission::Admission;
use crate::dial::DialError;

/// An answer that can be given to more than one request.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    text: String,
}

impl Answer {
    /// Against the rules.
    pub(crate) fn refused(host: &str, port: Option<u16>, reason: &NetworkReason) -> Self {
        let status = match reason {
            NetworkReason::Malformed { .. } => StatusCode::BAD_REQUEST,
            NetworkReason::Certificate { .. } | NetworkReason::Unresolved => StatusCode::BAD_GATEWAY,
            NetworkReason::Connections { .. } => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::FORBIDDEN,
        };
        let blocked = Blocked::Network { host: host.to_owned(), port, process: None, reason: reason.clone() };
        Self { status, text: remedy(&blocked).sentence }
    }

    /// The same for a connection that was admitted; recorded here.
    pub(crate) fn refuse(admission: &Admission, reason: NetworkReason) -> Self {
        let answer = Self::refused(&admission.host().to_string(), Some(admission.port()), &reason);
        admission.refuse(reason);
        answer
    }

    /// A request that no careful server would take; recorded here.
    pub(crate) fn malformed(admission: &Admission, why: impl Into<String>) -> Self {
        Self::refuse(admission, NetworkReason::Malformed { why: why.into() })
    }

    /// The host, or the way to it, failed.
    pub(crate) fn failed(admission: &Admission, why: &str) -> Self {
        let (host, port) = (admission.host(), admission.port());
        Self { status: StatusCode::BAD_GATEWAY, text: format!("{host} port {port}: {why}") }
    }

    /// More requests wait for answers than egress keeps in memory.
    pub(crate) fn too_many(admission: &Admission) -> Self {
        let why = "too many requests of this sandbox wait for their answers";
        admission.fail(why);
        Self { status: StatusCode::SERVICE_UNAVAILABLE, ..Self::failed(admission, why) }
    }

    pub(crate) fn undialled(admission: &Admission, error: &DialError) -> Self {
        match error {
            // Recorded where it was found out.
            DialError::Refused(reason) => {
                Self::refused(&admission.host().to_string(), Some(admission.port()), reason)
            }
            DialError::TimedOut => {
                Self { status: StatusCode::GATEWAY_TIMEOUT, ..Self::failed(admission, &error.to_string()) }
            }
            DialError::Failed(_) | DialError::Proxy(_) => Self::failed(admission, &error.to_string()),
        }
    }

    /// In HTTP/1 nothing more is taken from this connection.
    pub(crate) fn response(&self, version: Version) -> Response<Body> {
        let mut response = Response::new(text(format!("ringfence: {}\n", self.text)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if version < Version::HTTP_2 {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
