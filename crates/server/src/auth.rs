//! Who asks. API keys, known by the hash of their secret; tokens of an issuer, where one is configured; and the one-time token of
//! the first start.

use std::sync::{Mutex, PoisonError};

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use ringfence_store::{Role, StoreError};
use rustix::rand::{GetRandomFlags, getrandom};
use subtle::ConstantTimeEq;

use crate::app::Shared;
use crate::error::{Answer, ApiError};
use crate::standing::role_of;

/// Who is behind a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) user: String,
    pub(crate) role: Role,
    /// None: without authentication, by the server's own flag.
    pub(crate) key: Option<String>,
    /// When the key or token ends by itself.
    pub(crate) expires: Option<i64>,
}

/// In place of a key's id, where the caller came with a token.
const BY_TOKEN: &str = "jwt:";

impl Caller {
    pub(crate) fn without_key(user: &str, role: Role) -> Self {
        Self { user: user.to_owned(), role, key: None, expires: None }
    }

    /// Whether they came with a token that somebody else made, which ends by itself.
    pub(crate) fn by_token(&self) -> bool {
        self.key.as_ref().is_some_and(|key| key.starts_with(BY_TOKEN))
    }

    /// May this caller do what takes that role?
    pub(crate) fn needs(&self, role: Role) -> Answer<()> {
        if self.role.covers(role) {
            return Ok(());
        }
        Err(ApiError::forbidden(
            format!("this takes the role {role}, and you are {}", self.role),
            "ask an admin for a key with that role",
        ))
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        parts.extensions.get::<Self>().cloned().ok_or_else(unauthenticated)
    }
}

fn unauthenticated() -> ApiError {
    ApiError::new(
        StatusCode::UNAUTHORIZED,
        "unauthenticated",
        "the request has no key",
        "send `Authorization: Bearer KEY`; `ringfence key create --user NAME` makes one",
    )
}

/// Told alike for a key that never was, one that was revoked and one of somebody who is disabled: whoever tries keys
/// learns nothing.
pub(crate) fn wrong_key() -> ApiError {
    ApiError::new(
        StatusCode::UNAUTHORIZED,
        "wrong_key",
        "the key is not valid",
        "see whether it was copied whole; it may have expired or been revoked",
    )
}

/// What a key looks like: `rf_` and 64 hexadecimal digits.
const PREFIX: &str = "rf_";
const SECRET_BYTES: usize = 32;

/// A new key: what is shown once, and what is kept.
pub fn new_key() -> std::io::Result<(String, [u8; 32])> {
    let key = format!("{PREFIX}{}", random_hex()?);
    let hash = key_hash(&key);
    Ok((key, hash))
}

pub(crate) fn random_hex() -> std::io::Result<String> {
    let mut bytes = [0; SECRET_BYTES];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A key has 256 random bits: a fast hash gives nothing away.
pub fn key_hash(key: &str) -> [u8; 32] {
    *blake3::Hasher::new_derive_key("ringfence api key v1").update(key.as_bytes()).finalize().as_bytes()
}

/// The token of the first start, good for one key.
#[derive(Debug, Default)]
pub(crate) struct FirstToken(Mutex<Option<String>>);

impl FirstToken {
    /// Make one; what it is.
    pub(crate) fn issue(&self) -> std::io::Result<String> {
        let token = random_hex()?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        Ok(token)
    }

    /// It is good no more, used or not.
    pub(crate) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Once only.
    pub(crate) fn redeem(&self, given: &str) -> bool {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let right = held.as_ref().is_some_and(|token| bool::from(token.as_bytes().ct_eq(given.as_bytes())));
        if right {
            *held = None;
        }
        right
    }
}

/// Find out who asks, before anything else of the request is read.
pub(crate) async fn authenticate(
    State(app): State<Shared>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let caller = match bearer(&request)? {
        Some(given) => caller_with(&app, &given).await?,
        None if app.without_authentication => Caller::without_key(LOCAL, Role::Admin),
        None => return Err(unauthenticated()),
    };
    tracing::Span::current().record("enduser.id", caller.user.as_str());
    app.rates.take(&app.config, &caller)?;
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

/// Whose requests are without a key, where that is allowed.
pub(crate) const LOCAL: &str = "local";

fn bearer(request: &Request) -> Answer<Option<String>> {
    let mut given = request.headers().get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else {
        return match request.headers().contains_key(header::AUTHORIZATION) {
            true => Err(wrong_key()),
            false => Ok(None),
        };
    };
    let text = value.to_str().map_err(|_| wrong_key())?;
    let (scheme, key) = text.split_once(' ').ok_or_else(wrong_key)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(wrong_key());
    }
    Ok(Some(key.to_owned()))
}

/// By a key or a token. Whoever has a wrong one is counted too.
async fn caller_with(app: &Shared, given: &str) -> Answer<Caller> {
    let hash = key_hash(given);
    app.rates.try_key(&app.config, &hash)?;
    let found = match given.starts_with(PREFIX) {
        true => caller_of(app, given).await,
        false => caller_by_token(app, given).await,
    };
    app.rates.tried(hash, found.is_ok());
    found
}

async fn caller_of(app: &Shared, key: &str) -> Answer<Caller> {
    let (key, user) = app.store.key_by_hash(&key_hash(key)).await?.ok_or_else(wrong_key)?;
    let now = crate::now();
    let role = role_of(&key, &user, now).ok_or_else(wrong_key)?;
    if key.is_touch_due(now) {
        app.store.touch_key(&key.id).await?;
    }
    Ok(Caller { user: user.name, role, key: Some(key.id), expires: key.expires })
}

/// A token of the configured issuer. Its user is made when first seen; one that an admin disabled or removed stays out.
async fn caller_by_token(app: &Shared, token: &str) -> Answer<Caller> {
    let tokens = app.tokens.as_ref().ok_or_else(wrong_key)?;
    let bearer = tokens.believe(token, crate::now()).await.map_err(|why| {
        tracing::info!(%why, "a token is not believed");
        wrong_key()
    })?;
    let user = match app.store.user(&bearer.user).await? {
        Some(user) => user,
        // The configuration names a local user who is not there: nobody becomes them by a token.
        None if bearer.local => return Err(wrong_key()),
        None => match app.store.add_user(&bearer.user, tokens.max_role()).await {
            // Seen by two requests at once, or removed before.
            Err(StoreError::Taken { .. }) => app.store.user(&bearer.user).await?.ok_or_else(wrong_key)?,
            made => made?,
        },
    };
    if user.disabled {
        return Err(wrong_key());
    }
    let role = bearer.role.shared_with(user.role);
    Ok(Caller {
        key: Some(format!("{BY_TOKEN}{}", user.name)),
        user: user.name,
        role,
        expires: bearer.expires,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_token_is_good_once() {
        let token = FirstToken::default();
        assert!(!token.redeem(""));
        let given = token.issue().unwrap();
        assert!(!token.redeem("wrong"));
        assert!(token.redeem(&given));
        assert!(!token.redeem(&given));
        let given = token.issue().unwrap();
        token.end();
        assert!(!token.redeem(&given));
    }

    #[test]
    fn keys_differ_and_hash_alike() {
        let ((one, hash), (other, _)) = (new_key().unwrap(), new_key().unwrap());
        assert_ne!(one, other);
        assert_eq!(key_hash(&one), hash);
        assert_eq!(one.len(), 67);
    }
}
