//! `POST /v1/run` and `POST /v1/run/stream`: one command in a fresh sandbox.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{FromRequest, Request, State};
use axum::http::HeaderMap;
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ringfence_service::workers::{Order, Report, RunOrder};
use ringfence_store::{AuditEntry, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::people::record_refusal;
use super::wanted::{SandboxWanted, TIMEOUT_MS, check_variables, directory, without_nul};
use crate::app::{Permit, Shared};
use crate::auth::Caller;
use crate::body::Body;
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};
use crate::launch::{Pipes, Worker};
use crate::output::{Characters, OUTPUT, collect, text};
use crate::streams::{EventLog, OnDisconnect};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(run)).routes(routes!(run_stream))
}

/// One command and the sandbox for it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunRequest {
    /// The program and its arguments; no shell is in between.
    #[schema(example = json!(["python3", "-c", "print(1)"]), min_items = 1)]
    command: Vec<String>,
    /// A directory inside.
    cwd: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    stdin: Option<String>,
    /// In place of `stdin`, for what is not text.
    stdin_base64: Option<String>,
    /// The command and all that it started end after this time; 30000 where neither this nor the policy says how long.
    #[schema(minimum = 1)]
    timeout_ms: Option<u64>,
    profile: Option<String>,
    #[schema(value_type = Option<Object>)]
    policy: Option<ringfence_policy::Layer>,
    network: Option<super::wanted::NetworkWanted>,
    workspace: Option<String>,
    #[serde(default)]
    files: Vec<super::wanted::FileWanted>,
    #[serde(default)]
    skills: bool,
    #[serde(default)]
    trace: bool,
    #[serde(default)]
    strict: bool,
    /// A command whose stream breaks off goes on, and the stream can be taken up with `Last-Event-ID`.
    #[serde(default)]
    keep: bool,
}

/// What came of a command.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RunAnswer {
    /// As a shell would see it: 128+n for signal n, 124 after a timeout, 126 and 127 for a command that can't be started.
    pub(crate) exit_code: i32,
    pub(crate) signal: Option<i32>,
    pub(crate) timed_out: bool,
    #[serde(default)]
    pub(crate) stdout: String,
    /// Only where stdout is not UTF-8, and `stdout` has replacement characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stdout_base64: Option<String>,
    #[serde(default)]
    pub(crate) stderr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stderr_base64: Option<String>,
    /// There was more output than is kept.
    #[serde(default)]
    pub(crate) truncated: bool,
    pub(crate) duration_ms: u64,
    pub(crate) usage: UsageAnswer,
    /// What was blocked, by which rule, and what would allow it.
    #[schema(value_type = Vec<Object>)]
    pub(crate) denials: Vec<Value>,
    pub(crate) notes: Vec<String>,
    /// Connections, by process and host; null where the sandbox had no network.
    #[schema(value_type = Option<Object>)]
    pub(crate) network: Option<Value>,
    /// Why the command itself could not be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub(crate) error: Option<Value>,
    /// Each clause of the policy and the mechanism that enforced it.
    #[schema(value_type = Object)]
    pub(crate) receipt: Value,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct UsageAnswer {
    pub(crate) cpu_ms: u64,
    pub(crate) max_memory_bytes: u64,
    pub(crate) processes: u64,
}

/// A command that has been ordered.
struct Ordered {
    worker: Worker,
    pipes: Pipes,
    stdin: Vec<u8>,
    record: Record,
    begun: Instant,
    permit: Permit,
}

/// What the audit will say of it.
struct Record {
    user: String,
    request_id: String,
    command: Vec<String>,
    policy_digest: String,
}

impl RunRequest {
    async fn begin(self, app: &Shared, caller: &Caller, request_id: &RequestId) -> Answer<Ordered> {
        match self.ordered(app, caller, request_id).await {
            Err(error) => {
                record_refusal(app, caller, request_id, "run", &error).await?;
                Err(error)
            }
            ordered => ordered,
        }
    }

    async fn ordered(self, app: &Shared, caller: &Caller, request_id: &RequestId) -> Answer<Ordered> {
        caller.needs(Role::Operator)?;
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
            (None, Some(coded)) => STANDARD.decode(coded).map_err(|error| {
                ApiError::bad(format!("stdin_base64 is not base64: {error}"), "code it again")
            })?,
        };
        let mut policy = self.policy.unwrap_or_default();
        policy.environment.set.extend(self.env);
        let default = policy.limits.wall_time.is_none().then_some(TIMEOUT_MS);
        let timeout = self.timeout_ms.or(default).map(|ms| Duration::from_millis(ms.max(1)));
        let wanted = SandboxWanted {
            profile: self.profile,
            policy: Some(policy),
            network: self.network,
            workspace: self.workspace,
            files: self.files,
            skills: self.skills,
            trace: self.trace,
            strict: self.strict,
        };
        let mut sandbox = wanted.order(app, caller, timeout)?;
        sandbox.argv = self.command.clone();
        sandbox.directory = directory(self.cwd)?;
        let record = Record {
            user: caller.user.clone(),
            request_id: request_id.0.clone(),
            command: self.command,
            policy_digest: digest(&sandbox.layers)?,
        };
        let permit = app.permit(caller)?;
        let order = Order::Run(Box::new(RunOrder { sandbox }));
        let begun = Instant::now();
        let started = Worker::with_pipes(&app.launcher, &order).await;
        let (worker, pipes) = started?;
        app.metrics.running.inc();
        Ok(Ordered { worker, pipes, stdin, record, begun, permit })
    }
}

pub(crate) fn digest(value: &impl Serialize) -> Answer<String> {
    let bytes = serde_json::to_vec(value).map_err(|error| ApiError::internal("write a policy", error))?;
    Ok(blake3::hash(&bytes).to_hex().to_string())
}

/// Hand a command its input; one that does not read it is not waited for.
async fn feed(mut to: tokio::net::unix::pipe::Sender, stdin: Vec<u8>) {
    let _ = to.write_all(&stdin).await;
}

impl Record {
    /// Write down how it ended, before anybody is told.
    async fn ended(self, app: &Shared, outcome: &Answer<Value>, begun: Instant) -> Answer<()> {
        app.metrics.running.dec();
        let (result, denials, receipt_digest) = match outcome {
            Ok(facts) => {
                app.metrics.command(facts, begun.elapsed());
                let result = json!({
                    "command": self.command,
                    "exit_code": facts["exit_code"],
                    "signal": facts["signal"],
                    "timed_out": facts["timed_out"],
                    "duration_ms": facts["duration_ms"],
                });
                (result, facts["denials"].clone(), Some(digest(&facts["receipt"])?))
            }
            Err(error) => {
                (json!({ "command": self.command, "error": error.code }), Value::Array(Vec::new()), None)
            }
        };
        app.record(AuditEntry {
            at: crate::now(),
            user: self.user,
            kind: "run".into(),
            target: None,
            decision: Some("allow".into()),
            policy_digest: Some(self.policy_digest),
            receipt_digest,
            denials,
            result,
            request_id: Some(self.request_id),
            origin: Some("http".into()),
        })
        .await
    }
}

fn facts_of(report: Answer<Report>) -> Answer<Value> {
    match report? {
        Report::Ran { facts } => Ok(facts),
        _ => Err(ApiError::internal("understand a worker", "it reported on something else")),
    }
}

/// Run one command to its end.
#[utoipa::path(
    post, path = "/run", tag = "run", request_body = RunRequest,
    responses(
        (status = 200, description = "The command ran, whatever its exit status", body = RunAnswer),
        (status = "4XX", description = "Nothing ran", body = ErrorBody),
    )
)]
pub(crate) async fn run(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Body(request): Body<RunRequest>,
) -> Answer<Json<RunAnswer>> {
    let Ordered { mut worker, pipes, stdin, record, begun, permit } =
        request.begin(&app, &caller, &request_id).await?;
    let Pipes { stdin: to, stdout, stderr } = pipes;
    let feeding = tokio::spawn(feed(to, stdin));
    let (report, (stdout, more_out), (stderr, more_err)) =
        tokio::join!(worker.report(), collect(stdout, OUTPUT), collect(stderr, OUTPUT));
    feeding.abort();
    drop(permit);
    let outcome = facts_of(report);
    record.ended(&app, &outcome, begun).await?;
    let mut answer: RunAnswer =
        serde_json::from_value(outcome?).map_err(|error| ApiError::internal("understand a worker", error))?;
    (answer.stdout, answer.stdout_base64) = text(stdout);
    (answer.stderr, answer.stderr_base64) = text(stderr);
    answer.truncated = more_out || more_err;
    Ok(Json(answer))
}

/// Run one command and hear of it as it goes.
///
/// Server-Sent Events: `start` `{"id"}`, `stdout` and `stderr` `{"text"}` (or `{"base64"}`), `denial`, then `exit` with
/// what `POST /v1/run` answers, or `error`. A client that goes away ends the command, unless `keep` is true: then
/// another request with `Last-Event-ID` goes on after that event.
#[utoipa::path(
    post, path = "/run/stream", tag = "run", request_body = RunRequest,
    responses(
        (status = 200, description = "Events", content_type = "text/event-stream", body = String),
        (status = "4XX", description = "Nothing ran", body = ErrorBody),
    )
)]
pub(crate) async fn run_stream(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    headers: HeaderMap,
    request: Request,
) -> Answer<Response> {
    if let Some(last) = headers.get("last-event-id").and_then(|value| value.to_str().ok()) {
        let (log, last) = app
            .streams
            .resume(&caller.user, last)
            .ok_or_else(|| ApiError::not_found("stream to take up at", last))?;
        return Ok(events(&log, Some(last)));
    }
    let Body(request) = Body::<RunRequest>::from_request(request, &()).await?;
    let on_disconnect = if request.keep { OnDisconnect::Keep } else { OnDisconnect::End };
    let ordered = request.begin(&app, &caller, &request_id).await?;
    let log = EventLog::new(Uuid::now_v7().simple().to_string(), caller.user, on_disconnect);
    app.streams.add(&log);
    app.metrics.streams.inc();
    let response = events(&log, None);
    tokio::spawn(pump(app, ordered, log));
    Ok(response)
}

pub(crate) fn events(log: &Arc<EventLog>, last: Option<u64>) -> Response {
    let stream = Sse::new(log.follow(last)).keep_alive(KeepAlive::default());
    ([("x-accel-buffering", "no")], stream).into_response()
}

/// Carry what a command writes to its log, until it ends or nobody listens any more.
async fn pump(app: Shared, ordered: Ordered, log: Arc<EventLog>) {
    let Ordered { mut worker, pipes, stdin, record, begun, permit } = ordered;
    log.write("start", &json!({ "id": log.id })).await;
    let Pipes { stdin: to, stdout, stderr } = pipes;
    let feeding = tokio::spawn(feed(to, stdin));
    let outcome = {
        let told = async {
            tokio::join!(relay(stdout, "stdout", &log), relay(stderr, "stderr", &log));
        };
        tokio::pin!(told);
        let stopped = tokio::select! {
            () = &mut told => false,
            () = log.abandoned() => true,
        };
        if stopped {
            worker.stop();
        }
        facts_of(worker.report().await)
    };
    feeding.abort();
    drop(permit);
    if let Err(error) = record.ended(&app, &outcome, begun).await {
        log.write("error", &json!({ "error": error.body(&log.id).error })).await;
    } else {
        match outcome {
            Ok(facts) => {
                for denial in facts["denials"].as_array().into_iter().flatten() {
                    log.write("denial", denial).await;
                }
                log.write("exit", &exit_event(facts)).await;
            }
            Err(error) => log.write("error", &json!({ "error": error.body(&log.id).error })).await,
        }
    }
    app.streams.ended(&log).await;
    app.metrics.streams.dec();
}

/// The facts, with the exit status under the name that the stream has for it too.
fn exit_event(mut facts: Value) -> Value {
    facts["code"] = facts["exit_code"].clone();
    facts
}

pub(crate) async fn relay(mut from: impl tokio::io::AsyncRead + Unpin, name: &'static str, log: &EventLog) {
    let mut characters = Characters::default();
    let mut chunk = vec![0; 32 << 10];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        log.write_output(name, characters.push(&chunk[..read])).await;
    }
    log.write_output(name, characters.rest()).await;
}
