//! `/v1/audit`: what happened, and the proof that the record is whole.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream::try_unfold;
use ringfence_store::{AuditFilter, Role, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::bounds::PageLimit;
use super::pages::page_size;
use crate::app::Shared;
use crate::auth::Caller;
use crate::body::Asked;
use crate::error::{Answer, ApiError, ErrorBody};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(query)).routes(routes!(export)).routes(routes!(verify))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// Whose; for admins.
    user: Option<String>,
    #[param(example = "run")]
    kind: Option<String>,
    /// Milliseconds since 1970.
    since: Option<i64>,
    until: Option<i64>,
    /// `next` of the page before.
    after: Option<i64>,
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Option<PageLimit>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditPage {
    #[schema(value_type = Vec<Object>)]
    rows: Vec<Value>,
    /// For `after` of the next page; null at the end.
    next: Option<i64>,
}

/// What happened, the oldest first. Your own rows; all, for admins.
#[utoipa::path(
    get, path = "/audit", tag = "audit", params(AuditQuery),
    responses((status = 200, body = AuditPage), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn query(
    State(app): State<Shared>,
    caller: Caller,
    Asked(query): Asked<AuditQuery>,
) -> Answer<Json<AuditPage>> {
    let user = match (caller.role, query.user) {
        (Role::Admin, user) => user,
        (_, Some(user)) if user != caller.user => {
            return Err(ApiError::forbidden(
                "these rows are somebody else's",
                "leave `user` out, or ask an admin",
            ));
        }
        _ => Some(caller.user),
    };
    let limit = page_size(query.limit);
    let filter = AuditFilter {
        user,
        kind: query.kind,
        since: query.since,
        until: query.until,
        after_seq: query.after,
        limit,
    };
    let rows = app.store.audit().query(&filter).await?;
    let next = (rows.len() as u32 == limit).then(|| rows.last().map(|row| row.seq)).flatten();
    let rows = rows.iter().map(serde_json::to_value).collect::<Result<_, _>>();
    Ok(Json(AuditPage { rows: rows.map_err(|error| ApiError::internal("write the audit", error))?, next }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportQuery {
    /// The first row.
    #[serde(default)]
    from: i64,
}

/// The whole chain as lines of JSON. For admins.
#[utoipa::path(
    get, path = "/audit/export", tag = "audit", params(ExportQuery),
    responses(
        (status = 200, content_type = "application/jsonl", body = String),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn export(
    State(app): State<Shared>,
    caller: Caller,
    Asked(query): Asked<ExportQuery>,
) -> Answer<Response> {
    caller.needs(Role::Admin)?;
    let audit = app.store.audit();
    // The first page before the answer begins, so that a database that can't be read is an error and no empty chain.
    let first = audit.export_page(query.from).await?;
    let pages = try_unfold(first, move |page| {
        let audit = audit.clone();
        async move {
            if page.rows == 0 {
                return Ok(None);
            }
            let next = audit.export_page(page.next).await?;
            Ok::<_, StoreError>(Some((Bytes::from(page.lines), next)))
        }
    });
    Ok(([(header::CONTENT_TYPE, "application/jsonl")], axum::body::Body::from_stream(pages)).into_response())
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VerdictAnswer {
    whole: bool,
    rows: u64,
    /// The digest of the last row: keep it elsewhere, and the tail can't be cut unseen.
    head: String,
    #[schema(value_type = Vec<Object>)]
    problems: Value,
}

/// Whether the chain is whole: no edit, deletion, insertion, reordering or cut tail. For admins.
#[utoipa::path(get, path = "/audit/verify", tag = "audit", responses((status = 200, body = VerdictAnswer), (status = "4XX", body = ErrorBody)))]
pub(crate) async fn verify(State(app): State<Shared>, caller: Caller) -> Answer<Json<VerdictAnswer>> {
    caller.needs(Role::Admin)?;
    let verdict = app.store.audit().verify(&[]).await?;
    Ok(Json(VerdictAnswer {
        whole: verdict.is_whole(),
        rows: verdict.rows,
        head: verdict.head.digest.clone(),
        problems: serde_json::to_value(&verdict.problems)
            .map_err(|error| ApiError::internal("write the verdict", error))?,
    }))
}
