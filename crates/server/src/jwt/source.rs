//! Where keys come from: a secret in a file, a set in a file, or a set behind a URL. Keys that are known stay known while
//! their source is dead; one that was taken out of the set goes with the next successful look.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, Uri, header};
use ringfence_service::{ErrorCode, ServiceError};
use tokio::time::Instant;

use super::JwtConfig;
use super::keys::{KeySet, LEAST_SECRET, MOST_BYTES};
use crate::fetch::{Bounds, Plain, fetch};

/// Tokens with made-up key names can have the keys looked for again this often.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
const FETCH_TIME: Duration = Duration::from_secs(10);
/// While no keys are known yet.
const RETRY: Duration = Duration::from_secs(2);

#[derive(Debug)]
enum Place {
    Secret,
    File(PathBuf),
    Url { uri: Uri, plain: Plain },
}

#[derive(Debug)]
pub(crate) struct Source {
    place: Place,
    every: Duration,
    keys: RwLock<Arc<KeySet>>,
    /// One look at a time; when the last one was.
    looked: tokio::sync::Mutex<Option<Instant>>,
}

fn bad(why: String) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadPolicy,
        format!("[jwt]: {why}"),
        "correct server.toml; see docs/server.md",
    )
}

impl Source {
    pub(super) fn new(config: &JwtConfig) -> Result<Self, ServiceError> {
        if config.issuer.is_empty() || config.audience.is_empty() {
            return Err(bad("issuer and audience can't be empty".into()));
        }
        let (place, keys) = match (&config.secret_file, &config.jwks_file, &config.jwks_url) {
            (Some(path), None, None) => (Place::Secret, KeySet::secret(&secret(path)?)),
            (None, Some(path), None) => {
                let bytes =
                    std::fs::read(path).map_err(|error| bad(format!("{}: {error}", path.display())))?;
                let keys = KeySet::from_jwks(&bytes);
                (Place::File(path.clone()), keys.map_err(|why| bad(format!("{}: {why}", path.display())))?)
            }
            (None, None, Some(url)) => (url_place(url, config.jwks_plain_loopback)?, KeySet::default()),
            _ => return Err(bad("give one of secret_file, jwks_file and jwks_url".into())),
        };
        Ok(Self {
            place,
            every: config.jwks_refresh.duration().max(Duration::from_secs(1)),
            keys: RwLock::new(Arc::new(keys)),
            looked: tokio::sync::Mutex::new(None),
        })
    }

    pub(super) fn keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) async fn follow(&self) {
        if matches!(self.place, Place::Secret) {
            return;
        }
        loop {
            self.refresh().await;
            let known = self.keys().len() > 0;
            tokio::time::sleep(if known { self.every } else { RETRY }).await;
        }
    }

    /// Look again unless somebody just did; whether there may be other keys now.
    pub(super) async fn refresh_if_due(&self) -> bool {
        if matches!(self.place, Place::Secret) {
            return false;
        }
        let mut looked = match self.looked.try_lock() {
            Ok(looked) => looked,
            // Somebody is looking: what they find is ours too.
            Err(_) => {
                drop(self.looked.lock().await);
                return true;
            }
        };
        if looked.is_some_and(|at| at.elapsed() < LOOK_AGAIN) {
            return false;
        }
        self.look().await;
        *looked = Some(Instant::now());
        true
    }

    pub(super) async fn refresh(&self) {
        let mut looked = self.looked.lock().await;
        self.look().await;
        *looked = Some(Instant::now());
    }

    async fn look(&self) {
        let read = match &self.place {
            Place::Secret => return,
            Place::File(path) => tokio::fs::read(path).await.map_err(|error| error.to_string()),
            Place::Url { uri, plain } => fetched(uri, *plain).await,
        };
        match read.and_then(|bytes| KeySet::from_jwks(&bytes)) {
            Ok(keys) => *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys),
            Err(why) => {
                tracing::warn!(why, known = self.keys().len(), "the keys of tokens can't be read again")
            }
        }
    }
}

fn url_place(url: &str, loopback: bool) -> Result<Place, ServiceError> {
    let uri: Uri = url.parse().map_err(|error| bad(format!("jwks_url: {error}")))?;
    let plain = if loopback { Plain::Loopback } else { Plain::Never };
    match uri.scheme_str() {
        Some("https") => {}
        Some("http") if loopback => {}
        _ => {
            return Err(bad(
                "jwks_url must be https; on loopback it may be http with `jwks_plain_loopback = true`".into(),
            ));
        }
    }
    Ok(Place::Url { uri, plain })
}

async fn fetched(uri: &Uri, plain: Plain) -> Result<Vec<u8>, String> {
    let request = Request::get(uri.clone()).header(header::ACCEPT, "application/json").body(Bytes::new());
    let request = request.map_err(|error| error.to_string())?;
    let answer = fetch(request, Bounds { plain, body: MOST_BYTES, time: FETCH_TIME });
    let answer = answer.await.map_err(|error| error.to_string())?;
    match answer.status().as_u16() {
        200 => Ok(answer.into_body().to_vec()),
        status => Err(format!("the server of the keys answered {status}")),
    }
}

fn secret(path: &Path) -> Result<Vec<u8>, ServiceError> {
    let told = |why: String| bad(format!("secret_file {}: {why}", path.display()));
    let facts = std::fs::metadata(path).map_err(|error| told(error.to_string()))?;
    if !facts.is_file() {
        return Err(told("it is no file".into()));
    }
    if facts.mode() & 0o007 != 0 {
        return Err(told("everybody on this machine can read it: chmod 600".into()));
    }
    let mut bytes = std::fs::read(path).map_err(|error| told(error.to_string()))?;
    while bytes.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        bytes.pop();
    }
    if bytes.len() < LEAST_SECRET {
        return Err(told(format!("it has {} bytes, and at least {LEAST_SECRET} are needed", bytes.len())));
    }
    Ok(bytes)
}
