//! `/v1/secrets`: values that a user's sandboxes may use and never see. They are kept sealed, each user's apart, and nobody
//! gets one back.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use ringfence_policy::ActionKind;
use ringfence_service::{SecretValue, remove_secret, set_secret, stored_secrets};
use ringfence_store::{Outcome, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::actions::{ActionAnswer, ClaimQuery};
use super::pages::page;
use super::people::{PageQuery, entry};
use crate::actions::{Claim, Intent, Pass, pass};
use crate::app::Shared;
use crate::auth::Caller;
use crate::blocking;
use crate::body::{Asked, Body, Named};
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};

/// What one user may have.
const MOST: usize = 256;

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(set, delete))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretRequest {
    /// One line of text, up to 64 KiB.
    value: String,
    /// The action that was approved for exactly this request.
    action: Option<String>,
    /// Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SecretPage {
    /// Their names; no value is ever told.
    secrets: Vec<String>,
    /// For `after` of the next page; null at the end.
    next: Option<String>,
}

/// The names of your secrets.
#[utoipa::path(
    get, path = "/secrets", tag = "secrets", params(PageQuery),
    responses((status = 200, body = SecretPage), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Asked(query): Asked<PageQuery>,
) -> Answer<Json<SecretPage>> {
    let places = app.places_of(&caller.user)?;
    let names = blocking(move || Ok(stored_secrets(&places)?.names)).await?;
    let (secrets, next) = page(names, query.after.as_deref(), query.limit, Clone::clone)?;
    Ok(Json(SecretPage { secrets, next }))
}

/// Keep a secret, in place of an older one of that name. A sandbox that has it already goes on with the old one.
#[utoipa::path(
    put, path = "/secrets/{name}", tag = "secrets", params(("name" = String, Path)), request_body = SecretRequest,
    responses(
        (status = 204),
        (status = 202, description = "Nothing was changed: a person has to approve this action first", body = ActionAnswer),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn set(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(name): Named<String>,
    Body(request): Body<SecretRequest>,
) -> Answer<Response> {
    caller.needs(Role::Operator)?;
    // Of the value only its digest, under a key of its own: nobody who decides can guess at it by what they are shown.
    let digest = blake3::derive_key("ringfence secret of an action v1", request.value.as_bytes());
    let claim = Claim { action: request.action, wait_ms: request.wait_ms };
    let intent = Intent::about(
        ActionKind::SecretSet,
        &name,
        &(&caller.user, digest),
        json!({ "secret": name }),
        claim,
    )?;
    let pass = match pass(&app, &caller, &request_id, intent.asked_by(&app, &caller, &caller.user)).await? {
        Ok(pass) => pass,
        Err(waiting) => return Ok(waiting),
    };
    let (places, called) = (app.places_of(&caller.user)?, name.clone());
    blocking(move || {
        let names = stored_secrets(&places)?.names;
        if names.len() >= MOST && !names.contains(&called) {
            return Err(ApiError::too_many(format!("you have {MOST} secrets"), "remove one first", 5));
        }
        let value = SecretValue::read(request.value.as_bytes())?;
        set_secret(&places, &called, &value).map_err(|error| ApiError {
            hint: "name it with letters, digits and `_`; give a value that is not empty".into(),
            ..error.into()
        })
    })
    .await?;
    done(&app, &caller, &request_id, ActionKind::SecretSet, name, pass).await
}

/// Remove a secret. A sandbox that has it already goes on with it.
#[utoipa::path(
    delete, path = "/secrets/{name}", tag = "secrets", params(("name" = String, Path), ClaimQuery),
    responses(
        (status = 204),
        (status = 202, description = "Nothing was changed: a person has to approve this action first", body = ActionAnswer),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(name): Named<String>,
    Asked(query): Asked<ClaimQuery>,
) -> Answer<Response> {
    caller.needs(Role::Operator)?;
    let claim = Claim { action: query.action, wait_ms: query.wait_ms };
    let intent =
        Intent::about(ActionKind::SecretDelete, &name, &caller.user, json!({ "secret": name }), claim)?;
    let pass = match pass(&app, &caller, &request_id, intent.asked_by(&app, &caller, &caller.user)).await? {
        Ok(pass) => pass,
        Err(waiting) => return Ok(waiting),
    };
    let (places, called) = (app.places_of(&caller.user)?, name.clone());
    let there = blocking(move || {
        let there = stored_secrets(&places)?.names.contains(&called);
        if there {
            remove_secret(&places, &called)?;
        }
        Ok(there)
    });
    if !there.await? {
        return Err(ApiError::not_found("secret", &name));
    }
    done(&app, &caller, &request_id, ActionKind::SecretDelete, name, pass).await
}

async fn done(
    app: &Shared,
    caller: &Caller,
    request_id: &RequestId,
    kind: ActionKind,
    name: String,
    pass: Pass,
) -> Answer<Response> {
    let mut told = json!({});
    pass.add_to(&mut told);
    app.record(entry(caller, request_id, kind.as_str(), Some(name), told)).await?;
    pass.finish(Outcome::Done, Value::Null).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
