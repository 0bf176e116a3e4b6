//! The keys that tokens are believed by. Each has its one algorithm; a token can't use a key with another.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;

use super::Disbelief;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Hs256,
    Rs256,
    Es256,
}

impl Algorithm {
    /// Exactly as written: `none`, `NONE`, `hs256` and all others are not.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "HS256" => Some(Self::Hs256),
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
        }
    }
}

enum Material {
    Secret(hmac::Key),
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point of P-256.
    Point(Vec<u8>),
}

struct Key {
    kid: Option<String>,
    material: Material,
}

impl Key {
    fn algorithm(&self) -> Algorithm {
        match self.material {
            Material::Secret(_) => Algorithm::Hs256,
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::Point(_) => Algorithm::Es256,
        }
    }

    fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Secret(key) => hmac::verify(key, signed, signature).is_ok(),
            Material::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature).is_ok()
            }
            Material::Point(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature).is_ok()
            }
        }
    }
}

/// What is known. Nothing of it is ever printed.
#[derive(Default)]
pub(super) struct KeySet(Vec<Key>);

impl std::fmt::Debug for KeySet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "KeySet({} keys)", self.0.len())
    }
}

/// Bytes of a set, and keys in it.
pub(super) const MOST_BYTES: usize = 256 << 10;
const MOST_KEYS: usize = 64;
pub(super) const LEAST_SECRET: usize = 32;

#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    kid: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    pub(super) fn secret(secret: &[u8]) -> Self {
        Self(vec![Key { kid: None, material: Material::Secret(hmac::Key::new(hmac::HMAC_SHA256, secret)) }])
    }

    /// A JSON Web Key Set: its public keys for RS256 and ES256. Others are left out, shared secrets above all: whoever may
    /// read the set could sign with them.
    pub(super) fn from_jwks(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MOST_BYTES {
            return Err(format!("it is longer than {MOST_BYTES} bytes"));
        }
        let set: JwkSet = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if set.keys.len() > MOST_KEYS {
            return Err(format!("it has more than {MOST_KEYS} keys"));
        }
        let keys: Vec<Key> = set.keys.into_iter().filter_map(Jwk::usable).collect();
        if keys.is_empty() {
            return Err("it has no public key for RS256 or ES256".into());
        }
        for (index, key) in keys.iter().enumerate() {
            let same = |other: &Key| key.kid.is_some() && other.kid == key.kid;
            if keys[..index].iter().any(same) {
                return Err("two of its keys have one `kid`".into());
            }
        }
        Ok(Self(keys))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn verify(
        &self,
        algorithm: Algorithm,
        kid: Option<&str>,
        signed: &[u8],
        signature: &[u8],
    ) -> Result<(), Disbelief> {
        // Which kind of key there is, is not the token's to say: a public key is never taken for a shared secret.
        let is_secret = self.0.iter().any(|key| key.algorithm() == Algorithm::Hs256);
        if is_secret != (algorithm == Algorithm::Hs256) {
            return Err(Disbelief::Algorithm);
        }
        let fitting = self.0.iter().filter(|key| key.algorithm() == algorithm);
        // A shared secret is one key whatever it is called. Of public keys the named one counts; without a name, the only one.
        let named: Vec<&Key> = match (algorithm, kid) {
            (Algorithm::Hs256, _) | (_, None) => fitting.collect(),
            (_, Some(kid)) => fitting.filter(|key| key.kid.as_deref() == Some(kid)).collect(),
        };
        let [key] = named[..] else { return Err(Disbelief::UnknownKey) };
        if key.verifies(signed, signature) { Ok(()) } else { Err(Disbelief::Signature) }
    }
}

impl Jwk {
    fn usable(self) -> Option<Key> {
        let coded = |text: Option<String>| URL_SAFE_NO_PAD.decode(text?.as_bytes()).ok();
        let verifies = self.usage.as_deref().is_none_or(|usage| usage == "sig")
            && self.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        let material = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => Material::Rsa { n: coded(self.n)?, e: coded(self.e)? },
            ("EC", Some("P-256")) => {
                let (x, y) = (coded(self.x)?, coded(self.y)?);
                if x.len() != 32 || y.len() != 32 {
                    return None;
                }
                Material::Point([&[4], x.as_slice(), y.as_slice()].concat())
            }
            _ => return None,
        };
        let key = Key { kid: self.kid, material };
        let its_own = self.alg.is_none_or(|alg| alg == key.algorithm().name());
        (verifies && its_own).then_some(key)
    }
}
