//! Commands that are left running in a sandbox: start them, read what they wrote, write to them, signal them.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use ringfence_policy::{ActionKind, masked_words, secret_values};
use ringfence_sandbox::{ExecStdio, LogReader, LogStream, Sandbox};
use ringfence_store::{Outcome, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::actions::ActionAnswer;
use super::bounds::Within;
use super::exec::{ExecRequest, decoded};
use super::people::entry_in;
use super::sandboxes::asked;
use crate::actions::{Claim, Gated, Intent, gate, pass_at_once, suspicious, typed_commands};
use crate::app::Shared;
use crate::auth::Caller;
use crate::blocking;
use crate::body::{Asked, Body, Named};
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};
use crate::left::{START, Started};
use crate::output::{OUTPUT, text};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(start, list))
        .routes(routes!(logs))
        .routes(routes!(stdin))
        .routes(routes!(signal))
}

/// A command that runs on without anybody listening.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProcessAnswer {
    process: u32,
}

/// Start a command and leave it running; its output is kept.
#[utoipa::path(
    post, path = "/sandboxes/{id}/processes", tag = "processes", params(("id" = String, Path)), request_body = ExecRequest,
    responses(
        (status = 201, body = ProcessAnswer),
        (status = 202, description = "Nothing was started: a person has to approve this action first", body = ActionAnswer),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn start(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
    Body(request): Body<ExecRequest>,
) -> Answer<Response> {
    caller.needs(Role::Operator)?;
    let wanted = request.checked(None)?;
    let (row, _) = app.own_sandbox(&caller, &id).await?;
    app.may_write(&row.user).await?;
    let intent = wanted.intent(&id)?.asked_by(&app, &caller, &row.user);
    let clearance = match gate(&app, &caller, &request_id, intent).await? {
        Gated::Clear(clearance) => clearance,
        Gated::Waiting(row) => return Ok(Gated::accepted(*row)),
    };
    let permit = app.permit(&caller)?;
    let pass = clearance.begin(&app).await?;
    let (command, secrets) = (masked_words(&wanted.argv, &[]), secret_values(&wanted.variables));
    let process = asked(&app, &caller, &id, move |sandbox: Sandbox| {
        let exec = wanted.exec(ExecStdio::Log { stdin: true, terminal: None });
        let process = sandbox.exec(exec)?.id;
        if !wanted.stdin.is_empty() {
            use std::io::Write;
            sandbox.stdin(process)?.write_all(&wanted.stdin)?;
        }
        Ok(process)
    })
    .await?;
    let mut told = json!({ "command": command, "process": process });
    pass.add_to(&mut told);
    let entry = entry_in(&app, &caller, &request_id, START, &id, told).await?;
    app.record_without(entry, &secrets).await?;
    let started = Started { user: caller.user, request_id: Some(request_id.0), permit: Some(permit) };
    app.left.add(&id, process, started);
    pass.finish(Outcome::Done, json!({ "process": process })).await?;
    Ok((StatusCode::CREATED, Json(ProcessAnswer { process })).into_response())
}

/// The commands of a sandbox, running and ended.
#[utoipa::path(
    get, path = "/sandboxes/{id}/processes", tag = "processes", params(("id" = String, Path)),
    responses((status = 200, body = Vec<Object>), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<Value>> {
    let (_, sandbox) = app.sandbox(&caller, &id).await?;
    let processes = blocking(move || Ok(sandbox.processes()?)).await?;
    Ok(Json(json!(processes)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogsQuery {
    /// Byte to begin at.
    #[serde(default)]
    from: u64,
    /// Bytes at most.
    #[param(value_type = Option<usize>, minimum = 1, maximum = 1048576)]
    limit: Option<Within<1, { OUTPUT as u64 }>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LogsAnswer {
    stdout: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    stderr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
    /// For `from` of the next request.
    next: u64,
    /// Bytes that are no longer kept.
    dropped: u64,
}

/// What a kept command has written, from an offset on.
#[utoipa::path(
    get, path = "/sandboxes/{id}/processes/{process}/logs", tag = "processes",
    params(("id" = String, Path), ("process" = u32, Path), LogsQuery),
    responses((status = 200, body = LogsAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn logs(
    State(app): State<Shared>,
    caller: Caller,
    Named((id, process)): Named<(String, u32)>,
    Asked(query): Asked<LogsQuery>,
) -> Answer<Json<LogsAnswer>> {
    let (_, sandbox) = app.sandbox(&caller, &id).await?;
    let limit = query.limit.map_or(OUTPUT, |limit| limit.get() as usize);
    let answer = blocking(move || read_logs(&sandbox, process, query.from, limit)).await?;
    Ok(Json(answer))
}

fn read_logs(sandbox: &Sandbox, process: u32, from: u64, limit: usize) -> Answer<LogsAnswer> {
    let missing = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => ApiError::not_found("process with a log", &process.to_string()),
        _ => ApiError::internal("read a log", error),
    };
    let mut reader = LogReader::open(&sandbox.place().logs(process), from).map_err(missing)?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while stdout.len() + stderr.len() < limit
        && let Some((stream, bytes)) = reader.read_piece().map_err(missing)?
    {
        match stream {
            LogStream::Stdout => stdout.extend_from_slice(&bytes),
            LogStream::Stderr => stderr.extend_from_slice(&bytes),
        }
    }
    let (next, dropped) = (reader.offset(), reader.dropped());
    let (stdout, stdout_base64) = text(stdout);
    let (stderr, stderr_base64) = text(stderr);
    Ok(LogsAnswer { stdout, stdout_base64, stderr, stderr_base64, next, dropped })
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StdinRequest {
    text: Option<String>,
    base64: Option<String>,
    /// Nothing comes after this.
    #[serde(default)]
    close: bool,
}

/// Write to a kept command. Refused where a rule would have a person look at it first, or at that command.
#[utoipa::path(
    post, path = "/sandboxes/{id}/processes/{process}/stdin", tag = "processes",
    params(("id" = String, Path), ("process" = u32, Path)), request_body = StdinRequest,
    responses((status = 204), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn stdin(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named((id, process)): Named<(String, u32)>,
    Body(request): Body<StdinRequest>,
) -> Answer<StatusCode> {
    caller.needs(Role::Operator)?;
    let mut bytes = request.text.unwrap_or_default().into_bytes();
    if let Some(coded) = &request.base64 {
        bytes.extend(decoded(coded)?);
    }
    let (row, sandbox) = app.sandbox(&caller, &id).await?;
    let (file, command) = {
        let sandbox = sandbox.clone();
        blocking(move || {
            let file = sandbox.stdin(process)?;
            let known = sandbox.processes()?.into_iter().find(|known| known.process == process);
            Ok((file, known.map_or(Vec::new(), |known| known.argv)))
        })
        .await?
    };
    let pass = match bytes.is_empty() {
        // Its end alone says nothing.
        true => None,
        false => {
            let command = command.iter().map(|word| word.0.to_string_lossy().into_owned()).collect();
            let intent = typed(&id, process, command, &bytes)?.asked_by(&app, &caller, &row.user);
            Some(pass_at_once(&app, &caller, &request_id, intent, INSTEAD).await?)
        }
    };
    // A command that does not read would keep a thread for ever.
    let mut to = tokio::net::unix::pipe::Sender::from_file(file)?;
    let wrote = tokio::time::timeout(Duration::from_secs(10), to.write_all(&bytes)).await;
    let wrote = match wrote {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(ApiError::new(
            StatusCode::GONE,
            "not_reading",
            "the command has closed its input",
            "see its logs",
        )),
        Err(_) => Err(ApiError::new(
            StatusCode::CONFLICT,
            "not_reading",
            "the command does not read",
            "send less, or later",
        )),
    };
    // How much, and never what. Some of it may have been taken where not all was.
    let mut told = json!({ "process": process, "bytes": bytes.len(), "close": request.close });
    if let Some(pass) = &pass {
        pass.add_to(&mut told);
    }
    if let Err(error) = &wrote {
        told["error"] = error.code.clone().into();
    }
    app.record(entry_in(&app, &caller, &request_id, "process.stdin", &id, told).await?).await?;
    wrote?;
    if request.close {
        blocking(move || Ok(sandbox.close_stdin(process)?)).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// What typing this into a command would do. The command and each line are held against the rules, as if it were run.
fn typed(id: &str, process: u32, command: Vec<String>, bytes: &[u8]) -> Answer<Intent> {
    let exact = (process, blake3::hash(bytes).to_hex().to_string());
    let mut intent = Intent::in_sandbox(ActionKind::Exec, id, &exact, Claim::default())?;
    intent.asks.suspicions = suspicious(&[("stdin".to_owned(), bytes)]);
    intent.typed = typed_commands(bytes);
    intent.command = command;
    intent.target = Some(id.to_owned());
    Ok(intent)
}

/// For who may not type what a person would have to look at.
const INSTEAD: &str =
    "start the command again with all of its `stdin` in the request, which can wait for a person";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignalRequest {
    /// 15 asks, 9 ends.
    #[schema(value_type = i32, minimum = 1, maximum = 64)]
    signal: Within<1, 64>,
    /// To all that it started too.
    #[serde(default)]
    tree: bool,
}

/// Signal a command.
#[utoipa::path(
    post, path = "/sandboxes/{id}/processes/{process}/signal", tag = "processes",
    params(("id" = String, Path), ("process" = u32, Path)), request_body = SignalRequest,
    responses((status = 204), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn signal(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named((id, process)): Named<(String, u32)>,
    Body(request): Body<SignalRequest>,
) -> Answer<StatusCode> {
    let signal = request.signal.get() as i32;
    let tree = request.tree;
    asked(&app, &caller, &id, move |sandbox| Ok(sandbox.signal(process, signal, tree)?)).await?;
    let told = json!({ "process": process, "signal": signal, "tree": tree });
    app.record(entry_in(&app, &caller, &request_id, "process.signal", &id, told).await?).await?;
    Ok(StatusCode::NO_CONTENT)
}
