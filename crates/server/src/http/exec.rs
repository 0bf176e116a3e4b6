//! Commands in a sandbox that stays: run to the end, heard of as they go, or left running.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::{Extension, Json};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ringfence_sandbox::{
    AsyncProcess, Exec, ExecStdio, LogReader, LogStream, ProcessEnd, ProcessResult, Sandbox,
};
use ringfence_store::{AuditEntry, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::run::{events, relay};
use super::sandboxes::asked;
use super::wanted::{TIMEOUT_MS, check_variables, directory, without_nul};
use crate::app::{Permit, Shared};
use crate::auth::Caller;
use crate::blocking;
use crate::body::{Asked, Body, Named};
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};
use crate::output::{OUTPUT, collect, text};
use crate::streams::{EventLog, OnDisconnect};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(exec))
        .routes(routes!(exec_stream))
        .routes(routes!(start, list))
        .routes(routes!(logs))
        .routes(routes!(stdin))
        .routes(routes!(signal))
}

/// One command in a sandbox that stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecRequest {
    /// The program and its arguments; no shell is in between.
    #[schema(example = json!(["ls", "-l"]), min_items = 1)]
    command: Vec<String>,
    cwd: Option<String>,
    /// On top of the sandbox's own.
    #[serde(default)]
    env: BTreeMap<String, String>,
    stdin: Option<String>,
    stdin_base64: Option<String>,
    /// The command and all that it started end after this time; 30000 where none is given, for a process none.
    #[schema(minimum = 1)]
    timeout_ms: Option<u64>,
    /// A command whose stream breaks off goes on, and the stream can be taken up with `Last-Event-ID`.
    #[serde(default)]
    keep: bool,
}

/// What came of a command.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExecAnswer {
    exit_code: i32,
    signal: Option<i32>,
    timed_out: bool,
    stdout: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    stderr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
    truncated: bool,
    duration_ms: u64,
    #[schema(value_type = Object)]
    result: Value,
}

struct Wanted {
    argv: Vec<String>,
    directory: Option<PathBuf>,
    variables: BTreeMap<String, String>,
    stdin: Vec<u8>,
    timeout: Option<Duration>,
}

impl ExecRequest {
    fn checked(self, default_timeout: Option<u64>) -> Answer<Wanted> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err(ApiError::bad("there is no command to run", "give `command` at least one word"));
        }
        without_nul(self.command.iter().map(String::as_str), "the command")?;
        check_variables(&self.env)?;
        let stdin = match (self.stdin, self.stdin_base64) {
            (Some(_), Some(_)) => {
                return Err(ApiError::bad("both stdin and stdin_base64 are given", "give one of them"));
            }
            (text, None) => text.unwrap_or_default().into_bytes(),
            (None, Some(coded)) => decoded(&coded)?,
        };
        let timeout = self.timeout_ms.or(default_timeout).map(|ms| Duration::from_millis(ms.max(1)));
        Ok(Wanted {
            argv: self.command,
            directory: directory(self.cwd)?,
            variables: self.env,
            stdin,
            timeout,
        })
    }
}

fn decoded(coded: &str) -> Answer<Vec<u8>> {
    STANDARD
        .decode(coded)
        .map_err(|error| ApiError::bad(format!("stdin_base64 is not base64: {error}"), "code it again"))
}

impl Wanted {
    fn exec(&self, stdio: ExecStdio) -> Exec {
        let variables = self.variables.iter().map(|(name, value)| (name.clone(), value.into())).collect();
        Exec {
            argv: self.argv.iter().map(Into::into).collect(),
            environment: variables,
            directory: self.directory.clone(),
            timeout: self.timeout,
            stdio,
        }
    }
}

/// A command that runs in a sandbox.
struct Running {
    process: AsyncProcess,
    wanted: Wanted,
    sandbox_id: String,
    user: String,
    request_id: String,
    begun: Instant,
    permit: Permit,
}

async fn begin(
    app: &Shared,
    caller: &Caller,
    request_id: &RequestId,
    id: &str,
    request: ExecRequest,
) -> Answer<Running> {
    caller.needs(Role::Operator)?;
    let wanted = request.checked(Some(TIMEOUT_MS))?;
    let (_, sandbox) = app.sandbox(caller, id).await?;
    let permit = app.permit(caller)?;
    let begun = Instant::now();
    let process = sandbox.exec_async(wanted.exec(ExecStdio::Pipes))?;
    app.metrics.running.inc();
    Ok(Running {
        process,
        wanted,
        sandbox_id: id.to_owned(),
        user: caller.user.clone(),
        request_id: request_id.0.clone(),
        begun,
        permit,
    })
}

impl Running {
    /// Write down how it ended, before anybody is told.
    async fn ended(self, app: &Shared, result: &Answer<ProcessResult>) -> Answer<(u64, Value)> {
        app.metrics.running.dec();
        drop(self.permit);
        let took = self.begun.elapsed();
        let facts = match result {
            Ok(result) => {
                let facts = facts(result);
                app.metrics.command(&facts, took);
                facts
            }
            Err(error) => json!({ "error": error.code }),
        };
        let told = json!({
            "command": self.wanted.argv,
            "exit_code": facts["exit_code"],
            "signal": facts["signal"],
            "timed_out": facts["timed_out"],
            "error": facts["error"],
        });
        app.record(AuditEntry {
            at: crate::now(),
            user: self.user,
            kind: "exec".into(),
            target: Some(self.sandbox_id),
            decision: Some("allow".into()),
            policy_digest: None,
            receipt_digest: None,
            denials: facts.get("denials").cloned().unwrap_or_else(|| Value::Array(Vec::new())),
            result: told,
            request_id: Some(self.request_id),
            origin: Some("http".into()),
        })
        .await?;
        Ok((took.as_millis() as u64, facts))
    }
}

/// A result under the same names as a run's.
fn facts(result: &ProcessResult) -> Value {
    let mut facts = json!(result);
    facts["exit_code"] = json!(result.end.exit_code());
    facts["timed_out"] = json!(result.end == ProcessEnd::TimedOut);
    facts["signal"] = match result.end {
        ProcessEnd::Signaled { signal } => json!(signal),
        _ => Value::Null,
    };
    facts
}

/// Run a command in a sandbox to its end.
#[utoipa::path(
    post, path = "/sandboxes/{id}/exec", tag = "sandboxes", params(("id" = String, Path)), request_body = ExecRequest,
    responses(
        (status = 200, description = "The command ran, whatever its exit status", body = ExecAnswer),
        (status = "4XX", description = "Nothing ran", body = ErrorBody),
    )
)]
pub(crate) async fn exec(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
    Body(request): Body<ExecRequest>,
) -> Answer<Json<ExecAnswer>> {
    let mut running = begin(&app, &caller, &request_id, &id, request).await?;
    let feeding = feed(&mut running);
    let (stdout, stderr) = pipes(&mut running)?;
    let ((stdout, more_out), (stderr, more_err), result) =
        tokio::join!(collect(stdout, OUTPUT), collect(stderr, OUTPUT), running.process.wait());
    feeding.abort();
    let result = result.map_err(ApiError::from);
    let (duration_ms, facts) = running.ended(&app, &result).await?;
    let result = result?;
    let (stdout, stdout_base64) = text(stdout);
    let (stderr, stderr_base64) = text(stderr);
    Ok(Json(ExecAnswer {
        exit_code: result.end.exit_code(),
        signal: facts["signal"].as_i64().map(|signal| signal as i32),
        timed_out: facts["timed_out"] == json!(true),
        stdout,
        stdout_base64,
        stderr,
        stderr_base64,
        truncated: more_out || more_err,
        duration_ms,
        result: json!(result),
    }))
}

type Reading = tokio::net::unix::pipe::Receiver;

fn pipes(running: &mut Running) -> Answer<(Reading, Reading)> {
    let (stdout, stderr) = (running.process.stdout.take(), running.process.stderr.take());
    stdout.zip(stderr).ok_or_else(|| ApiError::internal("read a command", "it has no pipes"))
}

/// Hand a command its input; one that does not read it is not waited for.
fn feed(running: &mut Running) -> tokio::task::JoinHandle<()> {
    let (to, stdin) = (running.process.stdin.take(), std::mem::take(&mut running.wanted.stdin));
    tokio::spawn(async move {
        if let Some(mut to) = to {
            let _ = to.write_all(&stdin).await;
        }
    })
}

/// Run a command in a sandbox and hear of it as it goes: events as of `POST /v1/run/stream`.
#[utoipa::path(
    post, path = "/sandboxes/{id}/exec/stream", tag = "sandboxes", params(("id" = String, Path)), request_body = ExecRequest,
    responses(
        (status = 200, description = "Events", content_type = "text/event-stream", body = String),
        (status = "4XX", description = "Nothing ran", body = ErrorBody),
    )
)]
pub(crate) async fn exec_stream(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
    headers: HeaderMap,
    request: Request,
) -> Answer<Response> {
    if let Some(last) = headers.get("last-event-id").and_then(|value| value.to_str().ok()) {
        let resumed = app.streams.resume(&caller.user, last);
        let (log, last) = resumed.ok_or_else(|| ApiError::not_found("stream to take up at", last))?;
        return Ok(events(&log, Some(last)));
    }
    let Body(request) = Body::<ExecRequest>::from_request(request, &()).await?;
    let on_disconnect = if request.keep { OnDisconnect::Keep } else { OnDisconnect::End };
    let running = begin(&app, &caller, &request_id, &id, request).await?;
    let log = EventLog::new(Uuid::now_v7().simple().to_string(), caller.user, on_disconnect);
    app.streams.add(&log);
    app.metrics.streams.inc();
    let response = events(&log, None);
    tokio::spawn(pump(app, running, log));
    Ok(response)
}

async fn pump(app: Shared, mut running: Running, log: Arc<EventLog>) {
    log.write("start", &json!({ "id": log.id })).await;
    let feeding = feed(&mut running);
    if let Ok((stdout, stderr)) = pipes(&mut running) {
        let told = async {
            tokio::join!(relay(stdout, "stdout", &log), relay(stderr, "stderr", &log));
        };
        tokio::select! {
            () = told => {}
            () = log.abandoned() => {
                let _ = running.process.kill();
            }
        }
    }
    let result = running.process.wait().await.map_err(ApiError::from);
    feeding.abort();
    match running.ended(&app, &result).await {
        Ok((duration_ms, mut facts)) if result.is_ok() => {
            for denial in facts["denials"].as_array().into_iter().flatten() {
                log.write("denial", denial).await;
            }
            facts["code"] = facts["exit_code"].clone();
            facts["duration_ms"] = json!(duration_ms);
            log.write("exit", &facts).await;
        }
        ended => {
            if let Some(error) = result.err().or(ended.err()) {
                log.write("error", &json!({ "error": error.body(&log.id).error })).await;
            }
        }
    }
    app.streams.ended(&log).await;
    app.metrics.streams.dec();
}

/// A command that runs on without anybody listening.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProcessAnswer {
    process: u32,
}

/// Start a command and leave it running; its output is kept.
#[utoipa::path(
    post, path = "/sandboxes/{id}/processes", tag = "processes", params(("id" = String, Path)), request_body = ExecRequest,
    responses((status = 201, body = ProcessAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn start(
    State(app): State<Shared>,
    caller: Caller,
    Named(id): Named<String>,
    Body(request): Body<ExecRequest>,
) -> Answer<(StatusCode, Json<ProcessAnswer>)> {
    let wanted = request.checked(None)?;
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
    Ok((StatusCode::CREATED, Json(ProcessAnswer { process })))
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
    #[param(minimum = 1, maximum = 1048576)]
    limit: Option<usize>,
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
    let limit = query.limit.unwrap_or(OUTPUT).min(OUTPUT);
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

/// Write to a kept command.
#[utoipa::path(
    post, path = "/sandboxes/{id}/processes/{process}/stdin", tag = "processes",
    params(("id" = String, Path), ("process" = u32, Path)), request_body = StdinRequest,
    responses((status = 204), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn stdin(
    State(app): State<Shared>,
    caller: Caller,
    Named((id, process)): Named<(String, u32)>,
    Body(request): Body<StdinRequest>,
) -> Answer<StatusCode> {
    caller.needs(Role::Operator)?;
    let mut bytes = request.text.unwrap_or_default().into_bytes();
    if let Some(coded) = &request.base64 {
        bytes.extend(decoded(coded)?);
    }
    let (_, sandbox) = app.sandbox(&caller, &id).await?;
    let file = {
        let sandbox = sandbox.clone();
        blocking(move || Ok(sandbox.stdin(process)?)).await?
    };
    // A command that does not read would keep a thread for ever.
    let mut to = tokio::net::unix::pipe::Sender::from_file(file)?;
    let wrote = tokio::time::timeout(Duration::from_secs(10), to.write_all(&bytes)).await;
    wrote
        .map_err(|_| {
            ApiError::new(
                StatusCode::CONFLICT,
                "not_reading",
                "the command does not read",
                "send less, or later",
            )
        })?
        .map_err(|_| {
            ApiError::new(StatusCode::GONE, "not_reading", "the command has closed its input", "see its logs")
        })?;
    if request.close {
        blocking(move || Ok(sandbox.close_stdin(process)?)).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignalRequest {
    /// 15 asks, 9 ends.
    #[schema(minimum = 1, maximum = 64)]
    signal: i32,
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
    Named((id, process)): Named<(String, u32)>,
    Body(request): Body<SignalRequest>,
) -> Answer<StatusCode> {
    if !(1..=64).contains(&request.signal) {
        return Err(ApiError::bad(format!("{} is no signal", request.signal), "give a number from 1 to 64"));
    }
    asked(&app, &caller, &id, move |sandbox| Ok(sandbox.signal(process, request.signal, request.tree)?))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
