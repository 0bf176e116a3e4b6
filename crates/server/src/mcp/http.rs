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
    /// A client that is silent for so long is gone.
    idle: Duration,
    owners: Mutex<HashMap<String, String>>,
    /// Users whose session is being made, once for each.
    making: Mutex<Vec<String>>,
    stateless: Mutex<HashMap<String, (Arc<Connection>, Instant)>>,
    outputs: Mutex<HashMap<String, Weak<OutputStore>>>,
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
        let key = format!("{}\n{}", caller.user, caller.key.as_deref().unwrap_or_default());
        let entry = all.entry(key).or_insert_with(|| (Arc::default(), Instant::now()));
        entry.1 = Instant::now();
        Arc::clone(&entry.0)
    }

    /// Let those go that nobody has used for long: what was made for them ends.
    fn prune(&self) {
        let mut all = self.stateless.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = self.idle;
        all.retain(|_, (connection, used)| used.elapsed() < idle || Arc::strong_count(connection) > 1);
        drop(all);
        self.outputs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|_, store| store.strong_count() > 0);
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

    fn owner(&self, session: &str) -> Option<String> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner).get(session).cloned()
    }

    fn own(&self, session: String, user: String) {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner).insert(session, user);
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
        let held = owners.values().chain(making.iter()).filter(|owner| *owner == user).count();
        if held >= most as usize {
            return None;
        }
        making.push(user.to_owned());
        Some(Place { state: Arc::clone(self), user: user.to_owned() })
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
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(keep_pruned(Arc::downgrade(&state)));
    }
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(idle);
    sessions.session_config.sse_retry = None;
    let sessions = Arc::new(sessions);
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
async fn keep_pruned(state: Weak<McpState>) {
    loop {
        let Some(state) = state.upgrade() else { return };
        let pause = state.idle / 4;
        state.prune();
        drop(state);
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
    match &session {
        Some(session) if guarding.state.owner(session).as_deref() != Some(&caller.user) => {
            return Err(ApiError::new(
                StatusCode::NOT_FOUND,
                "no_session",
                "there is no such session of the protocol",
                "begin a new one with `initialize`",
            ));
        }
        _ => {}
    }
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
    let watched = Watched { body: Box::pin(body), _guard: guard, _held: held };
    Ok(Response::from_parts(parts, Body::from_stream(watched)))
}

/// The body of an answer, which nobody reads any more once it is dropped, and which ends when its reader may ask no longer.
struct Watched {
    body: Pin<Box<dyn Stream<Item = Result<Bytes, axum::Error>> + Send>>,
    _guard: DropGuard,
    _held: Option<Held>,
}

impl Stream for Watched {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.body.as_mut().poll_next(context)
    }
}
