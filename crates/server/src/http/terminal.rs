//! A terminal in a sandbox, over a WebSocket. The first message says what to run; then binary messages are what is typed
//! and what is shown, and text messages are JSON: `{"resize":{"rows","columns"}}` and `{"signal":n}` one way, `started`,
//! `exit` and `error` the other.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use axum::{Extension, Json};
use futures_util::{SinkExt, StreamExt};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::termios::{Winsize, tcsetwinsize};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::actions::ActionAnswer;
use super::bounds::Millis;
use super::exec::{Begun, ExecRequest, Running, Stdio, begin};
use crate::actions::Claim;
use crate::app::Shared;
use crate::auth::{Caller, wrong_key};
use crate::body::Named;
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};
use crate::standing::until_revoked;
use crate::tickets::{GOOD_FOR, by_ticket_or_key};

/// Until the first message.
const PATIENCE: Duration = Duration::from_secs(30);
/// A client that takes nothing for so long is gone.
const STUCK: Duration = Duration::from_secs(60);
const PING: Duration = Duration::from_secs(30);
/// After the last process let go of the terminal: one may open it again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const LAST_WORDS: Duration = Duration::from_millis(300);
/// Until a client has taken what it was sent last, and says so by closing.
pub(super) const PARTING: Duration = Duration::from_secs(30);
const LONGEST_MESSAGE: usize = 1 << 20;
/// Typed and not yet taken by the command: then the client waits.
const MOST_TYPED: usize = 1 << 20;
const MOST_WISHES: usize = 64;
const CHUNK: usize = 32 << 10;

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(terminal))
}

pub(crate) fn ticket_routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(ticket))
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TicketAnswer {
    /// For `?ticket=` of the WebSocket's URL.
    ticket: String,
    expires_ms: u64,
}

impl TicketAnswer {
    pub(super) fn new(app: &Shared, caller: &Caller, what: &str) -> Answer<Self> {
        let ticket = app.tickets.issue(caller, what);
        let ticket = ticket.map_err(|error| ApiError::internal("make a ticket", error))?;
        Ok(Self { ticket, expires_ms: GOOD_FOR.as_millis() as u64 })
    }
}

fn purpose(id: &str) -> String {
    format!("/v1/sandboxes/{id}/terminal")
}

/// A ticket for one terminal of this sandbox: what a browser uses, which can't send a key with a WebSocket. Good once, for
/// half a minute.
#[utoipa::path(
    post, path = "/sandboxes/{id}/terminal/ticket", tag = "sandboxes", params(("id" = String, Path)),
    responses((status = 200, body = TicketAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn ticket(
    State(app): State<Shared>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<TicketAnswer>> {
    app.own_sandbox(&caller, &id).await?;
    Ok(Json(TicketAnswer::new(&app, &caller, &purpose(&id))?))
}

/// Who asks: by a key as everywhere, or by a ticket for this very path.
pub(crate) async fn ticket_or_key(
    State(app): State<Shared>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let what = request.uri().path().to_owned();
    by_ticket_or_key(app, Some(what), request, next).await
}

/// The first message.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Start {
    command: Vec<String>,
    #[serde(default = "usual_rows")]
    rows: u16,
    #[serde(default = "usual_columns")]
    columns: u16,
    cwd: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[schema(value_type = Option<u64>, minimum = 1)]
    timeout_ms: Option<Millis>,
    /// The action that was approved for exactly this.
    action: Option<String>,
    /// Where a person has to decide, wait so long for that.
    wait_ms: Option<u64>,
}

fn usual_rows() -> u16 {
    24
}

fn usual_columns() -> u16 {
    80
}

/// What a client says later.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Said {
    Resize { rows: u16, columns: u16 },
    Signal(i32),
}

/// A command on a terminal of its own, over a WebSocket. With a key in the header, or with `?ticket=`. The command ends
/// with the connection.
///
/// First a text message `{"command":["bash"],"rows":24,"columns":80}` (and `cwd`, `env`, `timeout_ms`). Then binary messages
/// both ways; text `{"resize":{"rows":50,"columns":120}}` and `{"signal":2}`. The answer is text `{"started":{…}}`, at the
/// end `{"exit":{…}}` or `{"error":{…}}`; `{"waiting":{…}}` where a person has to approve this action first.
#[utoipa::path(
    get, path = "/sandboxes/{id}/terminal", tag = "sandboxes",
    params(("id" = String, Path), ("ticket" = Option<String>, Query)),
    responses((status = 101, description = "A WebSocket"), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn terminal(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Answer<Response> {
    app.own_sandbox(&caller, &id).await?;
    let upgrade = upgrade.map_err(|rejection| {
        ApiError::bad(rejection.body_text(), "ask for it as a WebSocket: version 13, by GET")
    })?;
    let held = app.hold(&caller)?;
    let upgrade = upgrade.max_message_size(LONGEST_MESSAGE).max_frame_size(LONGEST_MESSAGE);
    Ok(upgrade.on_upgrade(move |mut socket| async move {
        if let Err(error) = attend(&app, &caller, &request_id, &id, &mut socket).await {
            let body = json!({ "error": error.body(&request_id.0).error });
            let _ = say(&mut socket, body).await;
        }
        part(socket).await;
        drop(held);
    }))
}

/// A connection that is closed over bytes that nobody read takes back what it was sent last: the client closes first, if it does
/// so in time.
async fn part(mut socket: WebSocket) {
    if send(&mut socket, Message::Close(None)).await.is_ok() {
        let read_on = async { while let Some(Ok(_)) = socket.recv().await {} };
        let _ = tokio::time::timeout(PARTING, read_on).await;
    }
}

async fn attend(
    app: &Shared,
    caller: &Caller,
    request_id: &RequestId,
    id: &str,
    socket: &mut WebSocket,
) -> Answer<()> {
    let start = first(socket).await?;
    app.check_standing(caller).await?;
    let size = Stdio::Terminal { rows: start.rows, columns: start.columns };
    let claim = Claim { action: start.action, wait_ms: start.wait_ms };
    let request = ExecRequest::of_terminal(start.command, start.cwd, start.env, start.timeout_ms, claim);
    let mut running = match begin(app, caller, request_id, id, request, size).await? {
        Begun::Running(running) => *running,
        Begun::Waiting(row) => {
            let _ = say(socket, json!({ "waiting": ActionAnswer::from(*row) })).await;
            return Ok(());
        }
    };
    let carried = match running.process.take_terminal() {
        Some(terminal) => {
            let revoked = until_revoked(app.clone(), caller.clone());
            carry(&mut running, terminal, socket, revoked).await
        }
        // It could not be started: its end says why.
        None => Ok(()),
    };
    if carried.is_err() {
        let _ = running.process.kill();
    }
    let mut result = running.process.wait().await.map_err(ApiError::from);
    let (duration_ms, mut facts) = running.ended(app, &mut result, Vec::new()).await?;
    result?;
    facts["code"] = facts["exit_code"].clone();
    facts["duration_ms"] = json!(duration_ms);
    let _ = say(socket, json!({ "exit": facts })).await;
    Ok(())
}

async fn first(socket: &mut WebSocket) -> Answer<Start> {
    let wrong = |why: String| {
        ApiError::bad(why, "send {\"command\":[\"bash\"],\"rows\":24,\"columns\":80} as the first message")
    };
    match tokio::time::timeout(PATIENCE, socket.recv()).await {
        Ok(Some(Ok(Message::Text(text)))) => {
            serde_json::from_str(&text).map_err(|error| wrong(format!("the first message is wrong: {error}")))
        }
        Ok(_) => Err(wrong("the first message is not text".into())),
        Err(_) => Err(wrong("no first message came".into())),
    }
}

/// The client is gone, does not take what it is sent, or may ask no longer.
#[derive(Debug)]
struct Gone;

async fn send(socket: &mut WebSocket, message: Message) -> Result<(), Gone> {
    match tokio::time::timeout(STUCK, socket.send(message)).await {
        Ok(Ok(())) => Ok(()),
        _ => Err(Gone),
    }
}

/// What a client said that nobody has looked at yet.
#[derive(Debug, Default)]
struct Inbox {
    typed: VecDeque<u8>,
    wishes: VecDeque<String>,
    closed: bool,
}

impl Inbox {
    fn has_room(&self) -> bool {
        !self.closed && self.typed.len() < MOST_TYPED && self.wishes.len() < MOST_WISHES
    }

    fn take(&mut self, message: Option<Result<Message, axum::Error>>) {
        match message {
            Some(Ok(Message::Binary(bytes))) => self.typed.extend(bytes.iter()),
            Some(Ok(Message::Text(text))) => self.wishes.push_back(text.to_string()),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            _ => self.closed = true,
        }
    }
}

/// Send, and hear meanwhile: a client that says much before it listens would wait for this side, and this side for it.
async fn send_and_hear(socket: &mut WebSocket, message: Message, inbox: &mut Inbox) -> Result<(), Gone> {
    let (mut sink, mut stream) = socket.split();
    let sending = tokio::time::timeout(STUCK, sink.send(message));
    tokio::pin!(sending);
    loop {
        tokio::select! {
            biased;
            sent = &mut sending => return if matches!(sent, Ok(Ok(()))) { Ok(()) } else { Err(Gone) },
            message = stream.next(), if inbox.has_room() => inbox.take(message),
        }
    }
}

async fn say(socket: &mut WebSocket, value: Value) -> Result<(), Gone> {
    send(socket, Message::Text(value.to_string().into())).await
}

/// Until the command has ended. A command may close its terminal and live on, and may open it again: the far end stays open as
/// long as it lives, or it would be hung up on.
async fn carry(
    running: &mut Running,
    terminal: File,
    socket: &mut WebSocket,
    revoked: impl Future<Output = ()>,
) -> Result<(), Gone> {
    tokio::pin!(revoked);
    let Screen { mut shown, mut keys, terminal } = Screen::new(terminal).map_err(|_| Gone)?;
    say(socket, json!({ "started": { "process": running.process.id() } })).await?;
    let mut inbox = Inbox::default();
    let mut ping = tokio::time::interval(PING);
    let mut closed = false;
    loop {
        while let Some(text) = inbox.wishes.pop_front() {
            hear(running, &terminal, &text, socket).await?;
        }
        if inbox.closed {
            return Err(Gone);
        }
        tokio::select! {
            biased;
            () = &mut revoked => {
                let error = wrong_key();
                let _ = say(socket, json!({ "problem": error.message })).await;
                return Err(Gone);
            },
            bytes = read(&mut shown), if !closed => match bytes {
                Ok(bytes) if !bytes.is_empty() => {
                    send_and_hear(socket, Message::Binary(bytes.into()), &mut inbox).await?;
                }
                _ => closed = true,
            },
            _ = running.process.wait() => return rest(&mut shown, socket, &mut inbox).await,
            wrote = write(&mut keys, &mut inbox.typed), if !inbox.typed.is_empty() => {
                if wrote.is_err() {
                    inbox.typed.clear();
                }
            },
            message = socket.recv(), if inbox.has_room() => inbox.take(message),
            () = tokio::time::sleep(LOOK_AGAIN), if closed => closed = false,
            _ = ping.tick() => send(socket, Message::Ping(Default::default())).await?,
        }
    }
}

/// What the command wrote last. What it left running may hold the terminal: that is not waited for.
async fn rest(shown: &mut pipe::Receiver, socket: &mut WebSocket, inbox: &mut Inbox) -> Result<(), Gone> {
    while let Ok(Ok(bytes)) = tokio::time::timeout(LAST_WORDS, read(shown)).await
        && !bytes.is_empty()
    {
        // Nobody takes it any more.
        inbox.typed.clear();
        send_and_hear(socket, Message::Binary(bytes.into()), inbox).await?;
    }
    Ok(())
}

async fn hear(running: &Running, terminal: &File, text: &str, socket: &mut WebSocket) -> Result<(), Gone> {
    let problem = match serde_json::from_str(text) {
        Ok(Said::Resize { rows, columns }) => {
            let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
            tcsetwinsize(terminal, size).err().map(|error| error.to_string())
        }
        Ok(Said::Signal(signal @ 1..=64)) => {
            running.process.signal(signal).err().map(|error| error.to_string())
        }
        Ok(Said::Signal(signal)) => Some(format!("{signal} is no signal")),
        Err(error) => Some(error.to_string()),
    };
    match problem {
        Some(problem) => say(socket, json!({ "problem": problem })).await,
        None => Ok(()),
    }
}

/// The two ends of what is typed and shown; neither makes a thread wait.
struct Screen {
    shown: pipe::Receiver,
    keys: pipe::Sender,
    /// For its size.
    terminal: File,
}

impl Screen {
    fn new(terminal: File) -> io::Result<Self> {
        fcntl_setfl(&terminal, fcntl_getfl(&terminal)? | OFlags::NONBLOCK)?;
        // No pipes, but what is done with them is the same: wait until there is something, then read or write.
        Ok(Self {
            shown: pipe::Receiver::from_file_unchecked(terminal.try_clone()?)?,
            keys: pipe::Sender::from_file_unchecked(terminal.try_clone()?)?,
            terminal,
        })
    }
}

/// Nothing, or an error, where the last of its processes has let go of it.
async fn read(shown: &mut pipe::Receiver) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; CHUNK];
    let length = shown.read(&mut bytes).await?;
    bytes.truncate(length);
    Ok(bytes)
}

async fn write(keys: &mut pipe::Sender, typed: &mut VecDeque<u8>) -> io::Result<()> {
    let wrote = keys.write(typed.as_slices().0).await?;
    typed.drain(..wrote);
    Ok(())
}
