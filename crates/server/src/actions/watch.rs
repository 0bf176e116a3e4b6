//! Waiting for what happens to actions. What happens here is told at once; whoever decides may be another process, so the
//! sweep looks for news, once for all who wait.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use axum::response::sse::Event;
use futures_util::Stream;
use ringfence_store::{ActionEvent, ActionRow, ActionState, Store, StoreError};
use serde_json::json;
use tokio::sync::{Notify, watch};

use crate::app::Shared;
use crate::held::Held;

/// Should a sweep fail, those who wait look for themselves.
const POLL: Duration = Duration::from_secs(5);
const PAGE: u32 = 200;

#[derive(Debug)]
pub(crate) struct Watch {
    changed: Notify,
    stopping: watch::Receiver<bool>,
}

impl Watch {
    pub(crate) fn new(stopping: watch::Receiver<bool>) -> Self {
        Self { changed: Notify::new(), stopping }
    }

    /// Something happened to some action.
    pub(crate) fn tell(&self) {
        self.changed.notify_waiters();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Whether the server stops, for whoever has to end then.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.clone()
    }

    /// Until something may have happened, or the server stops.
    async fn news(&self, changed: impl Future<Output = ()>, most: Duration) {
        let mut stopping = self.stopping.clone();
        tokio::select! {
            () = changed => {}
            () = tokio::time::sleep(POLL.min(most)) => {}
            _ = stopping.wait_for(|stop| *stop) => {}
        }
    }

    /// The action once it is decided, or as it is after that time.
    pub(crate) async fn decided(
        &self,
        store: &Store,
        mut row: ActionRow,
        wait: Duration,
    ) -> Result<ActionRow, StoreError> {
        let until = Instant::now() + wait;
        loop {
            let changed = self.changed.notified();
            let left = until.saturating_duration_since(Instant::now());
            if row.state != ActionState::Waiting || left.is_zero() || self.is_stopping() {
                return Ok(row);
            }
            match store.action(&row.id).await? {
                Some(now) if now.state == ActionState::Waiting => {}
                Some(now) => return Ok(now),
                // Its user was removed meanwhile.
                None => return Ok(row),
            }
            self.news(changed, left).await;
            if let Some(now) = store.action(&row.id).await? {
                row = now;
            }
        }
    }
}

struct Follower {
    app: Shared,
    after: i64,
    /// None: everybody's.
    user: Option<String>,
    ready: VecDeque<Event>,
    _held: Held,
}

/// Events after this number as they come, until the server stops.
pub(crate) fn follow(
    app: Shared,
    after: i64,
    user: Option<String>,
    held: Held,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let follower = Follower { app, after, user, ready: VecDeque::new(), _held: held };
    futures_util::stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok(event), follower))
    })
}

impl Follower {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let app = self.app.clone();
            if app.actions.is_stopping() {
                return None;
            }
            let changed = app.actions.changed.notified();
            match app.store.events_after(self.after, self.user.as_deref(), PAGE).await {
                Ok(events) if events.is_empty() => app.actions.news(changed, POLL).await,
                Ok(events) => {
                    for event in events {
                        self.after = event.seq;
                        let told = told(&app, &event).await;
                        self.ready.push_back(told);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "events of actions can't be read");
                    return None;
                }
            }
        }
    }
}

async fn told(app: &Shared, event: &ActionEvent) -> Event {
    let row = app.store.action(&event.action).await.ok().flatten();
    let data = json!({
        "action": event.action,
        "user": event.user,
        "state": event.state,
        "by": event.by,
        "at": event.at,
        "kind": row.as_ref().map(|row| &row.kind),
        "level": row.as_ref().map(|row| row.level),
        "summary": row.as_ref().map(|row| &row.summary),
    });
    Event::default().event("action").id(event.seq.to_string()).data(data.to_string())
}
