//! Bodies and queries, read strictly: what can't be understood whole is refused with the reason.

use std::fmt;
use std::marker::PhantomData;

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::error::ApiError;

/// A JSON body.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match axum::Json::<Object<T>>::from_request(request, state).await {
            Ok(axum::Json(Object(body))) => Ok(Self(body)),
            Err(rejection) => Err(refused_body(&rejection)),
        }
    }
}

/// An object and nothing else: serde would take a list for a structure too, field by field.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfObject(PhantomData))
    }
}

struct OfObject<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OfObject<T> {
    type Value = Object<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

fn refused_body(rejection: &JsonRejection) -> ApiError {
    let (code, hint) = match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ("too_large", "send less; files can be uploaded one by one"),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => ("bad_media_type", "send `Content-Type: application/json`"),
        _ => ("bad_body", "correct the body; /docs shows what it may hold"),
    };
    // A text that is no JSON and one that is the wrong JSON are one thing to whoever sent it.
    let status = match rejection.status() {
        StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
        status => status,
    };
    ApiError::new(status, code, rejection.body_text(), hint)
}

/// The part of a URL behind `?`.
#[derive(Debug)]
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read: Result<_, QueryRejection> =
            axum::extract::Query::<T>::from_request_parts(parts, state).await;
        read.map(|axum::extract::Query(query)| Self(query)).map_err(|rejection| {
            ApiError::new(
                StatusCode::BAD_REQUEST,
                "bad_query",
                rejection.body_text(),
                "correct the part behind `?`; /docs shows what it may hold",
            )
        })
    }
}

/// The parts of a path.
#[derive(Debug)]
pub(crate) struct Named<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read: Result<_, PathRejection> = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        read.map(|axum::extract::Path(path)| Self(path)).map_err(|rejection| {
            ApiError::new(StatusCode::NOT_FOUND, "not_found", rejection.body_text(), "correct the path")
        })
    }
}
