//! A server, asked from outside: for `ringfence top`. A key goes over verified TLS, or over loopback, and nowhere else.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderValue, Request, Uri, header};
use ringfence_service::{ErrorCode, ServiceError};

use crate::fetch::{Bounds, Plain, fetch};

const BOUNDS: Bounds = Bounds { plain: Plain::Loopback, body: 16 << 20, time: Duration::from_secs(10) };

#[derive(Clone)]
pub struct Remote {
    base: String,
    key: HeaderValue,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Remote({})", self.base)
    }
}

impl Remote {
    pub fn new(url: &str, key: &str) -> Result<Self, ServiceError> {
        let bad = |message: String, next: &str| ServiceError::new(ErrorCode::BadRequest, message, next);
        let base = url.trim_end_matches('/').to_owned();
        let fits =
            base.parse::<Uri>().is_ok_and(|uri| uri.host().is_some() && matches!(uri.path(), "/" | ""));
        if !fits {
            let next = "give it as `ringfence serve` printed it, such as http://127.0.0.1:7070";
            return Err(bad(format!("`{}` is no address of a server", url.escape_debug()), next));
        }
        let mut key = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| {
            bad("the key has characters that no key has".into(), "see whether it was copied whole")
        })?;
        key.set_sensitive(true);
        Ok(Self { base, key })
    }

    /// Status and body.
    pub async fn get(&self, path: &str) -> Result<(u16, Vec<u8>), ServiceError> {
        let told = |why: String| {
            ServiceError::new(
                ErrorCode::FetchFailed,
                format!("cannot ask {}: {why}", self.base),
                "see whether the server runs there; without TLS only loopback is asked",
            )
        };
        let request = Request::get(format!("{}{path}", self.base)).header(header::AUTHORIZATION, &self.key);
        let request = request.body(Bytes::new()).map_err(|error| told(error.to_string()))?;
        let answer = fetch(request, BOUNDS).await.map_err(|error| told(error.to_string()))?;
        Ok((answer.status().as_u16(), answer.into_body().to_vec()))
    }
}
