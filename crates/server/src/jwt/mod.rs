//! JSON Web Tokens: who somebody else says that you are.
//!
//! Invariant: a token chooses nothing. The configuration says which kind of key there is, and a key is used with its own
//! algorithm only; headers that name a key or a place to fetch one from are not read. A token's user is one of its own kind
//! unless the configuration maps it to a local user, and its role is never above `max_role`.

mod claims;
mod keys;
mod source;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;

use ringfence_policy::Span;
use ringfence_service::ServiceError;
use ringfence_store::Role;
use serde::Deserialize;

pub(crate) use source::Source;

use claims::{Claims, Object, object};
use keys::{Algorithm, KeySet};

/// `[jwt]` in `server.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JwtConfig {
    /// What `iss` must be.
    pub issuer: String,
    /// What `aud` must be, or have among others.
    pub audience: String,
    /// HS256: a file with at least 32 bytes, readable by the server's user alone.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// RS256 and ES256: a JSON Web Key Set.
    #[serde(default)]
    pub jwks_file: Option<PathBuf>,
    /// The same, fetched over verified TLS.
    #[serde(default)]
    pub jwks_url: Option<String>,
    /// `jwks_url` may be `http://` on this machine's loopback.
    #[serde(default)]
    pub jwks_plain_loopback: bool,
    /// How long fetched keys are taken as they are.
    #[serde(default = "refresh")]
    pub jwks_refresh: Span,
    /// The claim that says who it is.
    #[serde(default = "user_claim")]
    pub user_claim: String,
    /// The claim that says what they may: a role, or a list of which the first that is a role counts. A JSON pointer where it
    /// begins with `/`.
    #[serde(default = "role_claim")]
    pub role_claim: String,
    /// Who has no role in their token. None: they are refused.
    #[serde(default)]
    pub default_role: Option<Role>,
    /// No token is worth more.
    #[serde(default = "max_role")]
    pub max_role: Role,
    /// How wrong clocks may be.
    #[serde(default = "clock_skew")]
    pub clock_skew: Span,
    /// Who is a local user: what the user claim says, and that user's name.
    #[serde(default)]
    pub users: HashMap<String, String>,
}

fn refresh() -> Span {
    Span::from_secs(300)
}
fn user_claim() -> String {
    "sub".into()
}
fn role_claim() -> String {
    "role".into()
}
fn max_role() -> Role {
    Role::Operator
}
fn clock_skew() -> Span {
    Span::from_secs(60)
}

/// Users of tokens have names that no local user can have.
pub(crate) const PREFIX: &str = "jwt.";
/// Far more than any issuer sends, and less than a request's head may hold.
const LONGEST: usize = 8 << 10;
const LONGEST_USER: usize = 256;

/// Why a token is not believed: for the log. Whoever sent it is told nothing of this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Disbelief {
    #[error("it is longer than {LONGEST} bytes")]
    TooLong,
    #[error("it is not three parts of base64url, the first two of them JSON objects")]
    Malformed,
    #[error("a name is there twice")]
    Twice,
    #[error("its header has `{0}`, which must be understood and is not")]
    Critical(&'static str),
    #[error("its algorithm is not that of a key which is known")]
    Algorithm,
    #[error("no key is known by its `kid`")]
    UnknownKey,
    #[error("its signature is wrong")]
    Signature,
    #[error("its `{0}` is missing or wrong")]
    Claim(&'static str),
    #[error("it has expired")]
    Expired,
    #[error("it is not good yet")]
    Early,
    #[error("it has no role")]
    NoRole,
}

/// Who a token speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bearer {
    pub(crate) user: String,
    /// Whether that is a local user, by the configuration.
    pub(crate) local: bool,
    /// At most `max_role`.
    pub(crate) role: Role,
    /// When it ends, in milliseconds since 1970.
    pub(crate) expires: Option<i64>,
}

/// What believes tokens.
#[derive(Debug)]
pub(crate) struct Tokens {
    config: JwtConfig,
    source: Source,
}

impl Tokens {
    pub(crate) fn new(config: JwtConfig) -> Result<Self, ServiceError> {
        let source = Source::new(&config)?;
        Ok(Self { config, source })
    }

    pub(crate) fn max_role(&self) -> Role {
        self.config.max_role
    }

    /// Fetch the keys, and again from time to time, for as long as the server runs.
    pub(crate) async fn follow(&self) {
        self.source.follow().await;
    }

    /// Read the keys again, now.
    pub(crate) async fn reload(&self) {
        self.source.refresh().await;
    }

    /// Who it is, at this time in milliseconds since 1970. Keys that are not known are looked for once.
    pub(crate) async fn believe(&self, token: &str, now: i64) -> Result<Bearer, Disbelief> {
        match believe(&self.config, &self.source.keys(), token, now) {
            Err(Disbelief::UnknownKey) if self.source.refresh_if_due().await => {
                believe(&self.config, &self.source.keys(), token, now)
            }
            done => done,
        }
    }
}

/// Pure: the same token, keys and time give the same answer.
fn believe(config: &JwtConfig, keys: &KeySet, token: &str, now: i64) -> Result<Bearer, Disbelief> {
    if token.len() > LONGEST {
        return Err(Disbelief::TooLong);
    }
    let mut parts = token.split('.');
    let (Some(head), Some(body), Some(signature), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Disbelief::Malformed);
    };
    let header = object(head)?;
    for name in ["crit", "b64", "zip", "enc"] {
        if header.contains_key(name) {
            return Err(Disbelief::Critical(name));
        }
    }
    let algorithm = header.get("alg").and_then(|alg| alg.as_str()).and_then(Algorithm::named);
    let algorithm = algorithm.ok_or(Disbelief::Algorithm)?;
    let kid = match header.get("kid") {
        None => None,
        Some(serde_json::Value::String(kid)) => Some(kid.as_str()),
        Some(_) => return Err(Disbelief::Malformed),
    };
    let signature = claims::decoded(signature)?;
    // What is signed is the text as it came, so nothing of the body is looked at before its signature.
    let signed = &token[..head.len() + 1 + body.len()];
    keys.verify(algorithm, kid, signed.as_bytes(), &signature)?;
    let claims = Claims(object(body)?);
    claims.check(config, now)?;
    bearer(config, &claims.0)
}

fn bearer(config: &JwtConfig, claims: &Object) -> Result<Bearer, Disbelief> {
    let subject = claims::at(claims, &config.user_claim).and_then(|value| value.as_str());
    let subject = subject.filter(|text| !text.is_empty() && text.len() <= LONGEST_USER);
    let subject = subject.ok_or(Disbelief::Claim("user claim"))?;
    let role = claims::at(claims, &config.role_claim).and_then(claims::role).or(config.default_role);
    let role = role.ok_or(Disbelief::NoRole)?.shared_with(config.max_role);
    let local = config.users.get(subject);
    let user = local.cloned().unwrap_or_else(|| name_of(&config.issuer, subject));
    let expires = claims.get("exp").and_then(|end| end.as_f64());
    let expires = expires.map(|end| ((end + config.clock_skew.duration().as_secs_f64()) * 1000.0) as i64);
    Ok(Bearer { user, local: local.is_some(), role, expires })
}

/// A name that is a user's: readable where it can be, and never two subjects' at once.
fn name_of(issuer: &str, subject: &str) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("ringfence jwt user v1");
    hasher.update(&(issuer.len() as u64).to_le_bytes()).update(issuer.as_bytes()).update(subject.as_bytes());
    let digest = hasher.finalize().to_hex();
    let readable: String = subject
        .chars()
        .map(|letter| letter.to_ascii_lowercase())
        .filter(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || *letter == '-')
        .take(16)
        .collect();
    format!("{PREFIX}{readable}.{}", &digest[..32])
}
