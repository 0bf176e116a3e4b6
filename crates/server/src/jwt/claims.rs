//! What a token says, read strictly: a name that is there twice means two things to two readers, and is refused.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ringfence_store::Role;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{Disbelief, JwtConfig};

pub(super) type Object = Map<String, Value>;

pub(super) fn decoded(part: &str) -> Result<Vec<u8>, Disbelief> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| Disbelief::Malformed)
}

/// One part of a token.
pub(super) fn object(part: &str) -> Result<Object, Disbelief> {
    match strict(&decoded(part)?)? {
        Value::Object(object) => Ok(object),
        _ => Err(Disbelief::Malformed),
    }
}

fn strict(bytes: &[u8]) -> Result<Value, Disbelief> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let told = |error: serde_json::Error| match error.to_string().starts_with(TWICE) {
        true => Disbelief::Twice,
        false => Disbelief::Malformed,
    };
    let value = Strict.deserialize(&mut reader).map_err(told)?;
    reader.end().map_err(|_| Disbelief::Malformed)?;
    Ok(value)
}

const TWICE: &str = "a name is there twice";

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("no number"))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Self)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Object::new();
        while let Some(name) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Self)?;
            if object.insert(name, value).is_some() {
                return Err(de::Error::custom(TWICE));
            }
        }
        Ok(object.into())
    }
}

pub(super) struct Claims(pub(super) Object);

impl Claims {
    /// For us, from whom we believe, and now.
    pub(super) fn check(&self, config: &JwtConfig, now: i64) -> Result<(), Disbelief> {
        if self.0.get("iss").and_then(Value::as_str) != Some(&config.issuer) {
            return Err(Disbelief::Claim("iss"));
        }
        let ours = |value: &Value| value.as_str() == Some(&config.audience);
        let meant = match self.0.get("aud") {
            Some(Value::Array(all)) => all.iter().all(Value::is_string) && all.iter().any(ours),
            Some(one) => ours(one),
            None => false,
        };
        if !meant {
            return Err(Disbelief::Claim("aud"));
        }
        let now = now as f64 / 1000.0;
        let skew = config.clock_skew.duration().as_secs_f64();
        let expires = self.time("exp")?.ok_or(Disbelief::Claim("exp"))?;
        if now >= expires + skew {
            return Err(Disbelief::Expired);
        }
        for name in ["nbf", "iat"] {
            if self.time(name)?.is_some_and(|from| now < from - skew) {
                return Err(Disbelief::Early);
            }
        }
        Ok(())
    }

    fn time(&self, name: &'static str) -> Result<Option<f64>, Disbelief> {
        match self.0.get(name) {
            None => Ok(None),
            Some(value) => {
                let number = value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
                number.map(Some).ok_or(Disbelief::Claim(name))
            }
        }
    }
}

/// A claim by its name, or by a JSON pointer.
pub(super) fn at<'a>(claims: &'a Object, name: &str) -> Option<&'a Value> {
    let Some(pointer) = name.strip_prefix('/') else { return claims.get(name) };
    let mut steps = pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
    let first = claims.get(&steps.next()?)?;
    steps.try_fold(first, |value, step| value.get(&step))
}

pub(super) fn role(value: &Value) -> Option<Role> {
    let named = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
    match value {
        Value::Array(all) => all.iter().find_map(named),
        one => named(one),
    }
}
