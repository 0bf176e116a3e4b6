//! Commands in a sandbox that stays: run to the end, or heard of as they go.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{FromRequest, Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ringfence_policy::{ActionKind, masked_variable, masked_words, secret_values};
use ringfence_sandbox::{AsyncProcess, Exec, ExecStdio, ProcessEnd, ProcessResult, Sandbox};
use ringfence_service::Places;
use ringfence_store::{ActionRow, Outcome, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tracing::Instrument;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::actions::ActionAnswer;
use super::bounds::Millis;
use super::people::entry_in;
use super::run::{events, relay};
use super::wanted::{TIMEOUT_MS, check_variables, directory, without_nul};
use crate::actions::{Claim, Gated, Intent, Pass, gate, handed_in, suspicious};
use crate::app::{Permit, Shared};
use crate::auth::Caller;
use crate::body::{Body, Named};
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};
use crate::output::{OUTPUT, collect, text};
use crate::owed::{Owed, merge};
use crate::streams::{EventLog, OnDisconnect, StreamEvent};
use crate::told::{Ran, Tail, told};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(exec)).routes(routes!(exec_stream))
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
    #[schema(value_type = Option<u64>, minimum = 1)]
    timeout_ms: Option<Millis>,
    /// A command whose stream breaks off goes on, and the stream can be taken up with `Last-Event-ID`.
    #[serde(default)]
    keep: bool,
    /// The action that was approved for exactly this request.
    action: Option<String>,
    /// Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: Option<u64>,
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
    /// Why the command itself could not be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    error: Option<Value>,
    #[schema(value_type = Object)]
    result: Value,
}

pub(super) struct Wanted {
    pub(super) argv: Vec<String>,
    directory: Option<PathBuf>,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) stdin: Vec<u8>,
    timeout: Option<Duration>,
    claim: Claim,
}

impl ExecRequest {
    /// For a terminal, which has no stdin of its own.
    pub(super) fn of_terminal(
        command: Vec<String>,
        cwd: Option<String>,
        env: BTreeMap<String, String>,
        timeout_ms: Option<Millis>,
        claim: Claim,
    ) -> Self {
        let Claim { action, wait_ms } = claim;
        Self { command, cwd, env, stdin: None, stdin_base64: None, timeout_ms, keep: false, action, wait_ms }
    }

    pub(super) fn checked(self, default_timeout: Option<u64>) -> Answer<Wanted> {
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
        let timeout = self.timeout_ms.map(Millis::get).or(default_timeout).map(Duration::from_millis);
        let claim = Claim { action: self.action, wait_ms: self.wait_ms };
        Ok(Wanted {
            claim,
            argv: self.command,
            directory: directory(self.cwd)?,
            variables: self.env,
            stdin,
            timeout,
        })
    }
}

pub(super) fn decoded(coded: &str) -> Answer<Vec<u8>> {
    STANDARD
        .decode(coded)
        .map_err(|error| ApiError::bad(format!("stdin_base64 is not base64: {error}"), "code it again"))
}

/// What a command in this sandbox would do, for whoever submits it as an action.
pub(crate) async fn exec_intent(
    app: &Shared,
    caller: &Caller,
    id: &str,
    request: ExecRequest,
) -> Answer<Intent> {
    caller.needs(Role::Operator)?;
    let wanted = request.checked(Some(TIMEOUT_MS))?;
    let (row, _) = app.sandbox(caller, id).await?;
    Ok(wanted.intent(id)?.asked_by(app, caller, &row.user))
}

impl Wanted {
    pub(super) fn intent(&self, sandbox: &str) -> Answer<Intent> {
        let stdin = blake3::hash(&self.stdin).to_hex();
        let exact = (&self.argv, &self.directory, &self.variables, stdin.as_str(), &self.timeout);
        let mut intent = Intent::in_sandbox(ActionKind::Exec, sandbox, &exact, self.claim.clone())?;
        let variables = self.variables.iter();
        let variables: BTreeMap<&String, String> =
            variables.map(|(name, value)| (name, masked_variable(name, value))).collect();
        intent.secrets = secret_values(&self.variables);
        let known: Vec<&str> = intent.secrets.iter().map(String::as_str).collect();
        let command = masked_words(&self.argv, &known);
        intent.shown = json!({
            "command": command,
            "cwd": self.directory,
            "env": variables,
            "stdin": handed_in(&self.stdin),
            "timeout_ms": self.timeout.map(|timeout| timeout.as_millis() as u64),
            "sandbox": sandbox,
        });
        let command = self.argv.join(" ");
        let texts = [("the command".to_owned(), command.as_bytes()), ("stdin".to_owned(), &self.stdin[..])];
        intent.asks.suspicions = suspicious(&texts);
        intent.command = self.argv.clone();
        intent.target = Some(sandbox.to_owned());
        Ok(intent)
    }

    pub(super) fn exec(&self, stdio: ExecStdio) -> Exec {
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
pub(super) struct Running {
    pub(super) process: AsyncProcess,
    sandbox: Sandbox,
    places: Places,
    wanted: Wanted,
    /// Whose sandbox it is in.
    owner: String,
    begun: Instant,
    permit: Permit,
    owed: Owed,
    pass: Pass,
}

/// What becomes of a request at once.
pub(super) enum Begun {
    Running(Box<Running>),
    /// A person has to decide first.
    Waiting(Box<ActionRow>),
}

/// What a command reads and writes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stdio {
    Pipes,
    Terminal { rows: u16, columns: u16 },
}

pub(super) async fn begin(
    app: &Shared,
    caller: &Caller,
    request_id: &RequestId,
    id: &str,
    request: ExecRequest,
    stdio: Stdio,
) -> Answer<Begun> {
    caller.needs(Role::Operator)?;
    let (default_timeout, stdio) = match stdio {
        Stdio::Pipes => (Some(TIMEOUT_MS), ExecStdio::Pipes),
        Stdio::Terminal { rows, columns } => (None, ExecStdio::Terminal { rows, columns }),
    };
    let wanted = request.checked(default_timeout)?;
    let (row, sandbox) = app.sandbox(caller, id).await?;
    let intent = wanted.intent(id)?.asked_by(app, caller, &row.user);
    let clearance = match gate(app, caller, request_id, intent).await? {
        Gated::Clear(clearance) => clearance,
        Gated::Waiting(row) => return Ok(Begun::Waiting(row)),
    };
    app.may_write(&row.user).await?;
    let permit = app.permit(caller)?;
    let pass = clearance.begin(app).await?;
    let begun = Instant::now();
    let told = json!({ "command": masked_words(&wanted.argv, &[]) });
    let mut owed = entry_in(app, caller, request_id, "exec", id, told).await?;
    pass.add_to(&mut owed.result);
    let owed = Owed::new(app, owed, secret_values(&wanted.variables));
    let process = match sandbox.exec_async(wanted.exec(stdio)) {
        Ok(process) => process,
        Err(error) => {
            let error = ApiError::from(error);
            let told = json!({ "error": error.code });
            owed.settle(|entry| merge(&mut entry.result, told.clone())).await?;
            pass.finish(Outcome::Failed, told).await?;
            return Err(error);
        }
    };
    let places = app.places.clone();
    let owner = row.user;
    Ok(Begun::Running(Box::new(Running {
        process,
        sandbox,
        places,
        wanted,
        owner,
        begun,
        permit,
        owed,
        pass,
    })))
}

impl Running {
    /// Write down how it ended, before anybody is told. `stderr`: the end of its error output, where that is not a terminal's.
    pub(super) async fn ended(
        self,
        app: &Shared,
        result: &mut Answer<ProcessResult>,
        stderr: Vec<u8>,
    ) -> Answer<(u64, Value)> {
        drop(self.permit);
        let took = self.begun.elapsed();
        let facts = match result {
            Ok(ended) => {
                let argv = self.wanted.argv.iter().map(Into::into).collect();
                let ran = Ran { argv, directory: self.wanted.directory.clone(), stderr };
                // What happened stays what happened, if nothing more can be said of it.
                let facts = match told(&self.places, &self.sandbox, ran, ended.clone()).await {
                    Ok((more, facts)) => {
                        *ended = more;
                        facts
                    }
                    Err(_) => facts(ended),
                };
                app.metrics.command(&facts, took);
                facts
            }
            Err(error) => json!({ "error": { "code": error.code } }),
        };
        app.disk.ended(&self.owner, &facts["denials"]);
        let told = json!({
            "exit_code": facts["exit_code"],
            "signal": facts["signal"],
            "timed_out": facts["timed_out"],
            "error": facts["error"]["code"],
        });
        self.owed
            .settle(|entry| {
                merge(&mut entry.result, told.clone());
                entry.denials = facts.get("denials").cloned().unwrap_or_else(|| Value::Array(Vec::new()));
            })
            .await?;
        self.pass.finish(if result.is_ok() { Outcome::Done } else { Outcome::Failed }, told).await?;
        Ok((took.as_millis() as u64, facts))
    }
}

/// A result under the same names as a run's.
pub(crate) fn facts(result: &ProcessResult) -> Value {
    let mut facts = json!(result);
    // What a sandbox sends is counted as its own, once: see `traffic`.
    if let Some(facts) = facts.as_object_mut() {
        facts.remove("network");
    }
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
        (status = 202, description = "Nothing ran: a person has to approve this action first", body = ActionAnswer),
        (status = "4XX", description = "Nothing ran", body = ErrorBody),
    )
)]
pub(crate) async fn exec(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
    Body(request): Body<ExecRequest>,
) -> Answer<Response> {
    let mut running = match begin(&app, &caller, &request_id, &id, request, Stdio::Pipes).await? {
        Begun::Running(running) => *running,
        Begun::Waiting(row) => return Ok(Gated::accepted(*row)),
    };
    let feeding = feed(&mut running);
    let (stdout, stderr) = pipes(&mut running)?;
    let ((stdout, more_out), (stderr, more_err), result) =
        tokio::join!(collect(stdout, OUTPUT), collect(stderr, OUTPUT), running.process.wait());
    feeding.abort();
    let mut result = result.map_err(ApiError::from);
    let mut tail = Tail::default();
    tail.push(&stderr);
    let (duration_ms, facts) = running.ended(&app, &mut result, tail.into_bytes()).await?;
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
        error: facts.get("error").cloned(),
        result: json!(result),
    })
    .into_response())
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
        (status = 200, description = "Events", content_type = "text/event-stream", body = StreamEvent),
        (status = 202, description = "Nothing ran: a person has to approve this action first", body = ActionAnswer),
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
        return Ok(events(&app, &caller, &log, Some(last), app.hold(&caller)?));
    }
    let Body(request) = Body::<ExecRequest>::from_request(request, &()).await?;
    let held = app.hold(&caller)?;
    let on_disconnect = if request.keep { OnDisconnect::Keep } else { OnDisconnect::End };
    let running = match begin(&app, &caller, &request_id, &id, request, Stdio::Pipes).await? {
        Begun::Running(running) => *running,
        Begun::Waiting(row) => return Ok(Gated::accepted(*row)),
    };
    let log = EventLog::new(Uuid::now_v7().simple().to_string(), caller.user.clone(), on_disconnect);
    app.streams.add(&log);
    app.metrics.streams.inc();
    let response = events(&app, &caller, &log, None, held);
    tokio::spawn(pump(app, running, log).in_current_span());
    Ok(response)
}

async fn pump(app: Shared, mut running: Running, log: Arc<EventLog>) {
    log.write("start", &json!({ "id": log.id })).await;
    let feeding = feed(&mut running);
    let mut tail = Tail::default();
    if let Ok((stdout, stderr)) = pipes(&mut running) {
        let told = async {
            tokio::join!(
                relay(stdout, "stdout", &log, |_| ()),
                relay(stderr, "stderr", &log, |bytes| tail.push(bytes))
            );
        };
        tokio::select! {
            () = told => {}
            () = log.abandoned() => {
                let _ = running.process.kill();
            }
        }
    }
    let mut result = running.process.wait().await.map_err(ApiError::from);
    feeding.abort();
    match running.ended(&app, &mut result, tail.into_bytes()).await {
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
                log.write("error", &json!({ "error": app.mask.error(error).body(&log.id).error })).await;
            }
        }
    }
    app.streams.ended(&log).await;
    app.metrics.streams.dec();
}
