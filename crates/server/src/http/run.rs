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
use futures_util::StreamExt;
use ringfence_policy::{ActionKind, masked_words, secret_values};
use ringfence_service::workers::{Report, RunOrder, SandboxOrder};
use ringfence_store::{ActionRow, Outcome, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tracing::Instrument;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::actions::ActionAnswer;
use super::bounds::Millis;
use super::people::entry;
use super::skill_runs::{Script, ScriptWanted};
use super::wanted::{SandboxWanted, TIMEOUT_MS, check_variables, directory, without_nul};
use crate::actions::{Claim, Gated, Intent, Pass, gate};
use crate::app::{Permit, Shared};
use crate::auth::Caller;
use crate::body::Body;
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};
use crate::held::Held;
use crate::launch::{Input, Pipes, Worker};
use crate::output::{Characters, OUTPUT, collect, text};
use crate::owed::{Owed, merge};
use crate::refusals::record_refusal;
use crate::repeats::STREAM;
use crate::standing::until_revoked;
use crate::streams::{EventLog, OnDisconnect, StreamEvent};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(run)).routes(routes!(run_stream))
}

/// One command and the sandbox for it.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RunRequest {
    /// The program and its arguments; no shell is in between. With `skill`, its script and the arguments.
    #[schema(example = json!(["python3", "-c", "print(1)"]), required = true)]
    pub(super) command: Vec<String>,
    /// A skill of the library, as `domain/name` or by its name alone: `command` is the path of a script in it and its arguments,
    /// or `[]` for the only one that it has.
    #[schema(example = json!(null))]
    pub(super) skill: Option<String>,
    /// A directory inside.
    pub(super) cwd: Option<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) stdin: Option<String>,
    /// In place of `stdin`, for what is not text.
    pub(super) stdin_base64: Option<String>,
    /// The command and all that it started end after this time; 30000 where neither this nor the policy says how long.
    #[schema(value_type = Option<u64>, minimum = 1)]
    pub(super) timeout_ms: Option<Millis>,
    /// native, claude-code, codex or gemini: begin from the defaults of that client's own sandbox, as far as your role may have
    /// them. What is here besides holds over it.
    pub(super) compat: Option<String>,
    pub(super) profile: Option<String>,
    /// Show the system directories of this image in place of the host's: the one of your role's ceiling.
    pub(super) image: Option<String>,
    #[schema(value_type = Option<Object>)]
    pub(super) policy: Option<ringfence_policy::Layer>,
    pub(super) network: Option<super::wanted::NetworkWanted>,
    pub(super) workspace: Option<String>,
    pub(super) files: Vec<super::wanted::FileWanted>,
    pub(super) skills: bool,
    pub(super) secrets: Vec<super::wanted::SecretWanted>,
    pub(super) trace: bool,
    pub(super) strict: bool,
    /// A command whose stream breaks off goes on, and the stream can be taken up with `Last-Event-ID`.
    pub(super) keep: bool,
    /// The action that was approved for exactly this request: what is here besides must be what was submitted.
    pub(super) action: Option<String>,
    /// Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    pub(super) wait_ms: Option<u64>,
    /// In place of a command, where it is known already which.
    #[serde(skip)]
    pub(super) script: Option<ScriptWanted>,
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

/// What the audit will say of it, and the action that it was.
struct Record {
    user: String,
    owed: Owed,
    pass: Pass,
}

/// What becomes of a request at once.
enum Begun {
    Ordered(Box<Ordered>),
    /// A person has to decide first.
    Waiting(Box<ActionRow>),
}

/// A request that was checked, and is within the caller's ceiling.
struct Resolved {
    sandbox: SandboxOrder,
    /// In place of a command.
    script: Option<Script>,
    stdin: Vec<u8>,
    secrets: Vec<String>,
    claim: Claim,
}

impl RunRequest {
    async fn begin(self, app: &Shared, caller: &Caller, request_id: &RequestId) -> Answer<Begun> {
        match self.ordered(app, caller, request_id).await {
            Err(error) => Err(record_refusal(app, caller, request_id, "run", error).await?),
            begun => begun,
        }
    }

    /// What this would do, for whoever submits it as an action.
    pub(crate) async fn intent(self, app: &Shared, caller: &Caller) -> Answer<Intent> {
        self.resolved(app, caller).await?.intent(app, caller)
    }

    /// The script that is named, if one is; what is left of the request has its words as the command.
    async fn script(&mut self, app: &Shared, caller: &Caller) -> Answer<Option<Script>> {
        let wanted = match (self.script.take(), self.skill.take()) {
            (Some(wanted), _) => wanted,
            (None, Some(given)) => {
                if self.skills {
                    return Err(ApiError::bad(
                        "a script sees its own skill, and not the rest of the library",
                        "leave out `skills`, or run a command in place of `skill`",
                    ));
                }
                ScriptWanted::named(app, caller, given, std::mem::take(&mut self.command)).await?
            }
            (None, None) => return Ok(None),
        };
        let script = wanted.looked_at(app, caller).await?;
        self.command = script.command();
        Ok(Some(script))
    }

    async fn resolved(mut self, app: &Shared, caller: &Caller) -> Answer<Resolved> {
        caller.needs(Role::Operator)?;
        let script = self.script(app, caller).await?;
        if self.command.first().is_none_or(String::is_empty) {
            return Err(ApiError::bad(
                "there is no command to run",
                "give `command` at least one word, or name a `skill`",
            ));
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
        let secrets = secret_values(&policy.environment.set);
        let default = policy.limits.wall_time.is_none().then_some(TIMEOUT_MS);
        let timeout = self.timeout_ms.map(Millis::get).or(default).map(Duration::from_millis);
        let wanted = SandboxWanted {
            compat: self.compat,
            profile: self.profile,
            image: self.image,
            policy: Some(policy),
            network: self.network,
            workspace: self.workspace,
            files: self.files,
            skills: self.skills,
            secrets: self.secrets,
            trace: self.trace,
            strict: self.strict,
        };
        let mut sandbox = wanted.order(app, caller, timeout)?;
        sandbox.argv = self.command;
        sandbox.directory = directory(self.cwd)?;
        let claim = Claim { action: self.action, wait_ms: self.wait_ms };
        Ok(Resolved { sandbox, script, stdin, secrets, claim })
    }

    async fn ordered(self, app: &Shared, caller: &Caller, request_id: &RequestId) -> Answer<Begun> {
        let resolved = self.resolved(app, caller).await?;
        let clearance = match gate(app, caller, request_id, resolved.intent(app, caller)?).await? {
            Gated::Clear(clearance) => clearance,
            Gated::Waiting(row) => return Ok(Begun::Waiting(row)),
        };
        let most = app.may_write(&caller.user).await?;
        let Resolved { mut sandbox, script, stdin, secrets, .. } = resolved;
        sandbox.disk = sandbox.disk.map(|own| own.min(most));
        let skill = script.map(|script| script.order);
        let policy_digest = digest(&sandbox.layers)?;
        let command = masked_words(&sandbox.argv, &[]);
        let claimed = app.claim(caller, &sandbox.layers).await?;
        let permit = app.permit(caller)?.with(claimed);
        let pass = clearance.begin(app).await?;
        let begun = Instant::now();
        let mut owed = entry(caller, request_id, "run", None, json!({ "command": command }));
        owed.policy_digest = Some(policy_digest);
        pass.add_to(&mut owed.result);
        let record = Record { user: caller.user.clone(), owed: Owed::new(app, owed, secrets), pass };
        let (worker, pipes) =
            Worker::run(&app.launcher, &app.stock, RunOrder { sandbox, skill }, Input::of(&stdin)).await?;
        Ok(Begun::Ordered(Box::new(Ordered { worker, pipes, stdin, record, begun, permit })))
    }
}

impl Resolved {
    fn intent(&self, app: &Shared, caller: &Caller) -> Answer<Intent> {
        let (kind, more) = match &self.script {
            Some(script) => (ActionKind::SkillRun, json!({ "skill": script.order })),
            None => (ActionKind::Run, Value::Null),
        };
        let mut intent = Intent::of_order(kind, &self.sandbox, &self.stdin, more, self.claim.clone())?;
        if let Some(script) = &self.script {
            intent.asks.findings.clone_from(&script.findings);
            intent.target = Some(script.skill());
        }
        Ok(intent.asked_by(app, caller, &caller.user))
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
        let (told, denials, receipt_digest) = match outcome {
            Ok(facts) => {
                app.metrics.command(facts, begun.elapsed());
                let start = facts["start_us"].as_u64().map(Duration::from_micros);
                app.metrics.pooled(facts["pooled"] == true, start);
                let told = json!({
                    "exit_code": facts["exit_code"],
                    "signal": facts["signal"],
                    "timed_out": facts["timed_out"],
                    "duration_ms": facts["duration_ms"],
                });
                (told, facts["denials"].clone(), Some(digest(&facts["receipt"])?))
            }
            Err(error) => (json!({ "error": error.code }), Value::Array(Vec::new()), None),
        };
        app.disk.ended(&self.user, &denials);
        self.owed
            .settle(|entry| {
                merge(&mut entry.result, told.clone());
                (entry.denials, entry.receipt_digest) = (denials, receipt_digest);
            })
            .await?;
        self.pass.finish(if outcome.is_ok() { Outcome::Done } else { Outcome::Failed }, told).await
    }
}

fn facts_of(app: &Shared, report: Answer<Report>) -> Answer<Value> {
    match report? {
        Report::Ran { facts } => Ok(app.mask.value(facts)),
        _ => Err(ApiError::internal("understand a worker", "it reported on something else")),
    }
}

/// Run one command to its end.
#[utoipa::path(
    post, path = "/run", tag = "run", request_body = RunRequest,
    responses(
        (status = 200, description = "The command ran, whatever its exit status", body = RunAnswer),
        (status = 202, description = "Nothing ran: a person has to approve this action first", body = ActionAnswer),
        (status = "4XX", description = "Nothing ran", body = ErrorBody),
    )
)]
pub(crate) async fn run(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Body(request): Body<RunRequest>,
) -> Answer<Response> {
    to_the_end(&app, &caller, &request_id, request).await
}

pub(super) async fn to_the_end(
    app: &Shared,
    caller: &Caller,
    request_id: &RequestId,
    request: RunRequest,
) -> Answer<Response> {
    let ordered = match request.begin(app, caller, request_id).await? {
        Begun::Ordered(ordered) => *ordered,
        Begun::Waiting(row) => return Ok(Gated::accepted(*row)),
    };
    let Ordered { mut worker, pipes, stdin, record, begun, permit } = ordered;
    let Pipes { stdin: to, stdout, stderr } = pipes;
    let feeding = to.map(|to| tokio::spawn(feed(to, stdin)));
    let (report, (stdout, more_out), (stderr, more_err)) =
        tokio::join!(worker.report(), collect(stdout, OUTPUT), collect(stderr, OUTPUT));
    if let Some(feeding) = feeding {
        feeding.abort();
    }
    drop(permit);
    let outcome = facts_of(app, report);
    record.ended(app, &outcome, begun).await?;
    let mut answer: RunAnswer =
        serde_json::from_value(outcome?).map_err(|error| ApiError::internal("understand a worker", error))?;
    (answer.stdout, answer.stdout_base64) = text(stdout);
    (answer.stderr, answer.stderr_base64) = text(stderr);
    answer.truncated = more_out || more_err;
    Ok(Json(answer).into_response())
}

/// Run one command and hear of it as it goes.
///
/// Server-Sent Events: `start` `{"id"}`, `stdout` and `stderr` `{"text"}` (or `{"base64"}`), `denial`, then `exit` with
/// what `POST /v1/run` answers, or `error`. A client that goes away ends the command, unless `keep` is true: then
/// another request with `Last-Event-ID` goes on after that event.
#[utoipa::path(
    post, path = "/run/stream", tag = "run", request_body = RunRequest,
    responses(
        (status = 200, description = "Events", content_type = "text/event-stream", body = StreamEvent),
        (status = 202, description = "Nothing ran: a person has to approve this action first", body = ActionAnswer),
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
        return Ok(events(&app, &caller, &log, Some(last), app.hold(&caller)?));
    }
    let Body(request) = Body::<RunRequest>::from_request(request, &()).await?;
    let held = app.hold(&caller)?;
    let on_disconnect = if request.keep { OnDisconnect::Keep } else { OnDisconnect::End };
    let ordered = match request.begin(&app, &caller, &request_id).await? {
        Begun::Ordered(ordered) => *ordered,
        Begun::Waiting(row) => return Ok(Gated::accepted(*row)),
    };
    let log = EventLog::new(Uuid::now_v7().simple().to_string(), caller.user.clone(), on_disconnect);
    app.streams.add(&log);
    app.metrics.streams.inc();
    let response = events(&app, &caller, &log, None, held);
    tokio::spawn(pump(app, ordered, log).in_current_span());
    Ok(response)
}

/// Until the last of them, until nobody listens, or until this caller may do so no longer.
pub(crate) fn events(
    app: &Shared,
    caller: &Caller,
    log: &Arc<EventLog>,
    last: Option<u64>,
    held: Held,
) -> Response {
    let told = log.follow(last).inspect(move |_| {
        let _ = &held;
    });
    let told = told.take_until(until_revoked(app.clone(), caller.clone()));
    let stream = Sse::new(told).keep_alive(KeepAlive::default());
    ([("x-accel-buffering", "no"), (STREAM, log.id.as_str())], stream).into_response()
}

/// Carry what a command writes to its log, until it ends or nobody listens any more.
async fn pump(app: Shared, ordered: Ordered, log: Arc<EventLog>) {
    let Ordered { mut worker, pipes, stdin, record, begun, permit } = ordered;
    log.write("start", &json!({ "id": log.id })).await;
    let Pipes { stdin: to, stdout, stderr } = pipes;
    let feeding = to.map(|to| tokio::spawn(feed(to, stdin)));
    let outcome = {
        let told = async {
            tokio::join!(relay(stdout, "stdout", &log, |_| ()), relay(stderr, "stderr", &log, |_| ()));
        };
        tokio::pin!(told);
        let stopped = tokio::select! {
            () = &mut told => false,
            () = log.abandoned() => true,
        };
        if stopped {
            worker.stop();
        }
        facts_of(&app, worker.report().await)
    };
    if let Some(feeding) = feeding {
        feeding.abort();
    }
    drop(permit);
    if let Err(error) = record.ended(&app, &outcome, begun).await {
        log.write("error", &json!({ "error": app.mask.error(error).body(&log.id).error })).await;
    } else {
        match outcome {
            Ok(facts) => {
                for denial in facts["denials"].as_array().into_iter().flatten() {
                    log.write("denial", denial).await;
                }
                log.write("exit", &exit_event(facts)).await;
            }
            Err(error) => {
                log.write("error", &json!({ "error": app.mask.error(error).body(&log.id).error })).await
            }
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

pub(crate) async fn relay(
    mut from: impl tokio::io::AsyncRead + Unpin,
    name: &'static str,
    log: &EventLog,
    mut each: impl FnMut(&[u8]),
) {
    let mut characters = Characters::default();
    let mut chunk = vec![0; 32 << 10];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        each(&chunk[..read]);
        log.write_output(name, characters.push(&chunk[..read])).await;
    }
    log.write_output(name, characters.rest()).await;
}
