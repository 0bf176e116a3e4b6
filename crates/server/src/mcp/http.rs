//! `/mcp` of the server: the protocol over streamable HTTP, behind the same doors as the API.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::{self, Next};
use axum::response::Response;
use futures_util::{Stream, StreamExt};
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::connection::Connection;
use super::handler::Mcp;
use super::host::Host;
use super::outputs::OutputStore;
use super::served::Served;
use crate::app::Shared;
use crate::auth::Caller;
use crate::doors::RequestId;
use crate::error::{Answer, ApiError};
use crate::held::Held;
use crate::standing::until_revoked;

const SESSION: &str = "mcp-session-id";

/// Which user each of the protocol's sessions belongs to, and the connections of those who have none.
#[derive(Debug)]
struct McpState {
    /// A client that is silent for so long is gone. One that waits for a call is not silent.
    idle: Duration,
    owners: Mutex<HashMap<String, Owned>>,
    /// Users whose session is being made, once for each.
    making: Mutex<Vec<String>>,
    stateless: Mutex<HashMap<String, (Arc<Connection>, Instant)>>,
    outputs: Mutex<HashMap<String, Weak<OutputStore>>>,
}

/// A session of the protocol.
#[derive(Debug)]
struct Owned {
    user: String,
    /// That run, and when the last one began or ended.
    calls: usize,
    used: Instant,
}

/// What a request over HTTP is answered with.
#[derive(Clone, Debug)]
pub(super) struct Door {
    app: Shared,
    api: Router,
    state: Arc<McpState>,
}

/// Cancelled when the client has gone away from this request.
#[derive(Clone, Debug)]
struct Gone(CancellationToken);

impl Door {
    /// The caller's host; their shared connection, where the request belongs to none; and where their outputs are kept.
    pub(super) fn host(
        &self,
        extensions: &rmcp::model::Extensions,
    ) -> Answer<(Host, Option<Arc<Connection>>, Arc<OutputStore>)> {
        let unknown = || ApiError::internal("say who asks", "the request has no caller");
        let parts = extensions.get::<Parts>().ok_or_else(unknown)?;
        let caller = parts.extensions.get::<Caller>().ok_or_else(unknown)?.clone();
        let request_id = parts.extensions.get::<RequestId>().ok_or_else(unknown)?.clone();
        let shared = (!parts.headers.contains_key(SESSION)).then(|| self.state.shared(&caller));
        let most = self.app.config.role(caller.role).quotas.mcp_outputs.bytes() as usize;
        let store = self.state.outputs(&caller.user, most);
        let served = Served { app: Arc::clone(&self.app), api: self.api.clone(), caller, request_id };
        Ok((Host::Served(served), shared, store))
    }

    pub(super) fn gone(&self, extensions: &rmcp::model::Extensions) -> Option<CancellationToken> {
        Some(extensions.get::<Parts>()?.extensions.get::<Gone>()?.0.clone())
    }
}

impl McpState {
    fn new(idle: Duration) -> Self {
        let (owners, making, stateless, outputs) = Default::default();
        Self { idle, owners, making, stateless, outputs }
    }

    /// Of a user whose client keeps no session of the protocol.
    fn shared(&self, caller: &Caller) -> Arc<Connection> {
        let mut all = self.stateless.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = all.entry(stateless_key(caller)).or_insert_with(|| (Arc::default(), Instant::now()));
        entry.1 = Instant::now();
        Arc::clone(&entry.0)
    }

    /// A request has come for one, of its user; none where it is nobody's or somebody else's.
    fn begin(self: &Arc<Self>, session: &str, user: &str) -> Option<InUse> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let owned = owners.get_mut(session).filter(|owned| owned.user == user)?;
        owned.calls += 1;
        owned.used = Instant::now();
        Some(InUse { state: Arc::clone(self), of: Used::Session(session.to_owned()) })
    }

    /// The same where there is none: what a long call was made with is in use until it ends.
    fn begin_stateless(self: &Arc<Self>, caller: &Caller) -> InUse {
        InUse { state: Arc::clone(self), of: Used::Shared(stateless_key(caller)) }
    }

    fn end(&self, used: &Used, now: Instant) {
        match used {
            Used::Session(session) => {
                let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(owned) = owners.get_mut(session) {
                    owned.calls = owned.calls.saturating_sub(1);
                    owned.used = now;
                }
            }
            Used::Shared(key) => {
                let mut all = self.stateless.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((_, used)) = all.get_mut(key) {
                    *used = now;
                }
            }
        }
    }

    /// Let those go that nobody has used for long: what was made for them ends. The sessions of the protocol that are to be closed.
    fn prune(&self, now: Instant) -> Vec<String> {
        let silent = |used: Instant| now.saturating_duration_since(used) >= self.idle;
        let mut all = self.stateless.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, (connection, used)| !silent(*used) || Arc::strong_count(connection) > 1);
        drop(all);
        self.outputs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|_, store| store.strong_count() > 0);
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let is_gone = |owned: &Owned| owned.calls == 0 && silent(owned.used);
        owners.extract_if(|_, owned| is_gone(owned)).map(|(session, _)| session).collect()
    }

    fn outputs(&self, user: &str, most: usize) -> Arc<OutputStore> {
        let mut all = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = all.get(user).and_then(Weak::upgrade) {
            return store;
        }
        let store = Arc::new(OutputStore::of(most));
        all.insert(user.to_owned(), Arc::downgrade(&store));
        store
    }

    fn own(&self, session: String, user: String) {
        let owned = Owned { user, calls: 0, used: Instant::now() };
        self.owners.lock().unwrap_or_else(PoisonError::into_inner).insert(session, owned);
    }

    fn disown(&self, session: &str) {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
    }

    /// A place for one more session of this user; none where they have as many as may be. Those that the protocol's side has let
    /// go are no longer anybody's.
    fn place(self: &Arc<Self>, user: &str, most: u32, alive: impl Fn(&str) -> bool) -> Option<Place> {
        let mut making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.retain(|session, _| alive(session));
        let users = owners.values().map(|owned| &owned.user);
        let held = users.chain(making.iter()).filter(|owner| *owner == user).count();
        if held >= most as usize {
            return None;
        }
        making.push(user.to_owned());
        Some(Place { state: Arc::clone(self), user: user.to_owned() })
    }
}

fn stateless_key(caller: &Caller) -> String {
    format!("{}\n{}", caller.user, caller.key.as_deref().unwrap_or_default())
}

/// What a request is about.
enum Used {
    Session(String),
    Shared(String),
}

/// Held until a request has its whole answer, or nobody waits for it any more.
struct InUse {
    state: Arc<McpState>,
    of: Used,
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.state.end(&self.of, Instant::now());
    }
}

/// Held while a session is made.
struct Place {
    state: Arc<McpState>,
    user: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut making = self.state.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = making.iter().position(|user| *user == self.user) {
            making.swap_remove(at);
        }
    }
}

/// What the middleware of `/mcp` has.
#[derive(Clone, Debug)]
struct Guarding {
    app: Shared,
    state: Arc<McpState>,
    sessions: Arc<LocalSessionManager>,
}

/// `/mcp`, to be put behind the check of keys. `api` is what calls are carried out by.
pub(crate) fn routes(app: &Shared, api: Router) -> Router<Shared> {
    let idle = app.config.limits.mcp_idle.duration();
    let state = Arc::new(McpState::new(idle));
    let mut sessions = LocalSessionManager::default();
    // It knows of no call that runs: who is silent is seen here.
    sessions.session_config.keep_alive = None;
    sessions.session_config.sse_retry = None;
    let sessions = Arc::new(sessions);
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(keep_pruned(Arc::downgrade(&state), Arc::clone(&sessions)));
    }
    let door = Door { app: Arc::clone(app), api, state: Arc::clone(&state) };
    // Host and Origin are checked by `doors`, for every route. No event without data comes first: Gemini CLI takes it for a
    // broken message, and a call whose client went away has ended, so that there is nothing to come back to.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_sse_retry(None)
        .with_max_request_body_bytes(app.config.limits.body.bytes() as usize);
    let service =
        StreamableHttpService::new(move || Ok(Mcp::http(door.clone())), Arc::clone(&sessions), config);
    Router::new()
        .route_service("/mcp", service)
        .layer(middleware::from_fn_with_state(Guarding { app: Arc::clone(app), state, sessions }, guard))
}

/// Those whose client vanished without a word are let go, also where no other client comes.
async fn keep_pruned(state: Weak<McpState>, sessions: Arc<LocalSessionManager>) {
    loop {
        let Some(state) = state.upgrade() else { return };
        let pause = state.idle / 4;
        let silent = state.prune(Instant::now());
        drop(state);
        for session in silent {
            let _ = sessions.close_session(&session.into()).await;
        }
        tokio::time::sleep(pause.max(Duration::from_millis(100))).await;
    }
}

/// Does a request begin a session? Its body is read for that, and put back.
async fn begins(request: &mut Request, most: usize) -> Result<bool, ApiError> {
    #[derive(serde::Deserialize)]
    struct Called {
        method: Option<String>,
    }
    if request.method() != axum::http::Method::POST || request.headers().contains_key(SESSION) {
        return Ok(false);
    }
    let body = std::mem::take(request.body_mut());
    let bytes = axum::body::to_bytes(body, most).await.map_err(|error| {
        ApiError::bad(format!("the body can't be read: {error}"), "send it again, and not too large")
    })?;
    let called: Option<Called> = serde_json::from_slice(&bytes).ok();
    *request.body_mut() = Body::from(bytes);
    Ok(called.is_some_and(|called| called.method.as_deref() == Some("initialize")))
}

/// A session of the protocol is its user's alone, and a call ends with the client that waits for it.
async fn guard(
    State(guarding): State<Guarding>,
    caller: Caller,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let header = request.headers().get(SESSION).cloned();
    let session = header.as_ref().map(|value| value.to_str().unwrap_or_default().to_owned());
    let in_use = match &session {
        Some(session) => guarding.state.begin(session, &caller.user).ok_or_else(|| {
            ApiError::new(
                StatusCode::NOT_FOUND,
                "no_session",
                "there is no such session of the protocol",
                "begin a new one with `initialize`",
            )
        })?,
        None => guarding.state.begin_stateless(&caller),
    };
    let _place = match begins(&mut request, guarding.app.config.limits.body.bytes() as usize).await? {
        true if session.is_none() => {
            let most = guarding.app.config.role(caller.role).quotas.mcp_sessions;
            let alive = guarding.sessions.sessions.read().await;
            let place = guarding.state.place(&caller.user, most, |session| alive.contains_key(session));
            Some(place.ok_or_else(|| {
                ApiError::too_many(
                    format!("{most} sessions of the protocol of yours are open, and that is your quota"),
                    format!(
                        "end one, or wait until some have been silent for {} seconds",
                        guarding.state.idle.as_secs().max(1)
                    ),
                    60,
                )
            })?)
        }
        _ => None,
    };
    let (deletes, posts) =
        (request.method() == axum::http::Method::DELETE, request.method() == axum::http::Method::POST);
    // The stream that a client listens on.
    let gets = request.method() == axum::http::Method::GET;
    let held = gets.then(|| guarding.app.hold(&caller)).transpose()?;
    let gone = CancellationToken::new();
    request.extensions_mut().insert(Gone(gone.clone()));
    // Also a client that goes away before the answer begins.
    let guard = gone.drop_guard();
    let response = next.run(request).await;
    if let Some(session) = session.as_ref().filter(|_| deletes && response.status().is_success()) {
        guarding.state.disown(session);
    }
    let made = response.headers().get(SESSION).and_then(|value| value.to_str().ok());
    if let Some(made) = made.filter(|_| session.is_none()) {
        guarding.state.own(made.to_owned(), caller.user.clone());
    }
    if !posts && held.is_none() {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let body = body.into_data_stream().take_until(until_revoked(guarding.app, caller));
    // Who only listens is silent.
    let in_use = posts.then_some(in_use);
    let watched = Watched { body: Box::pin(body), _guard: guard, _held: held, _in_use: in_use };
    Ok(Response::from_parts(parts, Body::from_stream(watched)))
}

/// The body of an answer, which nobody reads any more once it is dropped, and which ends when its reader may ask no longer.
struct Watched {
    body: Pin<Box<dyn Stream<Item = Result<Bytes, axum::Error>> + Send>>,
    _guard: DropGuard,
    _held: Option<Held>,
    _in_use: Option<InUse>,
}

impl Stream for Watched {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.body.as_mut().poll_next(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With times of their own: nothing waits.
    #[test]
    fn who_waits_for_a_call_is_not_silent() {
        let idle = Duration::from_secs(900);
        let state = Arc::new(McpState::new(idle));
        state.own("s".into(), "ada".into());
        let first = Instant::now();
        assert!(state.begin("s", "eve").is_none() && state.begin("t", "ada").is_none());
        let call = state.begin("s", "ada").expect("a session");
        assert!(state.prune(first + 3 * idle).is_empty(), "its call runs");
        let ended = first + 3 * idle;
        state.end(&call.of, ended);
        std::mem::forget(call);
        assert!(state.prune(ended + idle / 2).is_empty(), "silence begins when the call ends");
        assert_eq!(state.prune(ended + idle), ["s"]);
        assert!(state.begin("s", "ada").is_none(), "it is nobody's then");

        let key = "ada\nkey".to_owned();
        state.stateless.lock().unwrap().insert(key.clone(), (Arc::default(), first));
        let of_call = Arc::clone(&state.stateless.lock().unwrap()[&key].0);
        state.prune(first + 3 * idle);
        drop(of_call);
        state.end(&Used::Shared(key.clone()), ended);
        state.prune(ended + idle / 2);
        assert!(state.stateless.lock().unwrap().contains_key(&key), "what a long call was made with stays");
        state.prune(ended + idle);
        assert!(state.stateless.lock().unwrap().is_empty());
    }
}
