//! Streams of events that can be taken up again: what a command does is written to a log in memory, and a response reads
//! from it. A response that breaks off leaves the log, so that another can go on after the last event it had.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::response::sse::Event;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::Stream;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// What a log holds before its writer waits for a reader, or, with none, drops the oldest.
const MOST_BYTES: usize = 4 << 20;
/// How long a stream that has ended can be taken up again.
const KEPT: Duration = Duration::from_secs(300);
/// How many that have ended are kept for one user: the oldest goes first.
const MOST_ENDED: usize = 16;

#[derive(Clone, Debug)]
struct Entry {
    sequence: u64,
    name: &'static str,
    data: String,
}

/// One event of a stream, as the document describes it.
#[derive(Debug, utoipa::ToSchema)]
#[expect(dead_code, reason = "said in the document; written by `Event`")]
pub(crate) struct StreamEvent {
    /// start, stdout, stderr, denial, gap, exit or error
    event: String,
    /// For `Last-Event-ID`.
    id: Option<String>,
    /// A JSON object as text.
    data: String,
}

/// What becomes of a command whose reader goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDisconnect {
    End,
    Keep,
}

#[derive(Debug)]
pub(crate) struct EventLog {
    pub(crate) id: String,
    pub(crate) user: String,
    on_disconnect: OnDisconnect,
    inner: Mutex<Inner>,
    written: Notify,
    read: Notify,
    abandoned: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    entries: VecDeque<Entry>,
    bytes: usize,
    next: u64,
    readers: usize,
    /// Told to some reader; what is beyond must wait for them.
    told: u64,
    closed: bool,
}

impl EventLog {
    pub(crate) fn new(id: String, user: String, on_disconnect: OnDisconnect) -> Arc<Self> {
        Arc::new(Self {
            id,
            user,
            on_disconnect,
            inner: Mutex::default(),
            written: Notify::new(),
            read: Notify::new(),
            abandoned: Notify::new(),
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Append an event; waits where a reader is far behind.
    pub(crate) async fn write(&self, name: &'static str, data: &Value) {
        let data = data.to_string();
        loop {
            let wait = self.read.notified();
            {
                let mut inner = self.inner();
                let full = inner.bytes + data.len() > MOST_BYTES && !inner.entries.is_empty();
                let unread = inner.entries.front().is_some_and(|first| first.sequence >= inner.told);
                if !(full && inner.readers > 0 && unread) {
                    inner.push(name, data);
                    break;
                }
            }
            wait.await;
        }
        self.written.notify_waiters();
    }

    /// Bytes of stdout or stderr: as text, or as base64 where they are none.
    pub(crate) async fn write_output(&self, name: &'static str, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let data = match String::from_utf8(bytes) {
            Ok(text) => json!({ "text": text }),
            Err(error) => json!({ "base64": STANDARD.encode(error.into_bytes()) }),
        };
        self.write(name, &data).await;
    }

    pub(crate) fn close(&self) {
        self.inner().closed = true;
        self.written.notify_waiters();
    }

    /// Until the last reader of a command that should end with it is gone.
    pub(crate) async fn abandoned(&self) {
        loop {
            let gone = self.abandoned.notified();
            if self.is_abandoned() {
                return;
            }
            gone.await;
        }
    }

    fn is_abandoned(&self) -> bool {
        let inner = self.inner();
        self.on_disconnect == OnDisconnect::End && inner.readers == 0 && !inner.closed
    }

    /// The events after `last`, as they come, until the log is closed.
    pub(crate) fn follow(
        self: &Arc<Self>,
        last: Option<u64>,
    ) -> impl Stream<Item = Result<Event, std::convert::Infallible>> + use<> {
        self.inner().readers += 1;
        let reader = Reader { log: Arc::clone(self), next: last.map_or(0, |last| last + 1) };
        futures_util::stream::unfold(reader, |mut reader| async move {
            let event = reader.next().await?;
            Some((Ok(event), reader))
        })
    }
}

impl Inner {
    fn push(&mut self, name: &'static str, data: String) {
        while self.bytes + data.len() > MOST_BYTES
            && let Some(oldest) = self.entries.pop_front()
        {
            self.bytes -= oldest.data.len();
        }
        self.bytes += data.len();
        self.entries.push_back(Entry { sequence: self.next, name, data });
        self.next += 1;
    }
}

struct Reader {
    log: Arc<EventLog>,
    next: u64,
}

impl Reader {
    async fn next(&mut self) -> Option<Event> {
        loop {
            let log = Arc::clone(&self.log);
            let written = log.written.notified();
            {
                let mut inner = log.inner();
                let first = inner.entries.front().map_or(inner.next, |entry| entry.sequence);
                if self.next < first {
                    let lost = first - self.next;
                    self.next = first;
                    let data = json!({ "events": lost }).to_string();
                    return Some(Event::default().event("gap").data(data));
                }
                if let Some(entry) = inner.entries.get((self.next - first) as usize).cloned() {
                    self.next += 1;
                    inner.told = inner.told.max(self.next);
                    drop(inner);
                    log.read.notify_waiters();
                    let id = format!("{}.{}", log.id, entry.sequence);
                    return Some(Event::default().event(entry.name).id(id).data(entry.data));
                }
                if inner.closed {
                    return None;
                }
            }
            written.await;
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.log.inner().readers -= 1;
        self.log.read.notify_waiters();
        self.log.abandoned.notify_waiters();
    }
}

/// All streams that can be taken up again.
#[derive(Debug, Default)]
pub(crate) struct Streams(Mutex<HashMap<String, Arc<EventLog>>>);

impl Streams {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<EventLog>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, log: &Arc<EventLog>) {
        self.all().insert(log.id.clone(), Arc::clone(log));
    }

    /// Its command has ended. One that should outlive its reader is kept for a while, but not without bound: a log is
    /// megabytes.
    pub(crate) async fn ended(&self, log: &EventLog) {
        log.close();
        if log.on_disconnect == OnDisconnect::Keep {
            self.forget_oldest(&log.user);
            tokio::time::sleep(KEPT).await;
        }
        self.all().remove(&log.id);
    }

    fn forget_oldest(&self, user: &str) {
        let mut all = self.all();
        let mut ended: Vec<String> = all
            .values()
            .filter(|log| log.user == user && log.inner().closed)
            .map(|log| log.id.clone())
            .collect();
        // Ids are in the order of time.
        ended.sort_unstable();
        for id in ended.iter().rev().skip(MOST_ENDED) {
            all.remove(id);
        }
    }

    /// The log and the last event of a `Last-Event-ID`, if it is this user's.
    pub(crate) fn resume(&self, user: &str, last_event_id: &str) -> Option<(Arc<EventLog>, u64)> {
        let (id, sequence) = last_event_id.rsplit_once('.')?;
        let log = self.all().get(id).filter(|log| log.user == user).cloned()?;
        Some((log, sequence.parse().ok()?))
    }

    /// The log of this stream, if it is this user's and still there.
    pub(crate) fn whole(&self, user: &str, id: &str) -> Option<Arc<EventLog>> {
        self.all().get(id).filter(|log| log.user == user).cloned()
    }

    pub(crate) fn count(&self) -> usize {
        self.all().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;

    fn log(on_disconnect: OnDisconnect) -> Arc<EventLog> {
        EventLog::new("r1".into(), "ada".into(), on_disconnect)
    }

    async fn all(log: &Arc<EventLog>, last: Option<u64>) -> usize {
        log.follow(last).count().await
    }

    #[tokio::test]
    async fn taken_up_after_the_last_event() {
        let log = log(OnDisconnect::Keep);
        for n in 0..5 {
            log.write("stdout", &json!({ "text": n })).await;
        }
        log.close();
        assert_eq!(all(&log, None).await, 5);
        assert_eq!(all(&log, Some(2)).await, 2);
        let streams = Streams::default();
        streams.add(&log);
        assert!(streams.resume("ada", "r1.2").is_some());
        assert!(streams.resume("eve", "r1.2").is_none());
        assert!(streams.resume("ada", "r1").is_none());
        assert!(streams.resume("ada", "r1.x").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_ended_is_kept_for_a_while_and_not_without_bound() {
        let streams = Arc::new(Streams::default());
        for n in 0..100 {
            let log = EventLog::new(format!("{n:03}"), "ada".into(), OnDisconnect::Keep);
            streams.add(&log);
            let streams = Arc::clone(&streams);
            tokio::spawn(async move { streams.ended(&log).await });
            tokio::task::yield_now().await;
        }
        assert_eq!(streams.count(), MOST_ENDED);
        assert!(streams.resume("ada", "099.0").is_some() && streams.resume("ada", "000.0").is_none());
        let gone = EventLog::new("x".into(), "ada".into(), OnDisconnect::End);
        streams.add(&gone);
        streams.ended(&gone).await;
        assert!(streams.resume("ada", "x.0").is_none());
        tokio::time::sleep(KEPT * 2).await;
        assert_eq!(streams.count(), 0);
    }

    #[tokio::test]
    async fn with_no_reader_the_oldest_is_dropped_and_a_gap_is_told() {
        let log = log(OnDisconnect::Keep);
        let big = json!({ "text": "x".repeat(MOST_BYTES / 3) });
        for _ in 0..10 {
            log.write("stdout", &big).await;
        }
        log.close();
        assert!(all(&log, None).await <= 3);
    }

    #[tokio::test]
    async fn a_reader_that_is_behind_is_waited_for() {
        let log = log(OnDisconnect::End);
        let mut events = Box::pin(log.follow(None));
        let big = json!({ "text": "x".repeat(MOST_BYTES / 2 + 1) });
        log.write("stdout", &big).await;
        let second = log.write("stdout", &big);
        tokio::pin!(second);
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut second).await.is_err());
        assert!(events.next().await.is_some());
        second.await;
        drop(events);
        log.abandoned().await;
    }
}
