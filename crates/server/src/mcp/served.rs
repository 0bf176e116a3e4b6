//! The sandboxes of whoever has a key, through the server's own API in this process: the same checks, ceilings, quotas and
//! audit, whichever door a request came by.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use ringfence_sandbox::Sandbox;
use ringfence_service::Places;
use ringfence_store::{ActionState, Role, SandboxFilter, SandboxState};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::drafts::put_output;
use super::host::{
    Command, FileDraft, Restored, SessionShown, SessionWish, Sink, SkillCommand, Stream, Taken, Wish,
};
use crate::app::Shared;
use crate::auth::Caller;
use crate::doors::RequestId;
use crate::error::{Answer, ApiError};

/// A sandbox that a connection made and nobody uses ends after this.
const IDLE_MS: u64 = 15 * 60 * 1000;
/// What an answer of our own API, apart from a stream, may hold.
const MOST_ANSWER: usize = 16 << 20;
/// How long one look at an action that waits goes on.
const LONGEST_LOOK: Duration = Duration::from_secs(60);
const MOST_LISTED: u32 = 1000;
const MOST_ACTIONS: u32 = 50;

#[derive(Clone, Debug)]
pub(super) struct Served {
    pub(super) app: Shared,
    /// The API behind the check of keys.
    pub(super) api: Router,
    pub(super) caller: Caller,
    pub(super) request_id: RequestId,
}

impl Served {
    pub(super) fn places(&self) -> &Places {
        &self.app.places
    }

    pub(super) fn may_change(&self) -> Answer<()> {
        self.caller.needs(Role::Operator)
    }

    /// Which domains of the library the caller's role may see.
    pub(super) fn sees(&self, domain: &str) -> bool {
        self.app.config.role(self.caller.role).skills.sees(domain)
    }

    pub(super) fn told(&self, error: ApiError) -> ApiError {
        self.app.mask.error(error)
    }

    async fn send(&self, method: Method, path: &str, kind: &str, body: Body) -> Answer<Response> {
        let internal = |error: axum::http::Error| ApiError::internal("ask the API", error);
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind);
        let mut request = request.body(body).map_err(internal)?;
        request.extensions_mut().insert(self.caller.clone());
        request.extensions_mut().insert(self.request_id.clone());
        let sent = self.api.clone().oneshot(request).await;
        let mut response = match sent {
            Ok(response) => response,
            Err(never) => match never {},
        };
        match response.extensions_mut().remove::<ApiError>() {
            Some(error) => Err(error),
            // Nothing was done: a person has to decide first.
            None if response.status() == StatusCode::ACCEPTED => Err(waiting(read(response).await?)),
            None if response.status().is_success() => Ok(response),
            None => Err(ApiError::internal("ask the API", response.status())),
        }
    }

    async fn send_json(&self, method: Method, path: &str, body: Option<Value>) -> Answer<Response> {
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        self.send(method, path, "application/json", body).await
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Answer<Value> {
        read(self.send_json(method, path, body).await?).await
    }

    /// What a stream of the API tells, to its end. Dropping this is going away: the command ends.
    async fn follow(&self, path: &str, body: Value, sink: Sink) -> Answer<Value> {
        let response = self.send_json(Method::POST, path, Some(body)).await?;
        let mut stream = response.into_body().into_data_stream();
        let mut lines = Lines::default();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| ApiError::internal("hear of a command", error))?;
            for (name, data) in lines.push(&chunk) {
                match name.as_str() {
                    "stdout" => send_output(&sink, Stream::Stdout, &data).await,
                    "stderr" => send_output(&sink, Stream::Stderr, &data).await,
                    "exit" => return Ok(data),
                    "error" => return Err(error_of(&data["error"])),
                    _ => {}
                }
            }
        }
        Err(ApiError::internal("hear of a command", "its stream broke off"))
    }

    pub(super) async fn create(&self, wish: SessionWish) -> Answer<(String, Vec<String>)> {
        let SessionWish { name, wish, overlay, variables, ttl, action } = wish;
        let body = json!({
            "name": name,
            "compat": wish.compat,
            "profile": wish.profile,
            "image": wish.image,
            "network": wish.network,
            "overlay": overlay,
            "env": variables,
            "ttl_ms": ttl.map(millis),
            "idle_ms": IDLE_MS,
            "skills": true,
            "labels": { "by": "mcp" },
            "action": action,
        });
        let made = self.ask(Method::POST, "/v1/sandboxes", Some(body)).await?;
        let id = made["id"].as_str().unwrap_or_default().to_owned();
        let notes = made["notes"].as_array().into_iter().flatten();
        Ok((id, notes.filter_map(|note| note.as_str().map(str::to_owned)).collect()))
    }

    /// By its id, or by the name that the caller gave it.
    async fn id_of(&self, session: &str) -> Answer<String> {
        if is_id(session) {
            return Ok(session.to_owned());
        }
        let rows = self.rows().await?;
        let found = rows.into_iter().find(|row| row.name.as_deref() == Some(session));
        found.map(|row| row.id).ok_or_else(|| ApiError::not_found("session", session))
    }

    async fn rows(&self) -> Answer<Vec<ringfence_store::SandboxRow>> {
        let filter = SandboxFilter {
            user: Some(self.caller.user.clone()),
            state: Some(SandboxState::Alive),
            after: None,
            limit: MOST_LISTED,
        };
        Ok(self.app.store.sandboxes(&filter).await?)
    }

    pub(super) async fn sandbox(&self, session: &str) -> Answer<Sandbox> {
        let id = self.id_of(session).await?;
        Ok(self.app.sandbox(&self.caller, &id).await?.1)
    }

    pub(super) async fn list(&self) -> Answer<Vec<SessionShown>> {
        let shown = self.rows().await?.into_iter().map(|row| SessionShown {
            session: row.name.unwrap_or(row.id),
            profile: row.profile,
            created: u64::try_from(row.created).unwrap_or_default(),
        });
        Ok(shown.collect())
    }

    pub(super) async fn close(&self, session: &str) -> Answer<Vec<String>> {
        let id = self.id_of(session).await?;
        self.ask(Method::DELETE, &format!("/v1/sandboxes/{id}"), None).await?;
        Ok(Vec::new())
    }

    pub(super) async fn places_of(&self, session: &str) -> Answer<(Places, String)> {
        let id = self.id_of(session).await?;
        let (row, _) = self.app.sandbox(&self.caller, &id).await?;
        Ok((self.app.places_of(&row.user)?, id))
    }

    pub(super) async fn write(&self, session: &str, draft: FileDraft) -> Answer<()> {
        let at = format!("/v1/sandboxes/{}/files", self.id_of(session).await?);
        self.make_parent(&at, &draft.path).await?;
        let mut path = format!("{at}?path={}&mode={:o}", coded(&draft.path), draft.mode);
        if let Some(action) = &draft.action {
            path = format!("{path}&action={}", coded(action));
        }
        let sent = self.send(Method::PUT, &path, "application/octet-stream", Body::from(draft.bytes)).await;
        sent.map(drop)
    }

    /// Before an approval is used up by a write that can't be done.
    async fn make_parent(&self, files: &str, path: &str) -> Answer<()> {
        let Some((parent, _)) = path.trim_end_matches('/').rsplit_once('/') else { return Ok(()) };
        if parent.is_empty() {
            return Ok(());
        }
        let stat = format!("{files}/stat?path={}", coded(parent));
        if self.ask(Method::GET, &stat, None).await.is_ok() {
            return Ok(());
        }
        let body = json!({ "path": parent, "parents": true });
        self.ask(Method::POST, &format!("{files}/directories"), Some(body)).await.map(drop)
    }

    /// What a command of the caller's wrote to us, put where it could have put it itself: no action of its own.
    pub(super) async fn keep_output(&self, session: &str, path: &str, bytes: Vec<u8>) -> Answer<()> {
        let id = self.id_of(session).await?;
        let (row, sandbox) = self.app.own_sandbox(&self.caller, &id).await?;
        self.app.may_write(&row.user).await?;
        put_output(sandbox, path, bytes).await
    }

    pub(super) async fn start(&self, session: &str, command: Command) -> Answer<u32> {
        let at = format!("/v1/sandboxes/{}/processes", self.id_of(session).await?);
        let started = self.ask(Method::POST, &at, Some(body_of(&command))).await?;
        let process = started["process"].as_u64().and_then(|process| u32::try_from(process).ok());
        let process = process.ok_or_else(|| ApiError::internal("read an answer", "it names no process"))?;
        // Nothing more comes. One that has ended, or does not read, needs no end of its input.
        let _ =
            self.ask(Method::POST, &format!("{at}/{process}/stdin"), Some(json!({ "close": true }))).await;
        Ok(process)
    }

    pub(super) async fn signal(&self, session: &str, process: u32, signal: i32) -> Answer<()> {
        let path = format!("/v1/sandboxes/{}/processes/{process}/signal", self.id_of(session).await?);
        self.ask(Method::POST, &path, Some(json!({ "signal": signal, "tree": true }))).await.map(drop)
    }

    pub(super) async fn snapshot(&self, session: &str, name: Option<String>) -> Answer<Taken> {
        let path = format!("/v1/sandboxes/{}/snapshots", self.id_of(session).await?);
        understood(self.ask(Method::POST, &path, Some(json!({ "name": name }))).await?)
    }

    pub(super) async fn restore(
        &self,
        session: &str,
        snapshot: String,
        action: Option<String>,
    ) -> Answer<Restored> {
        let path = format!("/v1/sandboxes/{}/rollback", self.id_of(session).await?);
        understood(
            self.ask(Method::POST, &path, Some(json!({ "snapshot": snapshot, "action": action }))).await?,
        )
    }

    /// The caller's own actions that wait, the newest first.
    pub(super) async fn waiting_actions(&self) -> Answer<Vec<Value>> {
        let path =
            format!("/v1/actions?state=waiting&user={}&limit={MOST_ACTIONS}", coded(&self.caller.user));
        let mut page = self.ask(Method::GET, &path, None).await?;
        let own = |action: &Value| action["user"] == self.caller.user.as_str();
        let Value::Array(all) = page["actions"].take() else { return Ok(Vec::new()) };
        Ok(all.into_iter().filter(own).collect())
    }

    pub(super) async fn action(&self, id: &str) -> Answer<Value> {
        let missing = || ApiError::not_found("action", id);
        // Beside actions there are other things at that place, a stream of all of them too.
        if !is_id(id) {
            return Err(missing());
        }
        let action = self.ask(Method::GET, &format!("/v1/actions/{id}"), None).await?;
        let own = action["user"] == self.caller.user.as_str();
        if own { Ok(action) } else { Err(missing()) }
    }

    /// Approve or deny an action of the caller's own, as they could through the API.
    pub(super) async fn decide(&self, id: &str, word: &str) -> Answer<()> {
        self.action(id).await?;
        let body = json!({ "reason": "asked through the client" });
        self.ask(Method::POST, &format!("/v1/actions/{id}/{word}"), Some(body)).await.map(drop)
    }

    /// Until somebody has decided on it, or nobody can any more.
    pub(super) async fn decided(&self, id: &str) {
        loop {
            match self.app.store.action(id).await {
                Ok(Some(row)) if row.state == ActionState::Waiting => {
                    let _ = self.app.actions.decided(&self.app.store, row, LONGEST_LOOK).await;
                }
                _ => return,
            }
        }
    }

    pub(super) async fn cancel_action(&self, id: &str) -> Answer<()> {
        self.ask(Method::POST, &format!("/v1/actions/{}/cancel", coded(id)), None).await.map(drop)
    }

    pub(super) async fn exec(&self, session: &str, command: Command, sink: Sink) -> Answer<Value> {
        let id = self.id_of(session).await?;
        self.follow(&format!("/v1/sandboxes/{id}/exec/stream"), body_of(&command), sink).await
    }

    pub(super) async fn run(&self, wish: Wish, command: Command, sink: Sink) -> Answer<Value> {
        let mut body = body_of(&command);
        body["compat"] = json!(wish.compat);
        body["profile"] = json!(wish.profile);
        body["image"] = json!(wish.image);
        body["network"] = json!(wish.network);
        body["skills"] = json!(true);
        self.follow("/v1/run/stream", body, sink).await
    }

    pub(super) async fn run_skill(&self, skill: SkillCommand, sink: Sink) -> Answer<Value> {
        let SkillCommand { skill, script, command } = skill;
        let body = json!({
            "script": script,
            "args": command.argv,
            "env": command.variables,
            "stdin": command.stdin,
            "timeout_ms": command.timeout.map(millis),
            "action": command.action,
        });
        let path = format!("/v1/skills/{}/{}/run", skill.domain, skill.name);
        let mut facts = self.ask(Method::POST, &path, Some(body)).await?;
        for (name, stream) in [("stdout", Stream::Stdout), ("stderr", Stream::Stderr)] {
            let coded = facts[format!("{name}_base64")].take();
            send_output(&sink, stream, &json!({ "text": facts[name].take(), "base64": coded })).await;
        }
        facts["skill"] = json!({ "domain": skill.domain, "name": skill.name });
        Ok(facts)
    }
}

/// The body of an answer; null where there is none.
async fn read(response: Response) -> Answer<Value> {
    if response.status() == StatusCode::NO_CONTENT {
        return Ok(Value::Null);
    }
    let bytes = axum::body::to_bytes(response.into_body(), MOST_ANSWER)
        .await
        .map_err(|error| ApiError::internal("read an answer", error))?;
    serde_json::from_slice(&bytes).map_err(|error| ApiError::internal("read an answer", error))
}

fn understood<T: DeserializeOwned>(answer: Value) -> Answer<T> {
    serde_json::from_value(answer).map_err(|error| ApiError::internal("understand an answer", error))
}

/// What the API has written down and not done.
fn waiting(action: Value) -> ApiError {
    let mut error = ApiError::new(
        StatusCode::ACCEPTED,
        "waiting_for_approval",
        "a person has to approve this first",
        "call again with `action` once it is approved",
    );
    error.waits_for = Some(Box::new(action));
    error
}

/// As the server makes them, for what it keeps.
fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A value of a query or a part of a path.
fn coded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn body_of(command: &Command) -> Value {
    json!({
        "command": command.argv,
        "cwd": command.directory,
        "env": command.variables,
        "stdin": command.stdin,
        "timeout_ms": command.timeout.map(millis),
        "action": command.action,
    })
}

async fn send_output(sink: &Sink, stream: Stream, data: &Value) {
    // Where there are both, the text has replacement characters.
    let bytes = match (data["text"].as_str(), data["base64"].as_str()) {
        (_, Some(coded)) => STANDARD.decode(coded).unwrap_or_default(),
        (Some(text), None) => text.as_bytes().to_vec(),
        _ => return,
    };
    let _ = sink.send((stream, bytes)).await;
}

fn error_of(error: &Value) -> ApiError {
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    ApiError::new(StatusCode::BAD_REQUEST, &text("code"), text("message"), text("hint"))
}

/// Server-Sent Events from bytes as they come.
#[derive(Debug, Default)]
struct Lines {
    rest: Vec<u8>,
    name: String,
    data: String,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) -> Vec<(String, Value)> {
        let mut events = Vec::new();
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                if let Ok(data) = serde_json::from_str(&self.data) {
                    events.push((std::mem::take(&mut self.name), data));
                }
                self.data.clear();
            } else if let Some(name) = line.strip_prefix("event:") {
                self.name = name.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data:") {
                self.data.push_str(data.trim_start());
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_any_pieces() {
        let text = "id: 1\nevent: stdout\ndata: {\"text\":\"a\\nb\"}\n\n:\n\nevent: exit\ndata: {\"exit_code\":0}\n\n";
        for size in 1..text.len() {
            let mut lines = Lines::default();
            let events: Vec<_> = text.as_bytes().chunks(size).flat_map(|chunk| lines.push(chunk)).collect();
            let wanted = [
                ("stdout".to_owned(), json!({ "text": "a\nb" })),
                ("exit".to_owned(), json!({ "exit_code": 0 })),
            ];
            assert_eq!(events, wanted, "{size}");
        }
    }
}
