//! Snapshots of sandboxes: each user's own, kept apart from everybody else's.

use std::ops::ControlFlow;

use axum::body::Body as RawBody;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use ringfence_policy::{ActionKind, Reach as ActionReach};
use ringfence_sandbox::snapshots::ExportFormat;
use ringfence_service::{
    Places, SnapshotRow, list_snapshots, look_at_snapshot, read_snapshot, remove_snapshot, rollback_session,
    take_snapshot, write_snapshot,
};
use ringfence_store::{Outcome, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::actions::ActionAnswer;
use super::bounds::PageLimit;
use super::pages::page;
use super::people::{entry, entry_in};
use crate::actions::{Claim, Intent, pass, pass_at_once};
use crate::app::Shared;
use crate::auth::Caller;
use crate::blocking;
use crate::body::{Asked, Body, Named};
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};
use crate::held::{rewound, staged};
use crate::pipes::{BodyReader, body_writer};

/// What an exported snapshot has beside the content of its files: a manifest, and a header for each.
const OVERHEAD: u64 = 512 << 20;

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(take))
        .routes(routes!(rollback))
        .routes(routes!(list))
        .routes(routes!(get, delete))
        .routes(routes!(export))
        .routes(routes!(import))
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SnapshotAnswer {
    id: String,
    /// For people; several may have it.
    name: String,
    /// The sandbox that it was taken of.
    sandbox: String,
    /// Milliseconds since 1970.
    created: i64,
    entries: u64,
    /// Of its files, before those that other snapshots share are counted once.
    bytes: u64,
}

impl From<SnapshotRow> for SnapshotAnswer {
    fn from(row: SnapshotRow) -> Self {
        let created = row.facts.created.seconds.saturating_mul(1000)
            + i64::from(row.facts.created.nanoseconds / 1_000_000);
        Self {
            id: row.id,
            name: row.facts.name,
            sandbox: row.facts.session,
            created,
            entries: row.facts.entries,
            bytes: row.facts.bytes,
        }
    }
}

impl SnapshotAnswer {
    /// The newest first.
    fn cursor(&self) -> String {
        format!("{:020}.{}", i64::MAX - self.created, self.id)
    }
}

/// Whose snapshots: the caller's own, or for admins anybody's.
pub(super) fn owner(caller: &Caller, user: Option<String>) -> Answer<String> {
    match user {
        Some(user) if user != caller.user => {
            caller.needs(Role::Admin)?;
            Ok(user)
        }
        _ => Ok(caller.user.clone()),
    }
}

/// One of a user's own, by id or name. Everybody else's is not there.
pub(super) async fn find(places: &Places, given: &str) -> Answer<SnapshotRow> {
    let (places, name) = (places.clone(), given.to_owned());
    let (rows, _) = blocking(move || Ok(list_snapshots(&places)?)).await?;
    let by_id = rows.iter().position(|row| row.id == name);
    let found = by_id.or_else(|| rows.iter().position(|row| row.facts.name == name));
    let found = found.and_then(|at| rows.into_iter().nth(at));
    found.ok_or_else(|| ApiError::not_found("snapshot", given))
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SnapshotRequest {
    /// For people; the sandbox's id where none is given.
    #[schema(max_length = 128)]
    name: Option<String>,
}

/// Take a snapshot of a sandbox's workspace, and of its home where that is its own. Its processes wait meanwhile.
#[utoipa::path(
    post, path = "/sandboxes/{id}/snapshots", tag = "snapshots", params(("id" = String, Path)),
    request_body = SnapshotRequest,
    responses((status = 201, body = SnapshotAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn take(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
    Body(request): Body<SnapshotRequest>,
) -> Answer<(StatusCode, Json<SnapshotAnswer>)> {
    let (row, _) = app.own_sandbox(&caller, &id).await?;
    app.room(&row.user).await?;
    let places = app.places_of(&row.user)?;
    let taken = {
        let (places, id) = (places.clone(), id.clone());
        let mut on = |_: &_| ControlFlow::Continue(());
        blocking(move || Ok(take_snapshot(&places, &id, request.name.as_deref(), &mut on)?)).await?
    };
    let about = json!({ "snapshot": taken.id, "bytes": taken.bytes });
    app.record(entry_in(&app, &caller, &request_id, "snapshot.create", &id, about).await?).await?;
    Ok((StatusCode::CREATED, Json(find(&places, &taken.id).await?.into())))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RollbackRequest {
    /// Its id or name.
    snapshot: String,
    /// The action that was approved for exactly this request.
    action: Option<String>,
    /// Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RollbackAnswer {
    snapshot: String,
    written: u64,
    bytes_written: u64,
    removed: u64,
    /// Whose mode or time alone was wrong.
    attributes_set: u64,
    unchanged: u64,
}

/// Bring a sandbox's files back to a snapshot. Its processes wait meanwhile, and go on.
#[utoipa::path(
    post, path = "/sandboxes/{id}/rollback", tag = "snapshots", params(("id" = String, Path)),
    request_body = RollbackRequest,
    responses(
        (status = 200, body = RollbackAnswer),
        (status = 202, description = "Nothing was changed: a person has to approve this action first", body = ActionAnswer),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn rollback(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
    Body(request): Body<RollbackRequest>,
) -> Answer<Response> {
    let (row, _) = app.own_sandbox(&caller, &id).await?;
    let places = app.places_of(&row.user)?;
    let snapshot = find(&places, &request.snapshot).await?.id;
    let claim = Claim { action: request.action, wait_ms: request.wait_ms };
    let mut intent = Intent::in_sandbox(ActionKind::FileWrite, &id, &("rollback", &snapshot), claim)?;
    intent.shown = json!({ "sandbox": id, "rollback": snapshot });
    intent.asks.reach = ActionReach::Tree;
    intent.target = Some(snapshot.clone());
    let pass = match pass(&app, &caller, &request_id, intent.asked_by(&app, &caller, &row.user)).await? {
        Ok(pass) => pass,
        Err(waiting) => return Ok(waiting),
    };
    let restored = {
        let (id, snapshot) = (id.clone(), snapshot.clone());
        blocking(move || Ok(rollback_session(&places, &id, &snapshot)?)).await?
    };
    let mut told = json!({ "snapshot": snapshot });
    pass.add_to(&mut told);
    app.record(entry_in(&app, &caller, &request_id, "sandbox.rollback", &id, told.clone()).await?).await?;
    pass.finish(Outcome::Done, told).await?;
    Ok(Json(RollbackAnswer {
        snapshot,
        written: restored.written,
        bytes_written: restored.bytes_written,
        removed: restored.removed,
        attributes_set: restored.attributes_set,
        unchanged: restored.unchanged,
    })
    .into_response())
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SnapshotsQuery {
    /// Of one sandbox.
    sandbox: Option<String>,
    /// Whose; for admins.
    user: Option<String>,
    /// `next` of the page before.
    after: Option<String>,
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Option<PageLimit>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SnapshotPage {
    snapshots: Vec<SnapshotAnswer>,
    /// For `after` of the next page; null at the end.
    next: Option<String>,
}

/// Your snapshots, the newest first.
#[utoipa::path(
    get, path = "/snapshots", tag = "snapshots", params(SnapshotsQuery),
    responses((status = 200, body = SnapshotPage), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Asked(query): Asked<SnapshotsQuery>,
) -> Answer<Json<SnapshotPage>> {
    let places = app.places_of(&owner(&caller, query.user)?)?;
    let (rows, damaged) = blocking(move || Ok(list_snapshots(&places)?)).await?;
    for one in damaged {
        tracing::warn!(user = caller.user, "a snapshot can't be read: {one}");
    }
    let mut rows: Vec<SnapshotAnswer> = rows.into_iter().map(Into::into).collect();
    rows.retain(|row| query.sandbox.as_ref().is_none_or(|sandbox| row.sandbox == *sandbox));
    let (snapshots, next) = page(rows, query.after.as_deref(), query.limit, SnapshotAnswer::cursor)?;
    Ok(Json(SnapshotPage { snapshots, next }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct OwnerQuery {
    /// Whose; for admins.
    user: Option<String>,
}

/// One snapshot, by id or name.
#[utoipa::path(
    get, path = "/snapshots/{id}", tag = "snapshots", params(("id" = String, Path), OwnerQuery),
    responses((status = 200, body = SnapshotAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn get(
    State(app): State<Shared>,
    caller: Caller,
    Named(id): Named<String>,
    Asked(query): Asked<OwnerQuery>,
) -> Answer<Json<SnapshotAnswer>> {
    let places = app.places_of(&owner(&caller, query.user)?)?;
    Ok(Json(find(&places, &id).await?.into()))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RemoveQuery {
    /// Whose; for admins.
    user: Option<String>,
    /// The action that was approved for exactly this request.
    action: Option<String>,
    /// Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: Option<u64>,
}

/// Remove a snapshot. Sandboxes that were made of it stay.
#[utoipa::path(
    delete, path = "/snapshots/{id}", tag = "snapshots", params(("id" = String, Path), RemoveQuery),
    responses(
        (status = 204),
        (status = 202, description = "Nothing was removed: a person has to approve this action first", body = ActionAnswer),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
    Asked(query): Asked<RemoveQuery>,
) -> Answer<Response> {
    caller.needs(Role::Operator)?;
    let owner = owner(&caller, query.user)?;
    let places = app.places_of(&owner)?;
    let SnapshotRow { id, facts, .. } = find(&places, &id).await?;
    let kind = ActionKind::SnapshotDelete;
    let claim = Claim { action: query.action, wait_ms: query.wait_ms };
    let shown = json!({ "snapshot": id, "name": facts.name, "sandbox": facts.session, "user": owner });
    let intent = Intent::about(kind, &id, &owner, shown, claim)?.asked_by(&app, &caller, &caller.user);
    let pass = match pass(&app, &caller, &request_id, intent).await? {
        Ok(pass) => pass,
        Err(waiting) => return Ok(waiting),
    };
    let gone = id.clone();
    blocking(move || Ok(remove_snapshot(&places, &gone)?)).await?;
    let mut told = json!({});
    pass.add_to(&mut told);
    app.record(entry(&caller, &request_id, kind.as_str(), Some(id), told)).await?;
    pass.finish(Outcome::Done, Value::Null).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A snapshot whole, as a tar that `POST /v1/snapshots/import` and `ringfence snapshot import` take.
#[utoipa::path(
    get, path = "/snapshots/{id}/export", tag = "snapshots", params(("id" = String, Path), OwnerQuery),
    responses(
        (status = 200, content_type = "application/x-tar", body = Vec<u8>),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn export(
    State(app): State<Shared>,
    caller: Caller,
    Named(id): Named<String>,
    Asked(query): Asked<OwnerQuery>,
) -> Answer<Response> {
    let places = app.places_of(&owner(&caller, query.user)?)?;
    let id = find(&places, &id).await?.id;
    let permit = app.slot(&caller)?;
    let (mut writer, written) = body_writer();
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let read = write_snapshot(&places, &id, ExportFormat::Tar, &mut writer);
        writer.end(read.map(drop).map_err(ApiError::from));
    });
    let body = written.begun().await?;
    Ok(([(header::CONTENT_TYPE, "application/x-tar")], body).into_response())
}

/// Take in a snapshot that was exported, as one of your own. One with a file that a rule would have a person look at is refused.
#[utoipa::path(
    post, path = "/snapshots/import", tag = "snapshots",
    request_body(content = Vec<u8>, content_type = "application/x-tar"),
    responses((status = 201, body = SnapshotAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn import(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    body: RawBody,
) -> Answer<(StatusCode, Json<SnapshotAnswer>)> {
    caller.needs(Role::Operator)?;
    let left = app.room(&caller.user).await?;
    let (permit, place) = (app.slot(&caller)?, app.stage(&caller)?);
    let places = app.places_of(&caller.user)?;
    let mut reader = BodyReader::new(body);
    // Whoever sent it made it wrong; nothing else is in its way.
    let theirs = |mut error: ApiError| {
        if error.status == StatusCode::CONFLICT {
            error.status = StatusCode::BAD_REQUEST;
        }
        error
    };
    let (of_user, state) = (places.clone(), app.places.state.path().to_owned());
    let looked = blocking(move || {
        let archive = staged(&state, &mut reader, left.saturating_add(OVERHEAD))?;
        let suspicions = look_at_snapshot(&of_user, &mut &archive, left)?;
        Ok((archive, suspicions))
    });
    let (archive, suspicions) = looked.await.map_err(theirs)?;
    // Its files come into sandboxes by a rollback or a fork, which nobody looks into.
    let mut intent =
        Intent::about(ActionKind::FileWrite, "a snapshot", &caller.user, Value::Null, Claim::default())?;
    intent.asks.suspicions = suspicions;
    let instead = "bring its files in one by one with PUT …/files, which can wait for a person";
    let intent = intent.asked_by(&app, &caller, &caller.user);
    let pass = pass_at_once(&app, &caller, &request_id, intent, instead).await?;
    let row = blocking(move || {
        let _held = (permit, place);
        Ok(read_snapshot(&places, &mut rewound(archive)?, left)?)
    });
    let row = row.await.map_err(theirs)?;
    let mut told = json!({});
    pass.add_to(&mut told);
    app.record(entry(&caller, &request_id, "snapshot.import", Some(row.id.clone()), told)).await?;
    Ok((StatusCode::CREATED, Json(row.into())))
}
