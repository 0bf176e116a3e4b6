//! Events on their way to the owner. A push never waits: what does not fit into the socket is kept here, in order.
//!
//! Bounded: denials are what a hostile program can make without end, so beyond a cap they are only counted; connections
//! and names can't outrun the owner, because whoever makes them waits (`room`) while much is unsent.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::channel::Channel;
use crate::event::Event;
use crate::lock::Lock;

/// Denials are dropped while more than this is unsent.
const MOST_DENIALS: usize = 2048;
/// No new connection and no new name while more than this is unsent.
const ROOM: usize = 1024;

#[derive(Clone)]
pub(crate) struct Outbox(Arc<Inner>);

struct Inner {
    channel: Arc<Channel>,
    queue: Lock<VecDeque<Vec<u8>>>,
    /// Something was queued.
    queued: Notify,
    /// Something was sent.
    sent: Notify,
}

impl Outbox {
    pub(crate) fn new(channel: Arc<Channel>) -> Self {
        Self(Arc::new(Inner { channel, queue: Lock::default(), queued: Notify::new(), sent: Notify::new() }))
    }

    pub(crate) fn push(&self, event: Event) {
        let Ok(packet) = serde_json::to_vec(&event) else { return };
        let mut queue = self.0.queue.lock();
        if queue.is_empty() && self.0.channel.try_send(&packet).is_ok() {
            return;
        }
        if matches!(event, Event::Denied { .. }) && queue.len() >= MOST_DENIALS {
            return;
        }
        queue.push_back(packet);
        drop(queue);
        self.0.queued.notify_one();
    }

    /// Wait until everything that was pushed is with the owner.
    pub(crate) async fn settled(&self) {
        self.wait_for_at_most(0).await;
    }

    /// Wait until the owner has caught up enough for something new.
    pub(crate) async fn room(&self) {
        self.wait_for_at_most(ROOM).await;
    }

    async fn wait_for_at_most(&self, most: usize) {
        loop {
            let sent = self.0.sent.notified();
            tokio::pin!(sent);
            sent.as_mut().enable();
            if self.0.queue.lock().len() <= most {
                return;
            }
            sent.await;
        }
    }

    /// Send what is queued and wait for it, once the runtime is gone. An owner that does not read is not waited for long.
    pub(crate) fn flush(&self) {
        for packet in std::mem::take(&mut *self.0.queue.lock()) {
            if self.0.channel.send_blocking(&packet).is_err() {
                return;
            }
        }
    }

    /// Send what is queued, for ever; ends with the channel.
    pub(crate) async fn deliver(&self) -> io::Error {
        loop {
            let front = self.0.queue.lock().front().cloned();
            let Some(packet) = front else {
                self.0.queued.notified().await;
                continue;
            };
            match self.0.channel.try_send(&packet) {
                Ok(()) => {
                    self.0.queue.lock().pop_front();
                    self.0.sent.notify_waiters();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Err(error) = self.0.channel.writable().await {
                        return error;
                    }
                }
                Err(error) => return error,
            }
        }
    }
}
