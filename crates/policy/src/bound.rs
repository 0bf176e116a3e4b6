//! A limit as written in a layer: a value, or `"none"`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::units::{FromScalar, Scalar, shown};

/// A limit: this much, or explicitly none (which differs from a limit that is left out).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound<T> {
    At(T),
    Unlimited,
}

impl<T> Bound<T> {
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Bound<U> {
        match self {
            Bound::At(value) => Bound::At(f(value)),
            Bound::Unlimited => Bound::Unlimited,
        }
    }

    /// The form of the resolved policy: `None` is no limit.
    pub fn into_option(self) -> Option<T> {
        match self {
            Bound::At(value) => Some(value),
            Bound::Unlimited => None,
        }
    }
}

/// A number of processors, above 0.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, JsonSchema)]
#[schemars(extend("exclusiveMinimum" = 0))]
pub struct Cpus(pub f64);

impl FromScalar for Cpus {
    fn from_scalar(scalar: Scalar) -> Result<Self, String> {
        match scalar {
            Scalar::Integer(n) => Ok(Self(n as f64)),
            Scalar::Number(n) => Ok(Self(n)),
            Scalar::Text(text) => Err(format!(
                "`{}` is not a number of processors, write a number like 1.5 or \"none\"",
                shown(&text)
            )),
        }
    }
}

impl FromScalar for u32 {
    fn from_scalar(scalar: Scalar) -> Result<Self, String> {
        let wrong = |what: String| format!("{what} is not a whole number up to {}, or \"none\"", u32::MAX);
        match scalar {
            Scalar::Integer(n) => u32::try_from(n).map_err(|_| wrong(n.to_string())),
            Scalar::Number(n) => Err(wrong(n.to_string())),
            Scalar::Text(text) => Err(wrong(format!("`{}`", shown(&text)))),
        }
    }
}

impl<'de, T: FromScalar> Deserialize<'de> for Bound<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Scalar::deserialize(deserializer)? {
            Scalar::Text(text) if text == "none" => Ok(Bound::Unlimited),
            scalar => T::from_scalar(scalar).map(Bound::At).map_err(de::Error::custom),
        }
    }
}

impl<T: Serialize> Serialize for Bound<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Bound::At(value) => value.serialize(serializer),
            Bound::Unlimited => serializer.serialize_str("none"),
        }
    }
}

impl<T: JsonSchema> JsonSchema for Bound<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("LimitOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [value, { "const": "none", "description": "No limit." }] })
    }
}
