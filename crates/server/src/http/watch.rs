//! Changes of a sandbox's files, as they happen.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use ringfence_sandbox::{FileChange, FileEvent, Reach, Watch};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::files::inside;
use crate::app::Shared;
use crate::auth::Caller;
use crate::blocking;
use crate::body::{Asked, Named};
use crate::error::{Answer, ErrorBody};
use crate::standing::until_revoked;

/// How long a reader that went away goes unnoticed while nothing happens.
const GLANCE: Duration = Duration::from_millis(500);
const WAITING: usize = 256;

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(watch))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WatchQuery {
    /// Absolute inside the sandbox, or relative to its workspace.
    #[param(example = ".")]
    path: String,
    /// Directories below it too.
    #[serde(default)]
    recursive: bool,
}

/// Hear of changes below a path: Server-Sent Events `start`, then `change` `{"change","path"}`, until the sandbox ends.
/// `overflow` as the change means that some were too many to be told: look again.
#[utoipa::path(
    get, path = "/sandboxes/{id}/files/watch", tag = "files", params(("id" = String, Path), WatchQuery),
    responses(
        (status = 200, description = "Events", content_type = "text/event-stream", body = String),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn watch(
    State(app): State<Shared>,
    caller: Caller,
    Named(id): Named<String>,
    Asked(query): Asked<WatchQuery>,
) -> Answer<Response> {
    // Without `.`: events tell paths as they are found below it.
    let top: std::path::PathBuf = inside(&query.path)?.components().collect();
    let reach = if query.recursive { Reach::Tree } else { Reach::One };
    let (_, sandbox) = app.sandbox(&caller, &id).await?;
    let permit = (app.slot(&caller)?, app.hold(&caller)?);
    let watch = blocking(move || Ok(sandbox.files()?.watch(&top, reach)?)).await?;
    let (sender, events) = mpsc::channel(WAITING);
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        follow(watch, &sender);
    });
    let stream = Sse::new(ReceiverStream::new(events).take_until(until_revoked(app, caller)));
    let stream = stream.keep_alive(KeepAlive::default());
    Ok(([("x-accel-buffering", "no")], stream).into_response())
}

type Told = Result<Event, Infallible>;

fn follow(mut watch: Watch, to: &mpsc::Sender<Told>) {
    let tell = |name: &str, data: Value| {
        to.blocking_send(Ok(Event::default().event(name).data(data.to_string()))).is_ok()
    };
    let mut listening = tell("start", json!({}));
    while listening && !to.is_closed() {
        match watch.next_within(GLANCE) {
            Ok(Some(event)) => listening = tell("change", told(&event)),
            Ok(None) => {}
            Err(_) => {
                tell("end", json!({ "why": "the sandbox, or what was watched, is gone" }));
                return;
            }
        }
    }
}

fn told(event: &FileEvent) -> Value {
    let change = match event.change {
        FileChange::Created => "created",
        FileChange::Changed => "changed",
        FileChange::Written => "written",
        FileChange::Removed => "removed",
        FileChange::MovedFrom => "moved_from",
        FileChange::MovedTo => "moved_to",
        FileChange::Metadata => "metadata",
        FileChange::Overflow => "overflow",
        FileChange::Unwatched => "unwatched",
    };
    json!({ "change": change, "path": event.path.to_string_lossy() })
}
