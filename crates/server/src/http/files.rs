//! The files of a sandbox, with the rights of its commands.

use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use ringfence_policy::{ActionKind, Reach as ActionReach, Suspicion};
use ringfence_sandbox::{
    Durability, Existing, FileEntry, FileKind, FileStat, Files, Links, ListLimit, Parents, Reach, WORKSPACE,
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
use super::people::entry_in;
use super::sandboxes::asked;
use crate::actions::{Claim, Intent, Pass, handed_in, pass, suspicious};
use crate::app::Shared;
use crate::auth::Caller;
use crate::blocking;
use crate::body::{Asked, Body, Named};
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};

/// What one answer holds of a file or directory.
const MOST_BYTES: u64 = 64 << 20;
const MOST_ENTRIES: u64 = 100_000;

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(read, write, remove))
        .routes(routes!(list))
        .routes(routes!(stat))
        .routes(routes!(make_directory))
        .routes(routes!(rename))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PathQuery {
    /// Absolute inside the sandbox, or relative to its workspace.
    path: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WriteQuery {
    /// Absolute inside the sandbox, or relative to its workspace.
    path: String,
    /// Permission bits, in octal.
    #[param(example = "644")]
    mode: Option<String>,
    /// The action that was approved for exactly this request.
    action: Option<String>,
    /// Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: Option<u64>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RemoveQuery {
    path: String,
    /// A directory with all that is in it.
    #[serde(default)]
    recursive: bool,
    /// The action that was approved for exactly this request.
    action: Option<String>,
    /// Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: Option<u64>,
}

/// A path inside. Nothing of it is looked at here: the file worker inside does, with the rights of a command.
pub(crate) fn inside(path: &str) -> Answer<PathBuf> {
    if path.is_empty() || path.contains('\0') || path.len() > 4095 {
        return Err(ApiError::bad(
            "that is no path",
            "give one of 1 to 4095 bytes with no NUL, absolute or relative to the workspace",
        ));
    }
    Ok(Path::new(WORKSPACE).join(path))
}

/// The same path for rules, however it is written: `./a//b`, `c/../a/b` and `/workspace/a/b` are `a/b`.
pub(super) fn plain(path: &str) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in Path::new(WORKSPACE).join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(whole.pop()),
            part => whole.push(part),
        }
    }
    match whole.strip_prefix(WORKSPACE) {
        Ok(below) => below.to_path_buf(),
        Err(_) => whole,
    }
}

/// What rules on `targets` are held against.
pub(super) fn target(path: &Path) -> String {
    if path.as_os_str().is_empty() { ".".to_owned() } else { path.to_string_lossy().into_owned() }
}

/// What is done to one path of a sandbox.
struct FileAction<'a> {
    kind: ActionKind,
    path: &'a str,
    reach: ActionReach,
    /// What is written, or where it is moved to.
    exact: Value,
    suspicions: Vec<Suspicion>,
    claim: Claim,
}

impl FileAction<'_> {
    async fn intent(self, app: &Shared, caller: &Caller, id: &str) -> Answer<Intent> {
        caller.needs(Role::Operator)?;
        inside(self.path)?;
        let (row, _) = app.sandbox(caller, id).await?;
        let tree = self.reach == ActionReach::Tree;
        let exact = (self.path, tree, &self.exact);
        let mut intent = Intent::in_sandbox(self.kind, id, &exact, self.claim)?;
        intent.shown = json!({ "path": self.path, "recursive": tree, "what": self.exact, "sandbox": id });
        intent.asks.reach = self.reach;
        intent.asks.suspicions = self.suspicions;
        intent.target = Some(target(&plain(self.path)));
        // What is moved is written where it goes.
        intent.members = self.exact["to"].as_str().map(|to| target(&plain(to))).into_iter().collect();
        Ok(intent.asked_by(app, caller, &row.user))
    }

    /// Through the gate and begun, or the answer that it waits.
    async fn pass(
        self,
        app: &Shared,
        caller: &Caller,
        request_id: &RequestId,
        id: &str,
    ) -> Answer<Result<Pass, Response>> {
        let intent = self.intent(app, caller, id).await?;
        pass(app, caller, request_id, intent).await
    }
}

/// Write down what was done to a path, and finish its action.
async fn done(
    app: &Shared,
    caller: &Caller,
    request_id: &RequestId,
    kind: ActionKind,
    id: &str,
    mut told: Value,
    pass: Pass,
) -> Answer<Response> {
    pass.add_to(&mut told);
    app.record(entry_in(app, caller, request_id, kind.as_str(), id, told).await?).await?;
    pass.finish(Outcome::Done, Value::Null).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// What removing a path would do, for whoever submits it as an action.
pub(crate) async fn delete_intent(
    app: &Shared,
    caller: &Caller,
    id: &str,
    path: &str,
    recursive: bool,
) -> Answer<Intent> {
    deletion(path, recursive, Claim::default()).intent(app, caller, id).await
}

fn deletion(path: &str, recursive: bool, claim: Claim) -> FileAction<'_> {
    FileAction {
        kind: ActionKind::FileDelete,
        path,
        reach: if recursive { ActionReach::Tree } else { ActionReach::One },
        exact: Value::Null,
        suspicions: Vec::new(),
        claim,
    }
}

async fn with_files<T: Send + 'static>(
    app: &Shared,
    caller: &Caller,
    id: &str,
    path: &str,
    work: impl FnOnce(&mut Files, &Path) -> Answer<T> + Send + 'static,
) -> Answer<T> {
    let path = inside(path)?;
    let (_, sandbox) = app.sandbox(caller, id).await?;
    blocking(move || work(&mut sandbox.files()?, &path)).await
}

/// Read a file whole.
#[utoipa::path(
    get, path = "/sandboxes/{id}/files", tag = "files", params(("id" = String, Path), PathQuery),
    responses(
        (status = 200, description = "Its bytes", content_type = "application/octet-stream", body = Vec<u8>),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn read(
    State(app): State<Shared>,
    caller: Caller,
    Named(id): Named<String>,
    Asked(query): Asked<PathQuery>,
) -> Answer<Response> {
    let bytes = with_files(&app, &caller, &id, &query.path, |files, path| {
        let file = files.open_read(path, Links::Follow)?;
        let mut bytes = Vec::new();
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "too_large",
                "the file is too large for one answer",
                "read it in parts with a command, such as `dd`",
            ));
        }
        Ok(bytes)
    })
    .await?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
}

/// Write a file whole: a reader sees the old or the new one.
#[utoipa::path(
    put, path = "/sandboxes/{id}/files", tag = "files", params(("id" = String, Path), WriteQuery),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 204),
        (status = 202, description = "Nothing was written: a person has to approve this action first", body = ActionAnswer),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn write(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
    Asked(query): Asked<WriteQuery>,
    bytes: Bytes,
) -> Answer<Response> {
    caller.needs(Role::Operator)?;
    let mode = query.mode.as_deref().unwrap_or("644");
    let mode = u32::from_str_radix(mode, 8).ok().filter(|mode| *mode <= 0o777).ok_or_else(|| {
        ApiError::bad(
            format!("`{}` is no mode", mode.escape_debug()),
            "give permission bits in octal, such as 644",
        )
    })?;
    let (row, _) = app.own_sandbox(&caller, &id).await?;
    app.may_write(&row.user).await?;
    let mut exact = handed_in(&bytes);
    exact["mode"] = format!("{mode:o}").into();
    let what = exact.clone();
    let action = FileAction {
        kind: ActionKind::FileWrite,
        path: &query.path,
        reach: ActionReach::One,
        suspicions: suspicious(&[(format!("the file {}", query.path), &bytes[..])]),
        exact,
        claim: Claim { action: query.action.clone(), wait_ms: query.wait_ms },
    };
    let pass = match action.pass(&app, &caller, &request_id, &id).await? {
        Ok(pass) => pass,
        Err(waiting) => return Ok(waiting),
    };
    app.disk.add(&row.user, bytes.len() as u64);
    with_files(&app, &caller, &id, &query.path, move |files, path| {
        let draft = files.create(path, mode, Links::Follow)?;
        if let Err(error) = draft.file().write_all(&bytes) {
            files.abandon(draft)?;
            return Err(ApiError::new(
                StatusCode::INSUFFICIENT_STORAGE,
                "not_written",
                format!("the file can't be written: {error}"),
                "see what is left of the sandbox's disk",
            ));
        }
        Ok(files.finish(draft, Existing::Replace, Durability::Later)?)
    })
    .await?;
    // It may have taken another's place: how much and which, and never what.
    let told =
        json!({ "path": query.path, "bytes": what["bytes"], "digest": what["digest"], "mode": what["mode"] });
    done(&app, &caller, &request_id, ActionKind::FileWrite, &id, told, pass).await
}

/// Remove a file or directory.
#[utoipa::path(
    delete, path = "/sandboxes/{id}/files", tag = "files", params(("id" = String, Path), RemoveQuery),
    responses(
        (status = 204),
        (status = 202, description = "Nothing was removed: a person has to approve this action first", body = ActionAnswer),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn remove(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
    Asked(query): Asked<RemoveQuery>,
) -> Answer<Response> {
    let claim = Claim { action: query.action.clone(), wait_ms: query.wait_ms };
    let action = deletion(&query.path, query.recursive, claim);
    let pass = match action.pass(&app, &caller, &request_id, &id).await? {
        Ok(pass) => pass,
        Err(waiting) => return Ok(waiting),
    };
    let reach = if query.recursive { Reach::Tree } else { Reach::One };
    with_files(&app, &caller, &id, &query.path, move |files, path| Ok(files.remove(path, reach)?)).await?;
    let told = json!({ "path": query.path, "recursive": query.recursive });
    done(&app, &caller, &request_id, ActionKind::FileDelete, &id, told, pass).await
}

/// One entry of a directory.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EntryAnswer {
    /// With replacement characters where it is not UTF-8.
    name: String,
    /// file, directory, symlink or other
    kind: &'static str,
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        _ => "other",
    }
}

impl From<FileEntry> for EntryAnswer {
    fn from(entry: FileEntry) -> Self {
        Self { name: entry.name.to_string_lossy().into_owned(), kind: kind(entry.stat.kind) }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Absolute inside the sandbox, or relative to its workspace.
    path: String,
    /// `next` of the page before.
    after: Option<String>,
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Option<PageLimit>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EntryPage {
    entries: Vec<EntryAnswer>,
    /// For `after` of the next page; null at the end.
    next: Option<String>,
}

/// By the bytes of its name: two names that are not UTF-8 may be shown alike.
fn cursor(entry: &FileEntry) -> String {
    entry.name.as_encoded_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is in a directory, by name.
#[utoipa::path(
    get, path = "/sandboxes/{id}/files/list", tag = "files", params(("id" = String, Path), ListQuery),
    responses((status = 200, body = EntryPage), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Named(id): Named<String>,
    Asked(query): Asked<ListQuery>,
) -> Answer<Json<EntryPage>> {
    let entries = with_files(&app, &caller, &id, &query.path, |files, path| {
        Ok(files.list(path, ListLimit(MOST_ENTRIES))?)
    })
    .await?;
    let (entries, next) = page(entries, query.after.as_deref(), query.limit, cursor)?;
    Ok(Json(EntryPage { entries: entries.into_iter().map(Into::into).collect(), next }))
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatAnswer {
    kind: &'static str,
    size: u64,
    /// Permission bits, in octal.
    mode: String,
    /// Seconds since 1970.
    modified: i64,
    /// Where a symbolic link leads.
    target: Option<String>,
}

impl From<(FileStat, Option<PathBuf>)> for StatAnswer {
    fn from((stat, target): (FileStat, Option<PathBuf>)) -> Self {
        Self {
            kind: kind(stat.kind),
            size: stat.size,
            mode: format!("{:o}", stat.mode & 0o7777),
            modified: stat.modified.seconds,
            target: target.map(|target| target.to_string_lossy().into_owned()),
        }
    }
}

/// What a path is; a link itself, not where it leads.
#[utoipa::path(
    get, path = "/sandboxes/{id}/files/stat", tag = "files", params(("id" = String, Path), PathQuery),
    responses((status = 200, body = StatAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn stat(
    State(app): State<Shared>,
    caller: Caller,
    Named(id): Named<String>,
    Asked(query): Asked<PathQuery>,
) -> Answer<Json<StatAnswer>> {
    let found =
        with_files(&app, &caller, &id, &query.path, |files, path| Ok(files.stat(path, Links::Keep)?)).await?;
    Ok(Json(found.into()))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DirectoryRequest {
    path: String,
    /// Also those above it; one that is there already is fine.
    #[serde(default)]
    parents: bool,
}

/// Make a directory.
#[utoipa::path(
    post, path = "/sandboxes/{id}/files/directories", tag = "files", params(("id" = String, Path)),
    request_body = DirectoryRequest,
    responses((status = 204), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn make_directory(
    State(app): State<Shared>,
    caller: Caller,
    Named(id): Named<String>,
    Body(request): Body<DirectoryRequest>,
) -> Answer<StatusCode> {
    caller.needs(Role::Operator)?;
    let parents = if request.parents { Parents::Make } else { Parents::Exist };
    with_files(&app, &caller, &id, &request.path, move |files, path| {
        Ok(files.make_directory(path, 0o755, parents)?)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenameRequest {
    from: String,
    to: String,
    #[serde(default)]
    replace: bool,
    /// The action that was approved for exactly this request.
    action: Option<String>,
    /// Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: Option<u64>,
}

/// Move a file or directory.
#[utoipa::path(
    post, path = "/sandboxes/{id}/files/move", tag = "files", params(("id" = String, Path)), request_body = RenameRequest,
    responses(
        (status = 204),
        (status = 202, description = "Nothing was moved: a person has to approve this action first", body = ActionAnswer),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn rename(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
    Body(request): Body<RenameRequest>,
) -> Answer<Response> {
    let (from, to) = (inside(&request.from)?, inside(&request.to)?);
    let existing = if request.replace { Existing::Replace } else { Existing::Refuse };
    let action = FileAction {
        kind: ActionKind::FileMove,
        path: &request.from,
        reach: ActionReach::One,
        exact: json!({ "to": request.to, "replace": request.replace }),
        suspicions: Vec::new(),
        claim: Claim { action: request.action.clone(), wait_ms: request.wait_ms },
    };
    let pass = match action.pass(&app, &caller, &request_id, &id).await? {
        Ok(pass) => pass,
        Err(waiting) => return Ok(waiting),
    };
    asked(&app, &caller, &id, move |sandbox| Ok(sandbox.files()?.rename(&from, &to, existing)?)).await?;
    let told = json!({ "path": request.from, "to": request.to });
    done(&app, &caller, &request_id, ActionKind::FileMove, &id, told, pass).await
}
