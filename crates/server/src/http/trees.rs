//! Whole trees of a sandbox's files, as tar streams.

use axum::body::Body as RawBody;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use ringfence_policy::{ActionKind, Reach as ActionReach};
use ringfence_sandbox::{CopyLimits, Links};
use ringfence_service::{look_at_tree, read_tree, write_tree};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::files::{inside, plain, target};
use super::people::entry_in;
use crate::actions::{Claim, Intent, pass_at_once};
use crate::app::Shared;
use crate::auth::Caller;
use crate::blocking;
use crate::body::{Asked, Named};
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};
use crate::held::{rewound, staged};
use crate::pipes::{BodyReader, body_writer};

/// What one stream carries.
const LIMITS: CopyLimits = CopyLimits { bytes: 4 << 30, entries: 200_000, depth: 128 };
/// What a tar has beside the content of its files: a header, a rest of a block and, of some, a long name.
const OVERHEAD: u64 = LIMITS.entries * 2048;

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(download, upload))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TreeQuery {
    /// Absolute inside the sandbox, or relative to its workspace.
    #[param(example = ".")]
    path: String,
}

/// A directory, or a file, as a tar. Links are in it as links; a stream that breaks off was not whole.
#[utoipa::path(
    get, path = "/sandboxes/{id}/files/tree", tag = "files", params(("id" = String, Path), TreeQuery),
    responses(
        (status = 200, content_type = "application/x-tar", body = Vec<u8>),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn download(
    State(app): State<Shared>,
    caller: Caller,
    Named(id): Named<String>,
    Asked(query): Asked<TreeQuery>,
) -> Answer<Response> {
    let top = inside(&query.path)?;
    let (_, sandbox) = app.sandbox(&caller, &id).await?;
    let permit = app.slot(&caller)?;
    let (mut files, top) = blocking(move || {
        let mut files = sandbox.files()?;
        files.stat(&top, Links::Keep)?;
        Ok((files, top))
    })
    .await?;
    let (mut writer, written) = body_writer();
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let read = read_tree(&mut files, &top, &LIMITS, &mut writer);
        writer.end(read.map(drop).map_err(ApiError::from));
    });
    let body = written.begun().await?;
    Ok(([(header::CONTENT_TYPE, "application/x-tar")], body).into_response())
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UploadAnswer {
    entries: u64,
    bytes: u64,
}

/// Write the files and directories of a tar below a directory, which is made where it isn't there. Links, devices, `..` and
/// absolute paths are refused, and so is a tree with a file that a rule would have a person look at: nothing is written then.
#[utoipa::path(
    put, path = "/sandboxes/{id}/files/tree", tag = "files", params(("id" = String, Path), TreeQuery),
    request_body(content = Vec<u8>, content_type = "application/x-tar"),
    responses((status = 200, body = UploadAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn upload(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
    Asked(query): Asked<TreeQuery>,
    body: RawBody,
) -> Answer<Json<UploadAnswer>> {
    let top = inside(&query.path)?;
    let (row, sandbox) = app.own_sandbox(&caller, &id).await?;
    let left = app.room(&row.user).await?;
    let (permit, place) = (app.slot(&caller)?, app.stage(&caller)?);
    let limits = CopyLimits { bytes: LIMITS.bytes.min(left), ..LIMITS };
    let mut reader = BodyReader::new(body);
    let state = app.places.state.path().to_owned();
    let (archive, look) = blocking(move || {
        let archive = staged(&state, &mut reader, limits.bytes.saturating_add(OVERHEAD))?;
        let look = look_at_tree(&limits, &mut &archive)?;
        Ok((archive, look))
    })
    .await?;
    let mut intent = Intent::in_sandbox(ActionKind::FileWrite, &id, &query.path, Claim::default())?;
    intent.asks.reach = ActionReach::Tree;
    intent.asks.suspicions = look.suspicions;
    let at = plain(&query.path);
    intent.members = look.paths.iter().map(|path| target(&at.join(path))).collect();
    intent.target = Some(target(&at));
    let instead = "write its files one by one with PUT …/files, which can wait for a person";
    let intent = intent.asked_by(&app, &caller, &row.user);
    let pass = pass_at_once(&app, &caller, &request_id, intent, instead).await?;
    let copied = blocking(move || {
        let _held = (permit, place);
        let mut archive = rewound(archive)?;
        Ok(write_tree(&mut sandbox.files()?, &top, &limits, &mut archive)?)
    })
    .await?;
    let mut told = json!({ "path": query.path, "entries": copied.entries, "bytes": copied.bytes });
    pass.add_to(&mut told);
    let kind = ActionKind::FileWrite.as_str();
    app.record(entry_in(&app, &caller, &request_id, kind, &id, told).await?).await?;
    Ok(Json(UploadAnswer { entries: copied.entries, bytes: copied.bytes }))
}
